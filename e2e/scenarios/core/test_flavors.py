"""GPUs of several kinds in one cohort: a quota for each kind, an order of preference, and MIG slices counted by themselves."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e import commands, machine, tenants, workloads
from e2e.api import Api, Obj
from e2e.fleet import Fleet
from e2e.install import SLICES
from e2e.names import GPU
from e2e.poll import NotYetError, until
from e2e.scenarios.core.shared import PAIR, join
from e2e.scenarios.core.shared import SLICES_OF_NODE as OF_NODE
from e2e.scenarios.core.shared import in_a_cohort as ahead
from e2e.tenants import Tenant

COHORT = "e2e-flavors"
FIRST, SECOND = PAIR
KIND = "example.org/gpu-kind"
# The kind of each simulated node. No tenant has a quota of the third kind.
FAST, SLOW, OTHER = "fast", "slow", "other"
KINDS = {FAST: "gpu-sim-0", SLOW: "gpu-sim-1", OTHER: "gpu-sim-2"}
SLICED = "gpu-sim-3"
OWN = 4  # GPUs of each kind that each of the two tenants has: half a node
ANYWHERE: Mapping[str, str] = workloads.SIMULATED


@pytest.fixture(scope="module", autouse=True)
def _kinds(host: Api) -> Iterator[None]:
    """Three nodes get a label with their kind; the fourth has slices in addition to its GPUs."""
    for kind, node in KINDS.items():
        host.patch("Node", node, {"metadata": {"labels": {KIND: kind}}})
    _slice(host, str(OF_NODE))
    yield
    for node in KINDS.values():
        host.patch("Node", node, {"metadata": {"labels": {KIND: None}}})
    _slice(host, None)


def _slice(host: Api, count: str | None) -> None:
    changed = {"status": {"capacity": {SLICES: count}, "allocatable": {SLICES: count}}}
    host.patch("Node", SLICED, changed, subresource="status")


@pytest.fixture(scope="module")
def both(fleet: Fleet) -> list[Tenant]:
    """One tenant prefers fast GPUs, may borrow only those, and has slices; the other lends everything at once."""
    kinds = [{"name": kind, "resource": GPU, "nodeLabels": {KIND: kind}} for kind in KINDS]
    rules = {"flavors": kinds, "reclaim": {"minRuntime": "0s", "within": "30s"}}
    resources = []
    for slow, slices in (({"borrowingLimit": 0}, 2), ({}, 0)):
        flavors = [{"name": FAST, "nominal": OWN}, {"name": SLOW, "nominal": OWN} | slow]
        resources.append({GPU: {"nominal": 2 * OWN, "flavors": flavors}, SLICES: {"nominal": slices}})
    return join(fleet, ahead(fleet), COHORT, rules, resources)


@pytest.fixture
def first(both: list[Tenant]) -> Tenant:
    """The tenant with slices."""
    return both[0]


@pytest.fixture
def second(both: list[Tenant]) -> Tenant:
    """The tenant that lends."""
    return both[1]


@pytest.fixture(autouse=True)
def _emptied(host: Api, first: Tenant, second: Tenant) -> Iterator[None]:
    """Each test begins and ends without pods; a pod that still exists on the host holds GPUs of its kind."""
    yield
    for tenant in (first, second):
        tenants.empty(host, tenant)


def _pod(tenant: Tenant, name: str, amount: int, resource: str = GPU, where: Mapping[str, str] = ANYWHERE) -> None:
    spec = workloads.pod_spec(where=where, tolerations=[workloads.TOLERATION])
    spec["containers"][0]["resources"]["limits"] |= {resource: str(amount)}
    tenant.api.create(workloads.pod(name, spec))


def _runs_on(tenant: Tenant, name: str, seconds: float = 60) -> str:
    return str(workloads.wait_running(tenant.api, name, seconds=seconds)["spec"]["nodeName"])


def _asked(*words: str) -> Any:
    return json.loads(commands.bulkhead(*words, "-o", "json", kubeconfig=machine.KUBECONFIG).out)


def _lines_of(tenant: str) -> dict[str, Obj]:
    """The lines of `bulkhead top` about a tenant."""
    found = next(cohort for cohort in _asked("top")["cohorts"] if cohort["name"] == COHORT)
    return {line["name"]: line for item in found["tenants"] if item["name"] == tenant for line in item["lines"]}


def _standing(host: Api, name: str, line: str) -> Obj:
    quota = host.get("Tenant", name).get("status", {}).get("quota") or []
    return next((item for item in quota if item["name"] == line), {})


def test_a_pod_goes_to_the_preferred_kind_and_then_to_the_next_and_each_is_lent_by_itself(
    host: Api, first: Tenant, second: Tenant
) -> None:
    # First its own quota of the preferred kind, then its own of the next kind, and only then borrowed quota.
    for name, kind in (("preferred", FAST), ("next", SLOW), ("borrowed", FAST)):
        _pod(first, name, OWN)
        assert _runs_on(first, name) == KINDS[kind], name
    shown, mates = _lines_of(FIRST), _lines_of(SECOND)
    fast, slow = f"{GPU}@{FAST}", f"{GPU}@{SLOW}"
    assert (shown[fast]["nominal"], shown[fast]["used"], shown[fast]["borrowed"]) == (OWN, 2 * OWN, OWN)
    assert (shown[slow]["nominal"], shown[slow]["used"], shown[slow]["borrowed"]) == (OWN, OWN, 0)
    assert (mates[fast]["lent"], mates[slow]["lent"]) == (OWN, 0)
    # It may borrow only one kind, so the host's ResourceQuota is less than twice its quota.
    hard = host.get("ResourceQuota", "tenant-quota", first.work)["spec"]["hard"]
    assert hard[f"requests.{GPU}"] == str(3 * OWN)
    told = commands.bulkhead("why", FIRST, "borrowed", kubeconfig=machine.KUBECONFIG).out
    assert f"{fast}: requests {OWN}; nominal {OWN}, used {2 * OWN}, borrowed {OWN}" in told, told
    assert slow not in told, told

    def noted() -> None:
        standing = _standing(host, FIRST, fast)
        workloads.expect((standing.get("used"), standing.get("borrowed")) == (2 * OWN, OWN), f"{standing}")
        status = host.get("Cohort", COHORT).get("status", {})
        together = {
            resource["name"]: (resource["nominal"], resource["used"], resource["lent"])
            for resource in status.get("resources", ())
        }
        whole = together.get(fast) == (2 * OWN, 2 * OWN, OWN) and together.get(slow, ())[1:] == (OWN, 0)
        workloads.expect(whole, f"{status}")

    until("the statuses of Tenant and Cohort to say what is borrowed of which kind", noted, seconds=20)
    listed = commands.kubectl(machine.KUBECONFIG, "get", "cohort", COHORT, "--no-headers").out.split()
    assert listed[1:5] == ["True", "2", f"{3 * OWN}/{4 * OWN + 2}", str(OWN)], listed
    # Its own quota of one kind is free, and of the other it is lent: the latter is reclaimed.
    _pod(second, "mine", OWN)
    assert _runs_on(second, "mine") == KINDS[SLOW]
    _pod(second, "back", OWN)
    assert _runs_on(second, "back", seconds=90) == KINDS[FAST]
    assert _runs_on(first, "next") == KINDS[SLOW]


def test_a_pod_for_a_kind_without_quota_says_so_with_numbers(first: Tenant) -> None:
    _pod(first, "elsewhere", 2, where={KIND: OTHER})
    said = workloads.wait_refused(first.api, "elsewhere", "NeverFits", seconds=20)["message"]
    assert "requests 2 nvidia.com/gpu" in said
    assert f"{OTHER}" in said, said
    assert f"{OWN} of {FAST}" in said, said
    # The control: with the name of a kind that it has, the same pod runs.
    _pod(first, "here", 2, where={KIND: SLOW})
    assert _runs_on(first, "here") == KINDS[SLOW]


def test_slices_are_counted_as_slices_and_kinds_as_kinds(host: Api, first: Tenant) -> None:
    def shown() -> None:
        allocatable = first.api.get("Node", SLICED)["status"]["allocatable"]
        workloads.expect(allocatable.get(SLICES) == "2", f"{allocatable}")

    until("the node to show the tenant's slices", shown, seconds=20)
    _pod(first, "sliced", 2, SLICES)
    _pod(first, "fast", OWN)
    _pod(first, "slow", OWN)
    assert _runs_on(first, "sliced") == SLICED
    assert {_runs_on(first, "fast"), _runs_on(first, "slow")} == {KINDS[FAST], KINDS[SLOW]}
    _pod(first, "one-more", 1, SLICES)
    said = workloads.wait_refused(first.api, "one-more", "QuotaExceeded")["message"]
    assert SLICES in said, said
    lines = _lines_of(FIRST)
    assert (lines[SLICES]["nominal"], lines[SLICES]["used"], lines[SLICES]["flavor"]) == (2, 2, "")
    drawn = commands.bulkhead("top", "--resource", SLICES, kubeconfig=machine.KUBECONFIG).out
    assert f"{SLICES}: {OF_NODE} on 1 nodes" in drawn, drawn

    def counted() -> None:
        status = host.get("Tenant", FIRST).get("status", {})
        found = (_standing(host, FIRST, SLICES).get("used"), status.get("gpus", {}).get("used"))
        workloads.expect(found == (2, 2 * OWN + 2), f"{found}")

    until("the Tenant's status to count slices by themselves", counted, seconds=20)

    def metered() -> None:
        command = commands.bulkhead("usage", FIRST, "-o", "json", kubeconfig=machine.KUBECONFIG, check=False)
        if command.code:
            raise NotYetError(command.text)
        rows = {(row["resource"], row["flavor"]) for row in json.loads(command.out)["items"] if row["seconds"] > 0}
        workloads.expect(rows == {(GPU, FAST), (GPU, SLOW), (SLICES, "")}, f"{rows}")

    until("its use to be metered by kind, and slices as slices", metered, seconds=100)
