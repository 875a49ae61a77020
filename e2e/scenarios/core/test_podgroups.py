"""Gangs of a tenant on the host's scheduler: they start whole or not at all, and nothing of them is left."""

import pytest

from e2e import workloads
from e2e.api import Api, Obj
from e2e.fleet import Fleet
from e2e.poll import holds, until
from e2e.scenarios.core.shared import GANG as SIZE
from e2e.scenarios.core.shared import with_pod_groups as ahead
from e2e.tenants import Tenant


@pytest.fixture(scope="module")
def carol(fleet: Fleet) -> Tenant:
    """A tenant of a class that offers pod groups."""
    return fleet.take(ahead(fleet))


def gang(name: str) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}},
    }


def test_item_91_a_gang_of_a_tenant_runs_whole_and_leaves_nothing(host: Api, carol: Tenant) -> None:
    names = [f"train-{number}" for number in range(SIZE)]
    spec = workloads.pod_spec(gpus=1, where=workloads.SIMULATED, schedulingGroup={"podGroupName": "training"})
    first, *others = names
    carol.api.create(workloads.pod(first, spec))
    workloads.wait_refused(carol.api, first, "ReferenceMissing")
    carol.api.create(gang("training"))
    for name in others[:-1]:
        carol.api.create(workloads.pod(name, spec))

    def on_host(count: int) -> list[Obj]:
        found = host.list("Pod", carol.work)
        workloads.expect(len(found) == count, f"{len(found)} pods on the host")
        return found

    def none_placed() -> None:
        placed = [pod["metadata"]["name"] for pod in on_host(SIZE - 1) if pod["spec"].get("nodeName")]
        workloads.expect(not placed, f"placed without the others: {placed}")

    until("all but one to be on the host", none_placed, seconds=30)
    holds("the gang to wait for its last pod", none_placed, seconds=5)
    carol.api.create(workloads.pod(others[-1], spec))
    for name in names:
        workloads.wait_running(carol.api, name)

    def reported() -> None:
        found = workloads.condition(carol.api.get("PodGroup", "training", "default"), "PodGroupScheduled")
        workloads.expect((found or {}).get("status") == "True", f"condition {found}")

    until("the group to say that it is placed", reported, seconds=30)
    # The group first: its finalizer delays its deletion until the pods are gone, on both sides.
    carol.api.delete("PodGroup", "training", "default")
    for name in names:
        carol.api.delete("Pod", name, "default", grace=0)

    def gone() -> None:
        left = [*carol.api.list("PodGroup", "default"), *host.list("PodGroup", carol.work), *host.list("Pod", carol.work)]
        workloads.expect(not left, f"left: {[item['metadata']['name'] for item in left]}")

    until("nothing to be left of the gang", gone, seconds=60)
