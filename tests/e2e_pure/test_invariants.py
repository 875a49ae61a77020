"""Each invariant checker accepts a good history and fails on a bad one; a checker that cannot fail proves nothing."""

from collections.abc import Iterable

import pytest

from e2e.chaos import invariants
from e2e.chaos.history import (
    Evidence,
    History,
    LeaderSeen,
    PartSeen,
    PodGone,
    PodSeen,
    Probe,
    Record,
    Span,
)

TENANTS = ("a", "b", "c")


def history(*records: Record | Iterable[Record], end: float = 200.0) -> History:
    flat: list[Record] = []
    for item in records:
        flat += [item] if isinstance(item, Probe | PodSeen | PodGone | PartSeen | LeaderSeen | Span | Evidence) else list(item)
    last = Probe(end, "a", "read", 0.001)
    return History.of([*flat, last], TENANTS)


def virtual(at: float, uid: str = "v1", *, deleting: bool = False, refused: bool = False, tenant: str = "b") -> PodSeen:
    return PodSeen(at, "virtual", tenant, uid, uid, "web", deleting, refused)


def host(at: float, uid: str = "h1", of: str = "v1", *, deleting: bool = False, tenant: str = "b") -> PodSeen:
    return PodSeen(at, "host", tenant, uid, of, f"web-{uid}", deleting)


def span(begin: float = 50.0, end: float = 100.0, target: str = "a") -> Span:
    return Span("experiment", target, begin, end)


# I1


@pytest.mark.parametrize(
    "records",
    [
        [virtual(1), host(2)],
        [virtual(1), host(2), PodGone(90, "virtual", "b", "v1"), PodGone(100, "host", "b", "h1")],
        [virtual(1, refused=True)],
        [virtual(180)],
        [virtual(1, tenant="a"), host(2, tenant="a"), PodGone(60, "host", "a", "h1"), host(120, "h2", tenant="a"), span()],
        [virtual(1), host(2), PodGone(60, "host", "b", "h1"), host(61, "h2")],
        [virtual(1), host(2), PodGone(60, "virtual", "b", "v1"), host(61, deleting=True), PodGone(120, "host", "b", "h1")],
    ],
    ids=[
        "mirrored",
        "deleted in order",
        "refused",
        "too young",
        "late in the target's own disturbance",
        "replaced",
        "ends slowly",
    ],
)
def test_one_to_one_accepts(records: list[Record]) -> None:
    assert invariants.one_to_one(history(records)) == []


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([virtual(1)], "had no host pod"),
        ([virtual(1), host(2), PodGone(60, "host", "b", "h1")], "had no host pod"),
        ([virtual(1), host(2), host(60, "h2")], "two host pods"),
        ([host(2)], "had no virtual pod"),
        ([virtual(1), host(2), PodGone(60, "virtual", "b", "v1")], "had no virtual pod"),
        ([virtual(1, tenant="a"), host(2, tenant="a"), PodGone(60, "host", "a", "h1"), span()], "had no host pod"),
    ],
    ids=["never mirrored", "mirror lost", "twins", "stray", "left over", "not repaired after the disturbance"],
)
def test_one_to_one_fails(records: list[Record], text: str) -> None:
    assert [item.text for item in invariants.one_to_one(history(records)) if text in item.text]


def test_a_disturbance_of_one_tenant_excuses_no_other() -> None:
    records = [virtual(1), host(2), PodGone(55, "host", "b", "h1"), host(99, "h2"), span(50, 100, "a")]
    assert invariants.one_to_one(history(records))


# I4


def probes(tenant: str, seconds: float, error: str = "") -> list[Probe]:
    return [Probe(51.0 + index / 10, tenant, "read", seconds, error) for index in range(100)]


BASELINE = {"a": 0.010, "b": 0.010, "c": 0.010}


def test_unharmed_neighbours_are_accepted() -> None:
    good = history(probes("a", 9.0, "down"), probes("b", 0.062), probes("c", 0.010), span())
    assert invariants.neighbours_unharmed(good, BASELINE) == []


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([*probes("b", 0.010, "timeout"), *probes("c", 0.010)], "requests failed"),
        ([*probes("b", 0.063), *probes("c", 0.010)], "p99"),
        (probes("b", 0.010), "tenant c: not observed"),
    ],
    ids=["errors", "slow", "blind observer"],
)
def test_harmed_neighbours_are_found(records: list[Record], text: str) -> None:
    found = invariants.neighbours_unharmed(history(records, span()), BASELINE)
    assert len(found) == 1
    assert text in found[0].text


# I6


def part(at: float, restarts: int = 0, *, tenant: str = "b", uid: str = "p1", oom: bool = False) -> PartSeen:
    return PartSeen(at, tenant, "plane-0/etcd", uid, restarts, oom)


@pytest.mark.parametrize(
    "records",
    [
        [part(1), part(60)],
        [part(1, tenant="a"), part(60, 1, tenant="a")],
        [part(1, tenant="a"), part(120, 1, tenant="a")],
        [part(1, 3), part(60, 3)],
        [LeaderSeen(1, "x"), LeaderSeen(60, "x")],
    ],
    ids=["quiet", "target restarts", "target's restart is reported late", "old restarts", "same leader"],
)
def test_no_restart_elsewhere_accepts(records: list[Record]) -> None:
    assert invariants.no_restart_elsewhere(history(records, span())) == []


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([part(1), part(60, 1)], "restarted (0 -> 1)"),
        ([part(1), part(60, uid="p2")], "was replaced"),
        ([part(1), part(60, oom=True)], "ran out of memory"),
        ([part(1, tenant=""), part(60, 1, tenant="")], "platform"),
        ([part(1, tenant="a"), part(190, 1, tenant="a")], "restarted"),
        ([LeaderSeen(1, "x"), LeaderSeen(60, "y")], "leader changed"),
    ],
    ids=["restart", "replacement", "memory", "controller", "target long after", "leader"],
)
def test_no_restart_elsewhere_fails(records: list[Record], text: str) -> None:
    found = invariants.no_restart_elsewhere(history(records, span()))
    assert len(found) == 1
    assert text in found[0].text


def test_killing_the_controller_may_change_the_leader() -> None:
    records = [LeaderSeen(1, "x"), LeaderSeen(60, "y"), part(1, tenant=""), part(61, 1, tenant="")]
    assert invariants.no_restart_elsewhere(history(records, span(target=invariants.CONTROLLER))) == []


# I8


@pytest.mark.parametrize(
    "records",
    [
        [virtual(1), host(2), virtual(60, deleting=True), host(61, deleting=True), PodGone(62, "host", "b", "h1")],
        [virtual(1), host(2), host(60, deleting=True), virtual(61, deleting=True)],
        [virtual(1), host(2), PodGone(60, "virtual", "b", "v1"), PodGone(61, "host", "b", "h1")],
        [virtual(1), host(2)],
    ],
    ids=["in order", "within the slack of two watches", "gone at once", "alive"],
)
def test_wanted_deletions_are_accepted(records: list[Record]) -> None:
    assert invariants.only_wanted_deletions(history(records)) == []


@pytest.mark.parametrize(
    "records",
    [
        [virtual(1), host(2), host(60, deleting=True), virtual(70), virtual(80, deleting=True)],
        [virtual(1), host(2), PodGone(60, "host", "b", "h1")],
    ],
    ids=["still alive later", "never deleted by the tenant"],
)
def test_unwanted_deletions_are_found(records: list[Record]) -> None:
    assert len(invariants.only_wanted_deletions(history(records))) == 1


# I11


def test_a_proven_fault_is_accepted() -> None:
    good = history(span(), Evidence("experiment", 51, True, "process 7 is gone"))
    assert invariants.faults_proven(good, ["experiment"]) == []


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([span()], "no evidence"),
        ([span(), Evidence("experiment", 51, False, "process 7 still runs")], "not proven: process 7 still runs"),
        ([Evidence("experiment", 51, True, "process 7 is gone")], "did not run"),
    ],
    ids=["silent", "disproved", "cut off"],
)
def test_an_unproven_fault_fails(records: list[Record], text: str) -> None:
    found = invariants.faults_proven(history(records), ["experiment"])
    assert len(found) == 1
    assert text in found[0].text


def test_all_checks_run_and_are_ordered() -> None:
    records = [virtual(1), host(2), PodGone(60, "host", "b", "h1"), part(1), part(60, 1), span()]
    found = [item.invariant for item in invariants.check_all(history(records), BASELINE, ["experiment"])]
    assert found == sorted(found, key=lambda name: int(name[1:]))
    assert set(found) == {"I1", "I4", "I6", "I8", "I11"}
