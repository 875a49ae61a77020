"""The audit trail of a plane: it records each user's actions, outlives the pod, has no secrets, and no tenant can reach it."""

import json
import uuid
from functools import cache
from typing import Any

import pytest

from e2e import commands, machine, tenants
from e2e.api import Api, Obj
from e2e.fleet import Fleet
from e2e.poll import NotYetError, until
from e2e.scenarios.core.shared import audited
from e2e.tenants import Tenant

PRINTED = "e2e-printed"
CANARY = f"canary-{uuid.uuid4().hex}"


@cache
def ahead(fleet: Fleet) -> Obj:
    """A tenant of a class that writes its trail to stdout."""
    return fleet.order_of_own_class(PRINTED, gpus=0, audit={"sink": "Stdout"})


@pytest.fixture(scope="module")
def both(fleet: Fleet) -> tuple[Tenant, Tenant]:
    """A tenant whose trail is in files on the plane's volume, and one whose trail is printed."""
    stdout, (files, _) = ahead(fleet), audited(fleet)
    return fleet.take(files), fleet.take(stdout)


def trail(tenant: Tenant, *options: str) -> list[dict[str, Any]]:
    outcome = commands.bulkhead("audit", tenant.name, "-o", "json", *options, kubeconfig=machine.KUBECONFIG)
    return [json.loads(line) for line in outcome.out.splitlines()]


def created(tenant: Tenant, resource: str, name: str) -> dict[str, Any]:
    """Wait until the trail contains the creation of an object."""

    def probe() -> dict[str, Any]:
        for event in trail(tenant, "--verb", "create", "--limit", "5000"):
            target = event.get("objectRef") or {}
            if (target.get("resource"), target.get("name")) == (resource, name):
                return event
        raise NotYetError(f"no creation of {resource} {name}")

    return until("the trail to have it", probe, seconds=30)


def secret(name: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "stringData": {"password": CANARY},
    }


def service(name: str) -> Obj:
    meta = {"name": name, "namespace": "default", "annotations": {"note": f"{CANARY}-seen"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"port": 80}]}}


def test_files_outlive_the_pod_and_hold_no_secret(host: Api, both: tuple[Tenant, Tenant]) -> None:
    tenant = both[0]
    for obj in (secret("told"), {**secret("told"), "kind": "ConfigMap", "stringData": None, "data": {"x": CANARY}}):
        tenant.api.create({key: value for key, value in obj.items() if value}, "default")
    tenant.api.create(service("seen"), "default")
    tenant.api.token("default", "default")
    before = created(tenant, "secrets", "told")
    assert before["user"]["username"].startswith("bulkhead:host:")
    assert before["level"] == "Metadata"
    # The positive control: for a kind without credentials, the trail has the object that was sent.
    assert f"{CANARY}-seen" in json.dumps(created(tenant, "services", "seen"))
    uid = host.get("Pod", "plane-0", tenant.plane)["metadata"]["uid"]
    host.delete("Pod", "plane-0", tenant.plane)
    tenants.wait_other_plane(host, tenant.name, uid)
    assert created(tenant, "secrets", "told")["auditID"] == before["auditID"]
    whole = trail(tenant, "--since", "1d", "--limit", "10000")
    assert CANARY not in json.dumps(whole).replace(f"{CANARY}-seen", "")
    assert not any("token" in event.get("responseObject", {}).get("status", {}) for event in whole)
    assert {event["stage"] for event in whole}.isdisjoint({"RequestReceived"})


def test_the_trail_records_users_who_act_as_the_platform(both: tuple[Tenant, Tenant]) -> None:
    for tenant in both:
        commands.kubectl(tenant.kubeconfig, "get", "secrets", "-A", "--as=bulkhead:syncer", check=False)

        def probe(tenant: Tenant = tenant) -> Any:
            if not (found := trail(tenant, "--user", "bulkhead:syncer", "--verb", "list")):
                raise NotYetError("nothing")
            return found[-1]

        event = until("the trail to have it", probe, seconds=30)
        assert event["user"]["username"].startswith("bulkhead:host:")
        assert event["impersonatedUser"]["username"] == "bulkhead:syncer"


def test_stdout_is_read_as_files_are(both: tuple[Tenant, Tenant]) -> None:
    tenant = both[1]
    tenant.api.create(secret("printed"), "default")
    assert created(tenant, "secrets", "printed")["user"]["username"].startswith("bulkhead:host:")
    printed = commands.bulkhead("audit", tenant.name, "--verb", "create", kubeconfig=machine.KUBECONFIG).out
    assert "secrets default/printed" in printed
    assert CANARY not in printed


def test_no_tenant_reads_a_trail(both: tuple[Tenant, Tenant]) -> None:
    for tenant in both:
        refused = commands.bulkhead("audit", both[0].name, kubeconfig=tenant.kubeconfig, check=False)
        assert (refused.code, refused.out) == (1, "")
        assert "has no Tenants" in refused.err, refused.err
    # With the host's kubeconfig the same command succeeds.
    assert trail(both[0])


def test_a_class_without_a_trail_is_told_apart(alice: Tenant) -> None:
    said = commands.bulkhead("audit", alice.name, kubeconfig=machine.KUBECONFIG, check=False)
    assert said.code == 1
    assert "set spec.audit of its TenantClass" in said.err
