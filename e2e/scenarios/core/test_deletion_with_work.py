"""Deletion of a tenant with work leaves nothing of it, and what is not the tenant's stays."""

import ipaddress
from collections.abc import Iterator

import pytest

from e2e import tenants, workloads
from e2e.api import Api
from e2e.fleet import Fleet
from e2e.names import GPU
from e2e.poll import holds, until
from e2e.scenarios.core.shared import of_its_own_class as ahead
from e2e.tenants import Tenant


@pytest.fixture
def tenant(fleet: Fleet) -> Tenant:
    """A healthy tenant that other tests have used."""
    return fleet.take(ahead(fleet))


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


def test_item_76_a_tenant_with_work_goes_without_a_trace(host: Api, tenant: Tenant, settler: str) -> None:
    tenants.give_quota(host, tenant.name, {"resources": {GPU: {"nominal": 2}}})
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


def gone(host: Api, kind: str, name: str) -> None:
    workloads.expect(host.find(kind, name) is None, "still there")


def kept(host: Api, service_cidr: str) -> None:
    found = host.find("ServiceCIDR", service_cidr)
    workloads.expect(found is not None and bool(found["metadata"].get("deletionTimestamp")), str(found))
