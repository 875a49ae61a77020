"""Nodes that are dedicated to one tenant: other tenants' pods drain off, its own run there, and at the end all is as before."""

from collections.abc import Iterator

import pytest

from e2e import install, machine, names, tenants, workloads
from e2e.api import Api, Obj
from e2e.commands import bulkhead, kubectl
from e2e.poll import until
from e2e.tenants import Tenant

CLASS = NAME = "e2e-dedicated"
POOL = "scenario.example/pool"


@pytest.fixture
def pool(host: Api) -> Iterator[list[str]]:
    """Two simulated nodes with a label of their own, which is removed at the end, and a class that dedicates nodes."""
    nodes = until(
        "two simulated nodes without pods of tenants: `bulkhead host up --simulated-nodes 6`", lambda: two(host), seconds=60
    )
    standard = next(obj for obj in install.example_objects() if obj["kind"] == "TenantClass")
    offer = standard["spec"] | {"nodes": standard["spec"]["nodes"] | {"maxDedicated": len(nodes)}}
    host.apply(standard | {"metadata": {"name": CLASS}, "spec": offer})
    kubectl(machine.KUBECONFIG, "label", "node", *nodes, f"{POOL}=own")
    yield nodes
    kubectl(machine.KUBECONFIG, "label", "node", *nodes, f"{POOL}-")
    tenants.remove(host, NAME)
    host.delete("TenantClass", CLASS)


def two(host: Api) -> list[str]:
    """Two simulated nodes on which no tenant has a pod.

    Pods of an earlier test may be ending, and a host that was already up may run the demo's tenants.
    """
    busy = {pod["spec"].get("nodeName") for pod in host.list("Pod", labels=names.TENANT)}
    nodes = [node["metadata"]["name"] for node in host.list("Node", labels="bulkhead.dev/simulated=true")]
    found = [name for name in nodes if name not in busy][:2]
    workloads.expect(len(found) == 2, f"without: {found}")
    return found


def marked(host: Api, node: str) -> tuple[bool, bool]:
    found = host.get("Node", node)
    tainted = any(taint["key"] == names.TENANT and taint["value"] == NAME for taint in found["spec"].get("taints") or [])
    return tainted, (found["metadata"].get("labels") or {}).get(names.TENANT) == NAME


def expect(host: Api, nodes: list[str], *wanted: tuple[bool, bool]) -> None:
    def so() -> None:
        found = [marked(host, node) for node in nodes]
        workloads.expect(found == list(wanted), f"{found}")

    until(f"the nodes to be {wanted}", so, seconds=60)


def pinned(node: str) -> Obj:
    return workloads.pod_spec(where={"kubernetes.io/hostname": node}, tolerations=[workloads.TOLERATION])


def test_a_pool_becomes_one_tenants_alone_and_goes_back_also_when_the_tenant_goes(
    host: Api, alice: Tenant, space: str, pool: list[str]
) -> None:
    first, _ = pool
    alice.api.create(workloads.pod("before", pinned(first), namespace=space))
    workloads.wait_running(alice.api, "before", namespace=space)
    nodes = {"dedicated": True, "selector": {POOL: "own"}}
    dora = tenants.create(host, NAME, gpus=4, tenant_class=CLASS, nodes=nodes)
    expect(host, pool, (True, False), (True, True))
    waits = f"{first} (1 of tenant {alice.name})"
    tenants.wait_condition(host, NAME, "NodesDedicated", status="False", reason="WaitingForNodes", says=waits)
    alice.api.delete("Pod", "before", space, grace=0)
    expect(host, pool, (True, True), (True, True))
    tenants.wait_condition(host, NAME, "NodesDedicated", status="True")
    assert host.get("Tenant", NAME)["status"]["dedicated"]["nodes"] == len(pool)
    assert "2 nodes with" in bulkhead("tenant", "describe", NAME, kubeconfig=machine.KUBECONFIG).out

    def hidden() -> None:
        shown = {node["metadata"]["name"] for node in alice.api.list("Node")}
        workloads.expect(not shown & set(pool), f"alice sees {shown & set(pool)}")

    until("the nodes to be hidden from others", hidden, seconds=30)
    dora.api.create(workloads.pod("own", workloads.pod_spec(gpus=1, where={}, tolerations=[workloads.TOLERATION])))
    workloads.wait_running(dora.api, "own")
    assert dora.api.get("Pod", "own", "default")["spec"]["nodeName"] in pool
    host.patch("Tenant", NAME, {"spec": {"nodes": {"dedicated": None}}})
    expect(host, pool, (False, False), (False, False))
    alice.api.create(workloads.pod("after", pinned(first), namespace=space))
    workloads.wait_running(alice.api, "after", namespace=space)

    # The nodes of a tenant that is deleted go back, too.
    tenants.empty(host, dora)
    alice.api.delete("Pod", "after", space, grace=0)
    host.patch("Tenant", NAME, {"spec": {"nodes": nodes}})
    expect(host, pool, (True, True), (True, True))
    tenants.remove(host, NAME)
    expect(host, pool, (False, False), (False, False))
