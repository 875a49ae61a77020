"""Pods with as many node constraints as an API server accepts: refused with a message, and harmless for the controller."""

from collections.abc import Iterator

import pytest

from e2e import machine, tenants, workloads
from e2e.api import Api, Obj
from e2e.fleet import Fleet
from e2e.names import SYSTEM_NAMESPACE
from e2e.poll import until
from e2e.scenarios.core.shared import of_the_controller as ahead
from e2e.tenants import Tenant

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ALLOWED = 3072
PODS = 30
# The ledger keeps no requirements of a tenant beyond 65,536, at some hundred bytes each; plus the memory to read a large pod.
MOST_MORE_KIB = 128 * 1024


@pytest.fixture(scope="module")
def poor(fleet: Fleet) -> Tenant:
    """The tenant without a GPU."""
    _, manifest = ahead(fleet)
    return fleet.take(manifest)


@pytest.fixture(autouse=True)
def _emptied(host: Api, poor: Tenant) -> Iterator[None]:
    yield
    tenants.empty(host, poor)


def large(name: str, about: int, operator: str = "NotIn") -> Obj:
    """A pod with this number of terms, expressions and values about nodes; each list is short enough for an API server."""
    # One term, three expressions, one toleration and one selector.
    values, rest = divmod(about - 6, 3)
    expressions = [
        {
            "key": "example.org/none",
            "operator": operator,
            "values": [f"v{number}-{at}" for at in range(values + (number < rest))],
        }
        for number in range(3)
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    spec = workloads.pod_spec(where=workloads.SIMULATED, affinity={"nodeAffinity": {REQUIRED: terms}})
    return workloads.pod(name, spec)


def controllers(host: Api) -> list[Obj]:
    return host.list("Pod", SYSTEM_NAMESPACE, labels="app.kubernetes.io/component=controller")


def restarts(host: Api) -> dict[str, int]:
    """How often each container of each pod of the controller has restarted."""
    found = ((pod["metadata"]["uid"], workloads.restarts(pod)) for pod in controllers(host))
    return {f"{uid}/{name}": count for uid, counts in found for name, count in counts.items()}


def memory_kib(host: Api) -> int:
    uids = [pod["metadata"]["uid"] for pod in controllers(host)]
    return max(machine.rss_kib(item.pid) for uid in uids for item in machine.processes_of_pod(uid, "controller"))


def test_a_pod_that_says_too_much_about_nodes_is_refused_in_words(poor: Tenant, host: Api) -> None:
    before = restarts(host)
    poor.api.create(large("too-much", ALLOWED + 1))
    said = workloads.wait_refused(poor.api, "too-much", "TooLarge", says="name fewer")
    assert f"{ALLOWED} together are the most" in said["message"], said
    # The control: a large pod within the limit runs.
    poor.api.create(large("large", ALLOWED - 100))
    workloads.wait_running(poor.api, "large", seconds=90)
    assert restarts(host) == before


def test_as_much_as_is_allowed_many_times_over_does_not_move_the_controller(poor: Tenant, host: Api) -> None:
    before, used = restarts(host), memory_kib(host)
    for number in range(PODS):
        # They match no node, so they wait, and the ledger keeps and judges their requirements.
        poor.api.create(large(f"large-{number}", ALLOWED - 100, "In"))

    def all_there() -> None:
        there = len(host.list("Pod", poor.work))
        workloads.expect(there >= PODS, f"{there} of {PODS} on the host")

    until("all of them on the host", all_there, seconds=120)
    # The control: its tenant is reconciled meanwhile.
    waits = workloads.pod("waits", workloads.pod_spec(gpus=1, where=workloads.SIMULATED))
    poor.api.create(waits)
    workloads.wait_refused(poor.api, "waits", "QuotaExceeded", seconds=60)
    assert restarts(host) == before
    assert memory_kib(host) - used < MOST_MORE_KIB
