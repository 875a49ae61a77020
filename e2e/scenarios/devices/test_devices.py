"""Claims of a tenant and devices of a real driver: allocated, shared, awaited, released, and offered only to some tenants."""

from e2e import tenants, workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.poll import until
from e2e.scenarios.devices import driver
from e2e.scenarios.devices.conftest import DEVICES, OFFERED
from e2e.tenants import Tenant

DEVICE_SPEC: Obj = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": OFFERED}}]}}


def claim(kind: str, name: str, namespace: str) -> Obj:
    """A ResourceClaim for one device, or a template of such claims."""
    spec = DEVICE_SPEC if kind == "ResourceClaim" else {"spec": DEVICE_SPEC}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def user(name: str, namespace: str, **source: str) -> Obj:
    """A pod whose container uses the claim of `source`."""
    spec = workloads.pod_spec(resourceClaims=[{"name": "device", **source}])
    spec["containers"][0]["resources"]["claims"] = [{"name": "device"}]
    return workloads.pod(name, spec, namespace=namespace)


def devices_of(tenant: Tenant, space: str, pod: str) -> list[str]:
    """The variables that the driver put into the container: one for each device that was prepared for it."""
    output = kubectl(tenant.kubeconfig, "-n", space, "exec", pod, "--", "env").out
    return [line for line in output.splitlines() if line.startswith("claim_")]


def allocated(api: Api, name: str, namespace: str) -> list[Obj]:
    status = api.get("ResourceClaim", name, namespace).get("status", {})
    results: list[Obj] = status.get("allocation", {}).get("devices", {}).get("results", [])
    workloads.expect(bool(results), f"status of the claim: {status}")
    return results


def test_item_52_a_pod_gets_a_device_of_the_hosts_driver_and_two_share_one(alice: Tenant, space: str) -> None:
    alice.api.create(claim("ResourceClaim", "shared", space))
    for name in ("left", "right"):
        alice.api.create(user(name, space, resourceClaimName="shared"))
    for name in ("left", "right"):
        workloads.wait_running(alice.api, name, namespace=space)
        assert len(devices_of(alice, space, name)) == 1
    (result,) = until("the claim to say what it got", lambda: allocated(alice.api, "shared", space), seconds=20)
    assert (result["driver"], result["request"]) == (driver.NAME, "one")
    assert result["device"].startswith("device-")


def test_item_52_claims_of_a_template_wait_for_a_free_device_and_give_it_back(host: Api, alice: Tenant, space: str) -> None:
    alice.api.create(claim("ResourceClaimTemplate", "own", space))
    users = [f"user-{number}" for number in range(DEVICES)]
    for name in users:
        alice.api.create(user(name, space, resourceClaimTemplateName="own"))
    for name in users:
        workloads.wait_running(alice.api, name, namespace=space)

    def given() -> list[str]:
        claims = [item["metadata"]["name"] for item in alice.api.list("ResourceClaim", space)]
        return [allocated(alice.api, name, space)[0]["device"] for name in claims]

    assert len(set(until("the claims to say what they got", given, seconds=20))) == DEVICES
    alice.api.create(user("late", space, resourceClaimTemplateName="own"))
    reason = until("the last one to say why it waits", lambda: _unschedulable(alice.api, "late", space), seconds=40)
    assert "claim" in reason
    assert alice.work not in reason
    alice.api.delete("Pod", users[0], space)
    workloads.wait_running(alice.api, "late", namespace=space, seconds=90)
    for name in (*users[1:], "late"):
        alice.api.delete("Pod", name, space)
    until("the host's claims to go with their pods", lambda: _none_left(host, alice), seconds=60)


def test_item_52_a_tenant_without_an_offer_of_devices_gets_none_and_a_reason(bob: Tenant, space: str, host: Api) -> None:
    tenants.make_namespace(bob.api, space)
    bob.api.create(claim("ResourceClaim", "wished", space))
    bob.api.create(user("hopeful", space, resourceClaimName="wished"))
    workloads.wait_refused(bob.api, "hopeful", "NotSupported", namespace=space)
    assert host.list("ResourceClaim", bob.work) == []


def _unschedulable(api: Api, name: str, namespace: str) -> str:
    found = workloads.condition(api.get("Pod", name, namespace), "PodScheduled") or {}
    workloads.expect(found.get("reason") == "Unschedulable" and bool(found.get("message")), str(found))
    return str(found["message"])


def _none_left(host: Api, tenant: Tenant) -> None:
    left = [item["metadata"]["name"] for item in host.list("ResourceClaim", tenant.work)]
    workloads.expect(left == [], f"claims on the host: {left}")
