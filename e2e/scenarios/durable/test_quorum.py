"""A plane of three that lost two volumes at once: it is left alone, an admin continues from the third, and no pod ends."""

import time

from e2e import commands, machine, tenants, workloads
from e2e.api import Api, ApiError, UnreachableError
from e2e.poll import NotYetError, until
from e2e.scenarios.durable.test_members import config_map
from e2e.tenants import Tenant

LOST = ("plane-0", "plane-1")
LEFT = "plane-2"
NOTICED_SECONDS = 120.0
SERVES_SECONDS = 180.0
WHOLE_SECONDS = 300.0


def bulkhead(*arguments: str) -> commands.Outcome:
    return commands.bulkhead("tenant", *arguments, kubeconfig=machine.KUBECONFIG, check=False, seconds=SERVES_SECONDS)


def without_quorum(host: Api, tenant: Tenant) -> None:
    """The Tenant says so, and what the third member has."""
    plane = tenants.conditions(host.get("Tenant", tenant.name))["PlaneReady"]
    heard = host.get("ConfigMap", "plane-members", tenant.plane)["data"].get("heard", "")
    if plane["reason"] != "QuorumLost" or f"{LEFT}=" not in heard:
        raise NotYetError(f"{plane['reason']}: {plane['message']}; heard: {heard}")


def serves(tenant: Tenant, name: str) -> None:
    try:
        tenant.api.apply(config_map(name))
    except (ApiError, UnreachableError, OSError) as error:
        raise NotYetError(str(error)) from error


def whole(host: Api, tenant: Tenant) -> None:
    found = tenants.conditions(host.get("Tenant", tenant.name))
    if found["Ready"]["status"] != "True" or "Degraded" in found or found["PlaneReady"]["reason"] != "Ready":
        raise NotYetError(
            "; ".join(f"{name}: {found[name]['message']}" for name in ("Degraded", "PlaneReady") if name in found)
        )


def test_a_lost_quorum_is_left_alone_and_one_member_continues_if_an_admin_asks(host: Api, three: Tenant) -> None:
    until("three members to serve", lambda: whole(host, three), seconds=WHOLE_SECONDS)
    three.api.apply(config_map("acknowledged"))
    three.api.create(workloads.pod("works"))
    virtual = workloads.wait_running(three.api, "works")
    before = workloads.host_pod_of(host, virtual, three.work)["metadata"]["uid"]
    for pod in LOST:
        host.delete("PersistentVolumeClaim", f"data-{pod}", three.plane)
    for pod in LOST:
        host.delete("Pod", pod, three.plane, grace=0)
    until("the lost quorum to be reported", lambda: without_quorum(host, three), seconds=NOTICED_SECONDS)
    shown = bulkhead("recover", three.name)
    assert shown.code == 0, shown.text
    assert LEFT in shown.text

    began = time.monotonic()
    done = bulkhead("recover", three.name, "--from-member", "2", "--yes")
    assert done.code == 0, done.text
    until("the plane to serve", lambda: serves(three, "after"), seconds=SERVES_SECONDS)
    served = time.monotonic() - began
    assert host.get("ConfigMap", "plane-identity", three.plane)["data"]["quarantine"]
    accepted = bulkhead("accept-data", three.name, "--yes")
    assert accepted.code == 0, accepted.text
    until("three members to serve again", lambda: whole(host, three), seconds=WHOLE_SECONDS)
    print(f"served again after {served:.0f} s, three members after {time.monotonic() - began:.0f} s\n{shown.text}\n{done.text}")
    found = {obj["metadata"]["name"] for obj in three.api.list("ConfigMap", "default")}
    assert found >= {"acknowledged", "after"}
    # The pod ran on, under the same UID.
    assert workloads.host_pod_of(host, virtual, three.work)["metadata"]["uid"] == before
