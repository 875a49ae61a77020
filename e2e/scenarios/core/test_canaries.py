"""Nothing of a tenant connects to the host: neither its API server, whatever its admin tells that, nor its pods to the last.

Counted where it would arrive: at listeners in every place of the host, and by the node behind its policies. Each refusal has
two positive controls: a pod of the host is heard everywhere, and each way is heard where the tenant itself listens.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e import canaries, ways, workloads
from e2e.api import Api
from e2e.canaries import Canaries
from e2e.commands import kubectl
from e2e.fleet import Fleet
from e2e.poll import until
from e2e.scenarios.core.shared import with_every_address as ahead
from e2e.tenants import Tenant

AT_ONCE = 24  # each attempt waits for deadlines, and computes nothing meanwhile
OWN_PORTS = {way: 8450 + number for number, way in enumerate(ways.WAYS)}
# A probe each 10 ms, to one place after the other. It ignores SIGTERM, so it goes on until it is killed.
PROBES = """
trap '' TERM
while true; do
  for place in {places}; do
    nc -w 1 ${{place%:*}} ${{place#*:}} </dev/null >/dev/null 2>&1 &
    usleep 10000
  done
done
"""


@pytest.fixture(scope="module")
def listening(host: Api) -> Iterator[Canaries]:
    with canaries.canaries(host) as made:
        made.control()
        yield made


@pytest.fixture(scope="module")
def outbound(fleet: Fleet) -> Tenant:
    """A tenant of a class that allows every address: what stays closed, no list has to name. The last test deletes it."""
    tenant = fleet.take(ahead(fleet))
    tenant.api.apply(workloads.pod("home", canaries.listener(*OWN_PORTS.values())))
    workloads.wait_running(tenant.api, "home")
    return tenant


def test_no_plane_connects_to_the_host_whatever_its_admin_says(host: Api, outbound: Tenant, listening: Canaries) -> None:
    plane = str(host.get("Pod", "plane-0", outbound.plane)["status"]["podIP"])
    home = str(outbound.api.get("Pod", "home", "default")["status"]["podIP"])
    places = listening.places | canaries.host_ports(host)
    attempts = [
        (way, f"way-{number}-{at}", *place) for number, way in enumerate(ways.WAYS) for at, place in enumerate(places.values())
    ]
    canaries.watch([plane])
    before = len(listening.heard())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda attempt: ways.WAYS[attempt[0]](outbound.api, *attempt[1:]), attempts))
        counted = canaries.counted()

        # The positive control of each way: the tenant's own listener hears it, at a port of this way alone.
        def heard_at_home() -> None:
            silent = ways.WAYS.keys() - heard(outbound).keys()
            own = [(way, f"home-{OWN_PORTS[way]}", home, OWN_PORTS[way]) for way in silent]
            list(pool.map(lambda attempt: ways.WAYS[attempt[0]](outbound.api, *attempt[1:]), own))
            workloads.expect(heard(outbound) == {way: {plane} for way in ways.WAYS}, f"{heard(outbound)}")

        until("the tenant's own listener to hear each way", heard_at_home, seconds=60)
    assert listening.heard()[before:] == []
    # The API server tried, and nothing of it arrived.
    assert counted.sent >= len(places), counted
    assert counted.arrived == 0, counted
    listening.control()


def heard(tenant: Tenant) -> dict[str, set[str]]:
    """The ways by which the tenant's own listener was reached, and from where."""
    printed = kubectl(tenant.kubeconfig, "logs", "home", "--tail=-1").out
    return {way: set(found) for way, port in OWN_PORTS.items() if (found := canaries.clients(printed, port))}


def test_a_pod_reaches_the_host_nowhere_also_while_its_tenant_is_deleted(
    host: Api, outbound: Tenant, alice: Tenant, listening: Canaries
) -> None:
    """Policies go last: until a pod's last moment, nothing of what it sends arrives."""
    alice.api.apply(workloads.pod("neighbour", canaries.listener(canaries.PORT)))
    outbound.api.apply(workloads.pod("hearing", canaries.listener(canaries.PORT)))
    neighbour = str(workloads.wait_running(alice.api, "neighbour")["status"]["podIP"])
    home = str(workloads.wait_running(outbound.api, "hearing")["status"]["podIP"])
    places = [
        *listening.places.values(),
        *canaries.host_ports(host).values(),
        (neighbour, canaries.PORT),
        (home, canaries.PORT),
    ]
    script = PROBES.format(places=" ".join(f"{address}:{port}" for address, port in places))
    spec = workloads.pod_spec(("sh", "-c", script), terminationGracePeriodSeconds=30)
    spec["containers"][0]["resources"]["limits"]["memory"] = "256Mi"  # each probe waits for a second
    outbound.api.apply(workloads.pod("prober", spec))
    prober = str(workloads.wait_running(outbound.api, "prober")["status"]["podIP"])

    def at_home() -> None:
        printed = kubectl(outbound.kubeconfig, "logs", "hearing", "--tail=-1").out
        workloads.expect(prober in canaries.clients(printed), "not heard at home")

    until("the prober to be heard by its own tenant", at_home, seconds=30)
    canaries.guard([neighbour])
    canaries.watch([prober])
    before = len(listening.heard())
    host.delete("Tenant", outbound.name)
    last = canaries.Counted(0, 0)

    def gone() -> None:
        nonlocal last
        last = canaries.counted()
        workloads.expect(host.find("Namespace", outbound.work) is None, f"still there: {last}")

    until("the work namespace to be gone", gone, seconds=120, interval=0.5)
    assert last.arrived == 0, last
    # It went on for as long as the pod was there: the grace of a teardown is 10 s, each with dozens of connections.
    assert last.sent > 100, last
    assert listening.heard()[before:] == []
    printed = kubectl(alice.kubeconfig, "logs", "neighbour", "--tail=-1").out
    assert canaries.clients(printed) == []
    listening.control()
