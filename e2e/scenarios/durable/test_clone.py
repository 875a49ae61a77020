"""A clone beside its live original on the embedded host: made, used, and deleted, while nothing of the original changes."""

import base64
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e import tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.poll import NotYetError, until
from e2e.scenarios.durable import clones
from e2e.scenarios.durable.conftest import NAME, Backups
from e2e.tenants import Tenant

CLONE = f"{NAME}-2"
SNAPSHOT = f"{NAME}-c"
PAGE = "made by a Deployment"


@pytest.fixture
def clone_name(host: Api) -> Iterator[str]:
    """The name of a tenant that is not there before and after."""
    with clones.away(host, SNAPSHOT, CLONE):
        yield CLONE


def fill(red: Tenant) -> None:
    red.api.create(workloads.deployment("web", 2, workloads.pod_spec(workloads.web_server(PAGE), ports=[8080])))
    red.api.create(workloads.service("web", "web", 8080))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}}
    meta = {"name": "data", "namespace": "default"}
    red.api.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = workloads.pod_spec(("sh", "-c", "echo of red > /data/word && sleep 3600"), volumes=volumes)
    spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    red.api.create(workloads.deployment("keeps", 1, spec))
    red.api.create(workloads.pod("alone"))
    red.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "word"}, "stringData": {"a": "b"}}, "default")
    noted = {"name": "robot", "annotations": {"kubernetes.io/service-account.name": "default"}}
    kind = "kubernetes.io/service-account-token"
    red.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": noted, "type": kind}, "default")
    for name, replicas in (("web", 2), ("keeps", 1)):
        workloads.wait_available(red.api, name, replicas, seconds=120)
    workloads.wait_running(red.api, "alone")


def on_host(host: Api, tenant: Tenant) -> dict[str, str]:
    """The UIDs of what a tenant has on the host, and the volumes of its claims."""
    found = {}
    for kind in ("Pod", "PersistentVolumeClaim", "Service", "Secret", "ConfigMap", "Lease"):
        for obj in host.list(kind, tenant.work):
            if not obj["metadata"].get("deletionTimestamp"):
                found[f"{kind} {obj['metadata']['name']}"] = obj["metadata"]["uid"]
                if volume := (obj.get("spec") or {}).get("volumeName"):
                    found[f"volume of {obj['metadata']['name']}"] = volume
    return found


def volume_of(host: Api, tenant: Tenant) -> str:
    (claim,) = host.list("PersistentVolumeClaim", tenant.work)
    return str(claim["spec"]["volumeName"])


def pods_of(host: Api, tenant: Tenant) -> dict[str, tuple[str, dict[str, int]]]:
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], workloads.restarts(pod))
        for pod in host.list("Pod", tenant.work)
        if not pod["metadata"].get("deletionTimestamp")
    }


def stored_token(tenant: Tenant) -> str:
    def there() -> str:
        found = tenant.api.get("Secret", "robot", "default").get("data") or {}
        if "token" not in found:
            raise NotYetError("it has no token")
        return str(found["token"])

    return base64.b64decode(until("the token of the Secret", there, seconds=60)).decode()


def asked_with(server: Tenant, user: Obj, folder: Path) -> int:
    """The status with which a plane answers these credentials; its CA is known, so that they alone decide."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = user
    file = folder / "other.yaml"
    file.write_text(yaml.safe_dump(config))
    try:
        Api(file).request("GET", "/api")
    except ApiError as error:
        return error.status
    return 200


def test_a_clone_lives_and_ends_beside_its_original_which_notices_nothing(
    host: Api, red: Tenant, backups: Backups, clone_name: str, tmp_path: Path
) -> None:
    fill(red)
    clones.snapshot(NAME, SNAPSHOT)
    pods, before = pods_of(host, red), on_host(host, red)
    of_red = host.get("Tenant", NAME)["status"]
    inside = {obj["metadata"]["uid"] for obj in red.api.list("Lease")}
    dry = clones.clone(NAME, SNAPSHOT, clone_name, backups, "--dry-run")
    print(dry.text, flush=True)
    assert dry.code == 0, dry.text
    assert "1 pods that no controller makes again: default/alone" in dry.err
    assert host.find("Tenant", clone_name) is None

    began = time.monotonic()
    done = clones.clone(NAME, SNAPSHOT, clone_name, backups)
    seconds = time.monotonic() - began
    print(f"cloned in {seconds:.0f} s:\n{done.text}", flush=True)
    assert done.code == 0, done.text
    tenants.wait_ready(host, [CLONE], seconds=120)
    print(f"ready {time.monotonic() - began:.0f} s after the command began", flush=True)
    red2 = tenants.open_tenant(CLONE)

    # What is the tenant's is there, and works.
    assert red2.api.get("Secret", "word", "default")["data"] == red.api.get("Secret", "word", "default")["data"]
    for name, replicas in (("web", 2), ("keeps", 1)):
        workloads.wait_available(red2.api, name, replicas, seconds=180)
    assert red2.api.find("Pod", "alone", "default") is None
    fetch = ("sh", "-c", f'wget -qO- http://web:8080 | grep -q "{PAGE}"')
    red2.api.create(workloads.job("asks", workloads.pod_spec(fetch, restart="Never")))
    workloads.wait_job(red2.api, "asks", seconds=120)

    # Identity, slice and cluster are its own.
    clones.own(host, NAME, CLONE)
    addresses = {tenant.name: tenant.api.get("Service", "web", "default")["spec"]["clusterIP"] for tenant in (red, red2)}
    assert addresses[NAME] != addresses[CLONE]

    # Nothing of the host is shared, and no lease.
    shared = set(on_host(host, red).values()) & set(on_host(host, red2).values())
    assert not shared, {name for name, uid in on_host(host, red2).items() if uid in shared}
    assert not inside & {obj["metadata"]["uid"] for obj in red2.api.list("Lease")}
    assert volume_of(host, red2) != volume_of(host, red)

    # Tokens and kubeconfigs of each are worth nothing at the other; at their own they are.
    for mine, other in ((red, red2), (red2, red)):
        config = yaml.safe_load(mine.kubeconfig.read_text())["users"][0]["user"]
        for user in (config, {"token": mine.api.token("default", "default")}, {"token": stored_token(mine)}):
            assert asked_with(mine, user, tmp_path) == 200
            assert asked_with(other, user, tmp_path) == 401

    # The original has noticed nothing: the same pods, without a restart, and everything else of it on the host.
    assert pods_of(host, red) == pods
    assert on_host(host, red).items() >= {name: uid for name, uid in before.items() if "Lease" not in name}.items()
    tenants.remove(host, CLONE)
    assert pods_of(host, red) == pods
    after = host.get("Tenant", NAME)
    assert tenants.is_ready(after)
    for field in clones.OWN:
        assert after["status"][field] == of_red[field], field
    assert on_host(host, red).items() >= before.items()
    red.api.create(workloads.pod("newer"))
    workloads.wait_running(red.api, "newer")
