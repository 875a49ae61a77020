"""Attacks by which a tenant might get more than its quota: larger successors in a gang, and nodes that it spoils.

Each attack is tried as it was found, next to the same situation with an honest tenant.
"""

from collections.abc import Iterator, Mapping

import pytest

from e2e import ledger, tenants, workloads
from e2e.api import Api, Obj
from e2e.fleet import Fleet
from e2e.names import GPU
from e2e.poll import holds, until
from e2e.scenarios.core.shared import in_a_cohort as ahead
from e2e.scenarios.core.shared import join
from e2e.tenants import Tenant

COHORT = "e2e-theft"
KIND = "example.org/theft-kind"
FAST, SLOW = "fast", "slow"
KINDS = {"gpu-sim-0": FAST, "gpu-sim-1": SLOW, "gpu-sim-2": SLOW}
OF_NODE = 8
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Some seconds more than the time after which an admission without a binding is revoked.
BIND_WITHIN = 5


@pytest.fixture(scope="module", autouse=True)
def _kinds(host: Api) -> Iterator[None]:
    """Three nodes of two kinds: the tenants have quota for these, and for no other node."""
    _label(host, KINDS)
    yield
    _label(host, dict.fromkeys(KINDS))


def _label(host: Api, kinds: Mapping[str, str | None]) -> None:
    for node, kind in kinds.items():
        host.patch("Node", node, {"metadata": {"labels": {KIND: kind}}})


@pytest.fixture(scope="module")
def both(fleet: Fleet) -> list[Tenant]:
    """One tenant with all three nodes, and one that has nothing and borrows."""
    kinds = [{"name": kind, "resource": GPU, "nodeLabels": {KIND: kind}} for kind in (FAST, SLOW)]
    rules = {
        "flavors": kinds,
        "reclaim": {"minRuntime": "0s", "within": "30s"},
        "gangs": {"bindWithin": f"{BIND_WITHIN}s"},
    }
    resources = []
    for fast, slow in ((OF_NODE, 2 * OF_NODE), (0, 0)):
        flavors = [{"name": FAST, "nominal": fast}, {"name": SLOW, "nominal": slow}]
        resources.append({GPU: {"nominal": fast + slow, "flavors": flavors}})
    return join(fleet, ahead(fleet), COHORT, rules, resources)


@pytest.fixture
def lender(both: list[Tenant]) -> Tenant:
    """The tenant with the GPUs."""
    return both[0]


@pytest.fixture
def thief(both: list[Tenant]) -> Tenant:
    """The tenant without GPUs."""
    return both[1]


@pytest.fixture(autouse=True)
def _emptied(host: Api, lender: Tenant, thief: Tenant) -> Iterator[None]:
    """Each test begins and ends without pods; a pod that still exists on the host holds its GPUs."""
    yield
    for tenant in (lender, thief):
        tenants.empty(host, tenant)


def _pod(name: str) -> Obj:
    """A pod that requests a whole node."""
    return workloads.pod(name, workloads.pod_spec(gpus=OF_NODE, where=workloads.SIMULATED))


def _member(name: str, gpus: int) -> Obj:
    """A pod in a gang of four."""
    pod = workloads.pod(name, workloads.pod_spec(gpus=gpus, where=workloads.SIMULATED))
    pod["metadata"] |= {
        "labels": {"kueue.x-k8s.io/pod-group-name": "gang"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "4"},
    }
    return pod


def _gated(pod: Obj) -> bool:
    return any(gate["name"] == ledger.GATE for gate in pod["spec"].get("schedulingGates") or ())


def _held(host: Api, tenant: Tenant) -> int:
    """GPUs of a tenant's host pods that have passed the gate."""
    return sum(workloads.gpus_of(pod) for pod in host.list("Pod", tenant.work) if not _gated(pod))


def _wait_told(host: Api, tenant: Tenant, names: list[str]) -> None:
    """Wait until the ledger has judged each of these pods, and they wait at its gate."""

    def told() -> None:
        for name in names:
            pod = workloads.host_pod_of(host, tenant.api.get("Pod", name, "default"), tenant.work)
            judged = _gated(pod) and ledger.VERDICT in (pod["metadata"].get("annotations") or {})
            workloads.expect(judged, f"{name}: {workloads.describe(pod)}")

    until(f"{', '.join(names)} of {tenant.name} to wait at the gate", told, seconds=60)


def test_members_of_a_gang_that_come_back_larger_queue_like_any_pod(host: Api, lender: Tenant, thief: Tenant) -> None:
    members = [f"member-{number}" for number in range(4)]
    for name in members:
        thief.api.create(_member(name, 0))
    for name in members:
        workloads.wait_running(thief.api, name)
    # Nothing can start while no node has a kind. So all pods wait at the same time, the thief's first.
    _label(host, dict.fromkeys(KINDS))
    try:
        for name in members[1:]:
            thief.api.delete("Pod", name, "default")
            workloads.wait_pod_gone(thief.api, name)
            thief.api.create(_member(name, OF_NODE))
        _wait_told(host, thief, members[1:])
        mine = [f"mine-{number}" for number in range(3)]
        for name in mine:
            lender.api.create(_pod(name))
        _wait_told(host, lender, mine)
    finally:
        _label(host, KINDS)
    for name in mine:
        workloads.wait_running(lender.api, name, seconds=90)
    assert _held(host, lender) == 3 * OF_NODE
    holds("the thief to have nothing", lambda: workloads.expect(_held(host, thief) == 0, "it holds GPUs"), seconds=3)
    # The control: an unchanged successor starts at once, although all GPUs are held.
    thief.api.delete("Pod", members[1], "default")
    workloads.wait_pod_gone(thief.api, members[1])
    thief.api.create(_member(members[1], 0))
    workloads.wait_running(thief.api, members[1])


def test_a_node_that_a_tenant_spoils_for_itself_is_not_spoilt_for_others(lender: Tenant, thief: Tenant) -> None:
    (fast,) = (node for node, kind in KINDS.items() if kind == FAST)
    guard = workloads.pod_spec(where={"kubernetes.io/hostname": fast}, tolerations=[workloads.TOLERATION])
    thief.api.create(workloads.pod("guard", guard, labels={"app": "guard"}))
    workloads.wait_running(thief.api, "guard")
    repelled = {"labelSelector": {"matchLabels": {"app": "guard"}}, "topologyKey": "kubernetes.io/hostname"}
    spec = workloads.pod_spec(gpus=OF_NODE, where=workloads.SIMULATED, affinity={"podAntiAffinity": {REQUIRED: [repelled]}})
    thief.api.create(workloads.pod("repelled", spec))
    # It is admitted to the preferred kind, is not bound there, loses that admission, and starts on the other kind.
    running = workloads.wait_running(thief.api, "repelled", seconds=90)
    assert KINDS[running["spec"]["nodeName"]] == SLOW
    # The thief's tenant now avoids the node. A pod that differs only in its tenant gets it.
    lender.api.create(_pod("mine"))
    assert workloads.wait_running(lender.api, "mine", seconds=60)["spec"]["nodeName"] == fast
