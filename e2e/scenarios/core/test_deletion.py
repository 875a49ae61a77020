"""Deletion leaves nothing: of a healthy tenant, with a broken plane, during provisioning, with the controller killed."""

import ipaddress
import signal
from collections.abc import Iterator

import pytest

from e2e import machine, names, tenants, workloads
from e2e.api import Api
from e2e.chaos.faults.parts import component_processes
from e2e.fleet import Fleet
from e2e.poll import holds, until
from e2e.tenants import Tenant


@pytest.fixture
def settler(host: Api, tenant: Tenant) -> Iterator[str]:
    """The name of a Service in the host's namespace `default` with an address of the tenant's slice.

    The host gives such an address to a new Service by chance; this one asks for it.
    """
    name = f"settler-{tenant.name}"
    (cidr,) = host.get("ServiceCIDR", tenant.plane)["spec"]["cidrs"]
    service = workloads.service(name, "settler", 80)
    host.create(service | {"spec": service["spec"] | {"clusterIP": str(ipaddress.ip_network(cidr)[300])}})
    yield name
    host.delete("Service", name, "default")


@pytest.mark.fresh(gpus=2)
def test_item_76_a_tenant_with_work_goes_without_a_trace(host: Api, tenant: Tenant, settler: str) -> None:
    tenant.api.create(workloads.pod("busy", workloads.pod_spec(gpus=1)))
    workloads.wait_running(tenant.api, "busy")
    volumes = [item["spec"]["volumeName"] for item in host.list("PersistentVolumeClaim", tenant.plane)]
    assert volumes
    address = host.get("Service", settler, "default")["spec"]["clusterIP"]
    tenants.remove(host, tenant.name)
    for volume in volumes:
        until(f"volume {volume} to go", lambda volume=volume: gone(host, "PersistentVolume", volume), seconds=30)  # type: ignore[misc]
    # What is not the tenant's stays as it was: the host keeps the remnant of the slice for it, also after its ten seconds.
    assert host.get("Service", settler, "default")["spec"]["clusterIP"] == address
    (remnant,) = [item["metadata"]["name"] for item in host.list("ServiceCIDR", labels=f"bulkhead.dev/left-by={tenant.name}")]
    holds("the remnant to stay", lambda: kept(host, remnant), seconds=12, interval=1.0)
    host.delete("Service", settler, "default")
    until("the remnant to go with its last address", lambda: gone(host, "ServiceCIDR", remnant), seconds=60)


@pytest.mark.fresh(gpus=2)
def test_a_tenant_with_a_broken_plane_goes_without_a_trace(host: Api, tenant: Tenant) -> None:
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


@pytest.mark.fresh(gpus=1)
def test_deletion_goes_on_after_the_controller_was_killed(host: Api, tenant: Tenant) -> None:
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


def gone(host: Api, kind: str, name: str) -> None:
    workloads.expect(host.find(kind, name) is None, "still there")


def kept(host: Api, service_cidr: str) -> None:
    found = host.find("ServiceCIDR", service_cidr)
    workloads.expect(found is not None and bool(found["metadata"].get("deletionTimestamp")), str(found))
