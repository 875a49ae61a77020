"""Two clones of one snapshot, made at the same time: each is a tenant of its own, and the original is as it was."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e import tenants, workloads
from e2e.api import Api
from e2e.scenarios.durable import clones
from e2e.scenarios.durable.conftest import NAME, Backups
from e2e.scenarios.durable.test_restore import config_map
from e2e.tenants import Tenant

CLONES = (f"{NAME}-3", f"{NAME}-4")
SNAPSHOT = f"{NAME}-c2"
BOTH_SECONDS = 120.0


@pytest.fixture
def both(host: Api) -> Iterator[tuple[str, ...]]:
    """The names of two tenants that are not there before and after."""
    with clones.away(host, SNAPSHOT, *CLONES):
        yield CLONES


def test_two_clones_of_one_snapshot_are_made_at_the_same_time(
    host: Api, red: Tenant, backups: Backups, both: tuple[str, ...]
) -> None:
    red.api.create(workloads.deployment("web", 1, workloads.pod_spec(workloads.web_server("of red"), ports=[8080])))
    red.api.create(workloads.service("web", "web", 8080))
    workloads.wait_available(red.api, "web", 1, seconds=120)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in host.list("Pod", red.work)}
    clones.snapshot(NAME, SNAPSHOT)
    began = time.monotonic()
    with ThreadPoolExecutor(len(both)) as threads:
        done = list(threads.map(lambda name: clones.clone(NAME, SNAPSHOT, name, backups), both))
    seconds = time.monotonic() - began
    for outcome in done:
        print(outcome.text, flush=True)
        assert outcome.code == 0, outcome.text
    tenants.wait_ready(host, both, seconds=120)
    print(f"both commands ended after {seconds:.0f} s, both Ready after {time.monotonic() - began:.0f} s", flush=True)
    opened = [tenants.open_tenant(name) for name in both]
    clones.own(host, NAME, *both)
    for tenant in opened:
        workloads.wait_available(tenant.api, "web", 1, seconds=180)
    addresses = [tenant.api.get("Service", "web", "default")["spec"]["clusterIP"] for tenant in (red, *opened)]
    assert len(set(addresses)) == 3, addresses
    volumes = [host.get("PersistentVolumeClaim", "data-plane-0", tenant.plane)["spec"]["volumeName"] for tenant in opened]
    assert len(set(volumes)) == 2

    # What is written into one is in no other.
    for tenant in opened:
        tenant.api.create(config_map(f"of-{tenant.name}"))
    for tenant in (red, *opened):
        found = {obj["metadata"]["name"] for obj in tenant.api.list("ConfigMap", "default")}
        assert {name for name in found if name.startswith("of-")} == ({f"of-{tenant.name}"} if tenant in opened else set())

    # The end of one is noticed by no other.
    tenants.remove(host, both[0])
    workloads.wait_available(opened[1].api, "web", 1, seconds=60)
    assert tenants.is_ready(host.get("Tenant", both[1]))
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in host.list("Pod", red.work)} == before
    assert seconds <= BOTH_SECONDS
