"""A snapshot of a tenant at work: asked for and verified as an admin does, with nothing of it in the clear."""

import base64
import json

from e2e import commands, machine, workloads
from e2e.api import Api
from e2e.scenarios.durable.conftest import NAME, Backups
from e2e.tenants import Tenant

WORD = "a-word-that-must-not-leave-the-host"


def bulkhead(*arguments: str) -> commands.Outcome:
    return commands.bulkhead("tenant", *arguments, kubeconfig=machine.KUBECONFIG, check=False, seconds=240)


def test_a_plane_has_an_identity_that_its_tokens_and_its_record_carry(host: Api, red: Tenant) -> None:
    tenant = host.get("Tenant", NAME)
    identity = tenant["status"]["planeIdentity"]
    issuer = json.loads(red.api.text("/.well-known/openid-configuration"))["issuer"]
    assert issuer == f"https://{identity}.kubernetes.default.svc"
    secret = host.get("Secret", "plane-record", red.plane)
    record = json.loads(json.loads(base64.b64decode(secret["data"]["record.json"]))["text"])
    assert (record["id"], record["tenant"], record["tenantUID"]) == (identity, NAME, tenant["metadata"]["uid"])


def test_a_snapshot_is_taken_at_work_and_verified(host: Api, red: Tenant, backups: Backups) -> None:
    red.api.create(workloads.pod("works"))
    virtual = workloads.wait_running(red.api, "works")
    before = workloads.host_pod_of(host, virtual, red.work)["metadata"]["uid"]
    restarts = workloads.restarts(host.get("Pod", "plane-0", red.plane))
    meta = {"name": WORD, "namespace": "default"}
    red.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"word": WORD}})
    # An interrupted run left it.
    host.delete("TenantSnapshot", f"{NAME}-1")
    taken = bulkhead("snapshot", NAME, "--as", f"{NAME}-1")
    assert taken.code == 0, taken.text
    snapshot = host.get("TenantSnapshot", f"{NAME}-1")
    assert snapshot["status"]["identity"] == host.get("Tenant", NAME)["status"]["planeIdentity"]
    verified = bulkhead("verify-snapshot", f"{NAME}-1", "--key", str(backups.key), "--directory", str(backups.folder))
    assert verified.code == 0, verified.text
    assert "is whole" in verified.out
    # The place may have snapshots of other scenarios, and of planes that are gone.
    home = backups.folder / snapshot["status"]["identity"] / f"{NAME}-1"
    files = [path for path in home.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"etcd.age", "plane.age", "manifest.json"}
    for path in files:
        data = path.read_bytes()
        assert WORD.encode() not in data
        assert b"PRIVATE KEY" not in data
    # The control: one byte is enough.
    store = next(path for path in files if path.name == "etcd.age")
    whole = store.read_bytes()
    store.write_bytes(whole[:-1])
    refused = bulkhead("verify-snapshot", f"{NAME}-1", "--key", str(backups.key), "--directory", str(backups.folder))
    assert (refused.code, "truncated" in refused.err) == (1, True), refused.text
    # Nothing of the tenant noticed.
    assert workloads.host_pod_of(host, virtual, red.work)["metadata"]["uid"] == before
    assert workloads.restarts(host.get("Pod", "plane-0", red.plane)) == restarts
    host.delete("TenantSnapshot", f"{NAME}-1")
