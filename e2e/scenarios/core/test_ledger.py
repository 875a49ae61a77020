"""One ledger for two tenants of a cohort: idle quota is lent and reclaimed, gangs start whole, and users read why pods wait."""

from collections.abc import Iterator

import pytest

from e2e import commands, ledger, machine, tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.fleet import Fleet
from e2e.names import GPU
from e2e.poll import holds, until
from e2e.scenarios.core.shared import in_a_cohort as ahead
from e2e.scenarios.core.shared import join
from e2e.tenants import Tenant

COHORT = "e2e-ledger"
LENDING = {"reclaim": {"minRuntime": "0s", "within": "30s"}}
NOMINAL = 8  # GPUs of each of the two tenants: one simulated node


@pytest.fixture(scope="module")
def both(fleet: Fleet) -> list[Tenant]:
    """Two tenants of a cohort whose rules are short enough for a test.

    The minimum runtime is zero. With one second, an older pod would be the victim while the newest had not run for that long.
    """
    return join(fleet, ahead(fleet), COHORT, LENDING, [{GPU: {"nominal": NOMINAL}}] * 2)


@pytest.fixture
def owner(both: list[Tenant]) -> Tenant:
    """A tenant whose quota is idle at first."""
    return both[0]


@pytest.fixture
def borrower(both: list[Tenant]) -> Tenant:
    """A tenant that wants more than its own quota."""
    return both[1]


@pytest.fixture(autouse=True)
def _emptied(host: Api, owner: Tenant, borrower: Tenant) -> Iterator[None]:
    """Each test begins and ends without pods; a pod that still exists on the host holds its GPUs."""
    yield
    for tenant in (owner, borrower):
        tenants.empty(host, tenant)


def _pod(tenant: Tenant, name: str, gpus: int, **metadata: dict[str, str]) -> None:
    pod = workloads.pod(name, workloads.pod_spec(gpus=gpus, where=workloads.SIMULATED))
    pod["metadata"] |= metadata
    tenant.api.create(pod)


def _held(host: Api, tenant: Tenant) -> int:
    """GPUs of a tenant's host pods that have passed the gate."""
    pods = host.list("Pod", tenant.work)
    return sum(workloads.gpus_of(pod) for pod in pods if not _gated(pod))


def _gated(pod: Obj) -> bool:
    return any(gate["name"] == ledger.GATE for gate in pod["spec"].get("schedulingGates") or ())


def test_idle_quota_is_lent_and_comes_back_when_its_owner_wants_it(host: Api, owner: Tenant, borrower: Tenant) -> None:
    # One after the other, so that it is known which is the newest.
    for name in ("own", "lent-1", "lent-2"):
        _pod(borrower, name, 4)
        workloads.wait_running(borrower.api, name)
    assert _held(host, borrower) == NOMINAL + 4

    _pod(owner, "mine", NOMINAL)
    workloads.wait_running(owner.api, "mine", seconds=90)

    def one_is_gone() -> None:
        left = [pod["metadata"]["name"] for pod in borrower.api.list("Pod", "default")]
        workloads.expect(left == ["lent-1", "own"], f"the borrower has {left}")

    until("the newest of the borrower's pods to have gone back", one_is_gone, seconds=30)
    assert _held(host, owner) + _held(host, borrower) == 2 * NOMINAL


def test_a_gang_waits_whole_and_starts_whole(host: Api, owner: Tenant) -> None:
    group = {
        "labels": {"kueue.x-k8s.io/pod-group-name": "train"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
    }
    for number in range(2):
        _pod(owner, f"train-{number}", 2, **group)
    # While the ledger knows only the first pod, its message says so.
    workloads.wait_refused(owner.api, "train-0", "GangIncomplete", says="2 of 3")
    holds("no pod of it to start", lambda: workloads.expect(_held(host, owner) == 0, "one has started"), seconds=3)
    _pod(owner, "train-2", 2, **group)
    for number in range(3):
        workloads.wait_running(owner.api, f"train-{number}")


def test_what_no_quota_of_the_cohort_suffices_for_reads_why_with_numbers(owner: Tenant, borrower: Tenant) -> None:
    for number in range(4):
        _pod(borrower, f"all-{number}", 4)
    for number in range(4):
        workloads.wait_running(borrower.api, f"all-{number}")
    _pod(borrower, "more", 4)
    said = workloads.wait_refused(borrower.api, "more", "QuotaExceeded", seconds=15)
    assert "4" in said["message"]
    assert "16" in said["message"], said
    assert owner.name not in said["message"]
    told = commands.bulkhead("why", borrower.name, "more", kubeconfig=machine.KUBECONFIG)
    assert "QuotaExceeded" in told.out


def test_only_the_ledger_removes_its_gate(host: Api, owner: Tenant) -> None:
    group = {
        "labels": {"kueue.x-k8s.io/pod-group-name": "half"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    }
    _pod(owner, "half-0", 1, **group)
    workloads.wait_refused(owner.api, "half-0", "GangIncomplete")
    virtual = owner.api.get("Pod", "half-0", "default")
    pod = until("its host pod", lambda: workloads.host_pod_of(host, virtual, owner.work), seconds=20)
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    with pytest.raises(ApiError, match="ledger"):
        host.patch("Pod", name, {"spec": {"schedulingGates": None}}, namespace)
    # The control: the same user may make another change to the same pod, so the refusal was about the gate.
    host.patch("Pod", name, {"metadata": {"labels": {"example.org/note": "x"}}}, namespace)
    assert _gated(host.get("Pod", name, namespace))


def test_a_pod_beyond_a_lowered_quota_says_what_happens_to_it(host: Api, borrower: Tenant) -> None:
    for name in ("older", "newer"):
        _pod(borrower, name, 4)
        workloads.wait_running(borrower.api, name)

    def told(pod: str) -> list[str]:
        events = borrower.api.list("Event", "default", fields=f"involvedObject.name={pod}")
        return [event["message"] for event in events if event["reason"] == "OverQuota"]

    _give(host, borrower, NOMINAL - 4, 0)
    try:
        until("its event", lambda: workloads.expect(bool(told("newer")), "it was told nothing"), seconds=30)
        assert "it runs until it ends" in told("newer")[0]
        # A pod that has quota gets no such event.
        assert told("older") == []
        assert _held(host, borrower) == NOMINAL
    finally:
        _give(host, borrower, NOMINAL, None)


def _give(host: Api, tenant: Tenant, nominal: int, borrowing: int | None) -> None:
    given = {GPU: {"nominal": nominal, "borrowingLimit": borrowing}}
    host.patch("Tenant", tenant.name, {"spec": {"quota": {"resources": given}}})
