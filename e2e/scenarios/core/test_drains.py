"""A tenant's disruption budget that allows no eviction blocks an admin's drain until the class's deadline, and no longer."""

from collections.abc import Iterator

import pytest

from e2e import tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.fleet import Fleet
from e2e.poll import until
from e2e.scenarios.core.shared import DRAIN_SECONDS as DEADLINE
from e2e.scenarios.core.shared import of_its_own_class as ahead
from e2e.tenants import Tenant

DRAINED = "bulkhead.dev/drained"


@pytest.fixture
def guarded(host: Api, fleet: Fleet) -> Iterator[Tenant]:
    """A tenant whose budgets block a drain for some seconds; it leaves no pods."""
    tenant = fleet.take(ahead(fleet))
    yield tenant
    tenant.api.delete("Deployment", "web", "default")
    tenants.empty(host, tenant)


@pytest.fixture
def uncordoned(host: Api) -> Iterator[list[str]]:
    """Names of nodes, which are uncordoned at the end."""
    found: list[str] = []
    yield found
    for name in found:
        host.patch("Node", name, {"spec": {"unschedulable": None}})


def evict(host: Api, pod: Obj) -> int:
    """The eviction that `kubectl drain` requests. Returns the status."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    try:
        host.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body=body)
    except ApiError as error:
        return error.status
    return 201


def test_a_drain_is_held_up_until_its_deadline(host: Api, guarded: Tenant, uncordoned: list[str]) -> None:
    budget = {"minAvailable": 2**31 - 1, "selector": {"matchLabels": {"app": "web"}}}
    about = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"}}
    guarded.api.create(about | {"spec": budget})
    guarded.api.create(workloads.deployment("web", 2, workloads.pod_spec(where=workloads.SIMULATED)))
    workloads.wait_available(guarded.api, "web", 2)

    def counted() -> list[Obj]:
        budgets = host.list("PodDisruptionBudget", guarded.work)
        seen = [(item["spec"]["minAvailable"], item.get("status", {}).get("currentHealthy")) for item in budgets]
        workloads.expect(seen == [(2, 2)], f"{seen}")
        return host.list("Pod", guarded.work, labels="app=web")

    first, _ = until("the host's budget to be what there is, and counted", counted, seconds=40)
    node = first["spec"]["nodeName"]
    assert evict(host, first) == 429
    uncordoned.append(node)
    host.patch("Node", node, {"spec": {"unschedulable": True}})
    assert evict(host, first) == 429

    def left() -> None:
        pods = host.list("Pod", guarded.work, labels="app=web")
        seen = {pod["metadata"]["name"]: (pod["spec"].get("nodeName"), DRAINED in pod["metadata"]["labels"]) for pod in pods}
        workloads.expect(all(marked == (where == node) for where, marked in seen.values()), f"{seen}")

    until("the pods of the node to leave their budgets", left, seconds=DEADLINE + 40)
    until("the eviction", lambda: workloads.expect(evict(host, first) == 201, "refused"), seconds=20)
    events = [event for event in guarded.api.list("Event", "default") if event["reason"] == "DrainDeadline"]
    assert any(node in event["message"] for event in events), events
    # On another node the budget protects it as before.
    workloads.wait_available(guarded.api, "web", 2, seconds=90)
