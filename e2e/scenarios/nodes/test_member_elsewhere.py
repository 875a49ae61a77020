"""A plane of three on three nodes, one of which is gone for good: its member is another one elsewhere, within five minutes."""

import time
from collections.abc import Iterator
from functools import partial

import pytest

from e2e import tenants, workloads
from e2e.api import Api, Obj
from e2e.poll import NotYetError, until
from e2e.scenarios.nodes.places import REAL, THIRD, lost, ready
from e2e.tenants import Tenant
from e2e.threemembers import of_three

NAME = CLASS = "e2e-nodes-three"
# What is promised, so it is not multiplied on a slow machine.
REPLACED_SECONDS = 300.0
MARK: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "acknowledged", "namespace": "default"}}


@pytest.fixture
def three(host: Api) -> Iterator[Tenant]:
    """A tenant whose plane has a member on each node."""
    with of_three(host, NAME, CLASS) as tenant:
        yield tenant


def members(host: Api, tenant: Tenant) -> dict[str, str]:
    """The node of each member's pod."""
    pods = [pod for pod in host.list("Pod", tenant.plane) if pod["metadata"]["name"].removeprefix("plane-").isdigit()]
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}


def serves(host: Api, tenant: Tenant, nodes: set[str]) -> dict[str, str]:
    """Three members vote and serve, on these nodes alone."""
    found, where = tenants.conditions(host.get("Tenant", tenant.name)), members(host, tenant)
    told = [f"{found[kind]['reason']}: {found[kind]['message']}" for kind in ("Degraded", "PlaneReady") if kind in found]
    if "Degraded" in found or found["PlaneReady"]["reason"] != "Ready":
        raise NotYetError("; ".join(told))
    if len(where) < len(REAL) or not set(where.values()) <= nodes:
        raise NotYetError(str(where))
    return where


def test_a_member_whose_node_is_deleted_votes_again_elsewhere_within_five_minutes(host: Api, three: Tenant) -> None:
    where = until("three members to serve", partial(serves, host, three, set(REAL)), seconds=300)
    assert set(where.values()) == set(REAL), "members prefer different nodes"
    three.api.apply(MARK)
    gone = next(pod for pod, node in where.items() if node == THIRD)
    former = host.get("PersistentVolumeClaim", f"data-{gone}", three.plane)["metadata"]["uid"]
    with lost(host, THIRD, "killed"):
        began = time.monotonic()
        host.delete("Node", THIRD)
        left = set(REAL) - {THIRD}
        until(
            f"{gone} to serve elsewhere",
            partial(serves, host, three, left),
            seconds=REPLACED_SECONDS,
            interval=0.5,
            patience=1,
        )
        print(f"{gone} votes and serves again {time.monotonic() - began:.0f} s after its node was deleted")
        assert host.get("PersistentVolumeClaim", f"data-{gone}", three.plane)["metadata"]["uid"] != former
        assert three.api.get("ConfigMap", "acknowledged", "default")
    # The node registers itself again, and its old member stays out.
    until(f"{THIRD} to be a node again", lambda: workloads.expect(ready(host, THIRD), "not Ready"), seconds=90)
    until("three members to serve", partial(serves, host, three, set(REAL)), seconds=60)
