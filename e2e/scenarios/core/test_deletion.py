"""Deletion leaves nothing: of a tenant with a broken plane, during provisioning, with the controller killed."""

import signal

from e2e import machine, names, tenants, workloads
from e2e.api import Api
from e2e.chaos.faults.parts import component_processes
from e2e.fleet import Fleet
from e2e.poll import until
from e2e.scenarios.core.shared import of_the_controller as ahead
from e2e.tenants import Tenant


def test_a_tenant_with_a_broken_plane_goes_without_a_trace(host: Api, fleet: Fleet) -> None:
    _, poor = ahead(fleet)
    tenant = fleet.take(poor)
    tenant.api.create(workloads.pod("busy"))
    workloads.wait_running(tenant.api, "busy")
    uid = host.get("Pod", "plane-0", tenant.plane)["metadata"]["uid"]
    stopped = machine.processes_of_pod(uid, "etcd") + machine.processes_of_pod(uid, "kube-apiserver")
    assert stopped
    for process in stopped:
        process.send(signal.SIGSTOP)
    tenants.remove(host, tenant.name, seconds=150)


def test_deletion_at_once_and_in_mid_provisioning_leaves_nothing(host: Api, fresh_name: str, fleet: Fleet) -> None:
    at_once = f"{fresh_name}-at-once"
    host.create(tenants.manifest(at_once, gpus=1))
    fleet.leave(at_once)
    host.create(tenants.manifest(fresh_name, gpus=1))
    space = names.plane_namespace(fresh_name)
    until("provisioning to begin", lambda: host.get("Namespace", space), seconds=30, interval=0.05)
    assert not tenants.is_ready(host.get("Tenant", fresh_name))
    tenants.remove(host, fresh_name)
    tenants.wait_gone(host, at_once)


def test_deletion_goes_on_after_the_controller_was_killed(host: Api, fleet: Fleet) -> None:
    """The tenant's plane is the one that answers without an end, and whose tenant went too far."""
    hostile, _ = ahead(fleet)
    tenant = fleet.take(hostile)
    host.delete("Tenant", tenant.name)
    proven, text = machine.kill(
        component_processes(host, names.SYSTEM_NAMESPACE, "bulkhead-controller", "controller"), "controller"
    )
    assert proven, text
    tenants.wait_gone(host, tenant.name, seconds=150)


def test_item_71_72_a_deleted_virtual_pod_takes_its_host_pod_along_and_the_other_way_round(host: Api, alice: Tenant) -> None:
    alice.api.create(workloads.pod("short"))
    virtual = workloads.wait_running(alice.api, "short")
    mirror = workloads.host_pod_of(host, virtual, alice.work)
    alice.api.delete("Pod", "short", "default")
    workloads.wait_pod_gone(host, mirror["metadata"]["name"], namespace=alice.work)
    workloads.wait_pod_gone(alice.api, "short")

    alice.api.create(workloads.pod("evicted"))
    virtual = workloads.wait_running(alice.api, "evicted")
    mirror = workloads.host_pod_of(host, virtual, alice.work)
    host.delete("Pod", mirror["metadata"]["name"], alice.work)

    def ended() -> None:
        current = alice.api.find("Pod", "evicted", "default")
        same = current is not None and current["metadata"]["uid"] == virtual["metadata"]["uid"]
        running = same and current is not None and current["status"].get("phase") == "Running"
        workloads.expect(not running, "the virtual pod still says Running")

    until("the virtual pod to show that its host pod ended", ended, seconds=60)
    alice.api.delete("Pod", "evicted", "default", grace=0)
