"""Each invariant checker accepts a good history and fails on a bad one; a checker that cannot fail proves nothing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest

from e2e.chaos import invariants
from e2e.chaos.history import (
    Act,
    Announced,
    Aside,
    Evidence,
    History,
    LeaderSeen,
    PartSeen,
    PodGone,
    PodSeen,
    Probe,
    Record,
    Span,
    time_of,
)

TENANTS = ("a", "b", "c")


def watched(end: float = 200.0, *, leader: bool = True) -> Iterator[Record]:
    """What a seeing observer notes of tenants at rest: of each a pod and its mirror, its plane, the platform, the leader."""
    for at in range(0, int(end), 10):
        for tenant in TENANTS:
            yield PodSeen(at, "virtual", tenant, f"rest-{tenant}", f"rest-{tenant}", "rest")
            yield PodSeen(at, "host", tenant, f"host-{tenant}", f"rest-{tenant}", "rest-host")
            yield PartSeen(at, tenant, "plane-0/dns", f"plane-{tenant}", 0)
            yield Act(at, tenant, "pod", 3.0)
        yield PartSeen(at, "", "controller/controller", "platform", 0)
        if leader:
            yield LeaderSeen(at, "x")


def bare(*records: Record | Iterable[Record], end: float = 200.0) -> History:
    """These records and no other."""
    flat: list[Record] = []
    for item in records:
        flat += list(item) if isinstance(item, list | tuple | Iterator) else [item]
    last = Probe(end, "a", "read", 0.001)
    return History.of([*flat, last], TENANTS)


def history(*records: Record | Iterable[Record], end: float = 200.0) -> History:
    """These records within what a seeing observer notes besides."""
    given = bare(*records, end=end)
    leads = any(isinstance(item, LeaderSeen) for item in given.records)
    return bare(given.records, watched(end, leader=not leads), end=end)


def led(holder: str, begin: float, end: float = 200.0) -> list[Record]:
    return [LeaderSeen(begin + second, holder) for second in range(0, int(end - begin), 10)]


def virtual(
    at: float, uid: str = "v1", *, deleting: bool = False, refused: bool = False, tenant: str = "b", asked: float = 0.0
) -> PodSeen:
    return PodSeen(at, "virtual", tenant, uid, uid, "web", deleting, refused, asked)


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
        [virtual(1, refused=True), virtual(60), host(80)],
        [virtual(1), host(2), PodGone(60, "host", "b", "h1"), virtual(61, refused=True)],
        [virtual(180)],
        [virtual(1, tenant="a"), host(2, tenant="a"), PodGone(60, "host", "a", "h1"), host(120, "h2", tenant="a"), span()],
        [virtual(1), host(2), PodGone(60, "host", "b", "h1"), host(61, "h2")],
        [virtual(1), host(2), PodGone(60, "virtual", "b", "v1"), host(61, deleting=True), PodGone(120, "host", "b", "h1")],
    ],
    ids=[
        "mirrored",
        "deleted in order",
        "refused",
        "mirrored soon after it was refused",
        "refused later",
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
        ([virtual(1, refused=True), virtual(60)], "had no host pod"),
        ([virtual(1, refused=True), virtual(20), host(22), PodGone(90, "host", "b", "h1")], "had no host pod"),
    ],
    ids=[
        "never mirrored",
        "mirror lost",
        "twins",
        "stray",
        "left over",
        "not repaired after the disturbance",
        "refused once and never mirrored after that",
        "refused once and its mirror lost later",
    ],
)
def test_one_to_one_fails(records: list[Record], text: str) -> None:
    assert [item.text for item in invariants.one_to_one(history(records)) if text in item.text]


def test_a_disturbance_of_one_tenant_excuses_no_other() -> None:
    records = [virtual(1), host(2), PodGone(55, "host", "b", "h1"), host(99, "h2"), span(50, 100, "a")]
    assert invariants.one_to_one(history(records))


@pytest.mark.parametrize(("target", "named"), [("b", []), ("a", ["next"])], ids=["its own tenant", "another one"])
def test_what_is_prepared_for_an_experiment_is_its_own_doing_and_excuses_its_target_alone(
    target: str, named: list[str]
) -> None:
    """400 pods that are created before a span wait for their turn: none of it belongs to the experiment before."""
    late = [virtual(60), host(120), part(1), part(80, 1), span(10, 20, "c"), Aside(55, "next", target, 110)]
    assert [item.experiment for item in invariants.one_to_one(history(late))] == named
    assert [item.experiment for item in invariants.no_restart_elsewhere(history(late))] == named


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
        (probes("b", 0.010), "tenant c: 0 requests in 50 s: not observed"),
        ([*probes("b", 0.010), *probes("c", 0.010)[:49]], "tenant c: 49 requests in 50 s: not observed"),
    ],
    ids=["errors", "slow", "blind prober", "half-blind prober"],
)
def test_harmed_neighbours_are_found(records: list[Record], text: str) -> None:
    found = invariants.neighbours_unharmed(history(records, span()), BASELINE)
    assert len(found) == 1
    assert text in found[0].text


@pytest.mark.parametrize(
    ("requests", "slow", "held"),
    [(98, 1, True), (98, 3, True), (98, 4, False), (100, 3, True), (100, 4, False), (60, 2, True), (60, 3, False)],
)
def test_so_many_slow_requests_fail_a_run_as_are_no_chance(requests: int, slow: int, held: bool) -> None:
    seen = [*probes("b", 0.010)[: requests - slow], *probes("b", 0.5)[100 - slow :]]
    found = invariants.neighbours_unharmed(history([*seen, *probes("c", 0.010)], span()), BASELINE)
    assert (found == []) is held


def test_where_no_latency_is_promised_it_is_measured_and_requests_still_succeed() -> None:
    disk = replace(span(), only_measured=True)
    slow = [*probes("b", 3.0), *probes("c", 0.010), *probes(invariants.HOST, 3.0)]
    assert invariants.neighbours_unharmed(history(slow, disk), BASELINE) == []
    assert not [item for item in invariants.host_unharmed(history(slow, disk), {invariants.HOST: 0.010}) if "p99" in item.text]
    failed = [*probes("b", 3.0, "timeout"), *probes("c", 0.010)]
    (found,) = invariants.neighbours_unharmed(history(failed, disk), BASELINE)
    assert "100 of 100 requests failed" in found.text


def test_a_baseline_of_seconds_is_a_violation_and_no_licence() -> None:
    busy = history(probes("b", 0.010), probes("c", 0.010), span())
    found = invariants.neighbours_unharmed(busy, BASELINE | {"b": 1.2, invariants.HOST: 1.3})
    assert [item.text for item in found] == ["b: p99 1200 ms without a fault, more than 1000 ms: the machine is too busy"]
    of_host = [item.text for item in invariants.host_unharmed(busy, {invariants.HOST: 1.3})]
    assert "host: p99 1300 ms without a fault, more than 1000 ms: the machine is too busy" in of_host


def test_a_tenant_without_a_baseline_is_not_judged_by_any() -> None:
    probed = history(probes("b", 0.010), probes("c", 0.010), span())
    found = invariants.neighbours_unharmed(probed, {"a": 0.010, "b": 0.010})
    assert [item.text for item in found] == ["tenant c: there is no baseline; its API was not probed, or did not answer"]
    failing = history(probes("b", 0.010), probes("c", 0.010)[1:], Probe(51.0, "c", "read", 5.0, "timeout"))
    assert set(invariants.baseline_p99(failing, 51, 100)) == {"b"}


LIMIT = invariants.LatencyBound(3, 0.150)


@pytest.mark.parametrize(("idle", "bound"), [(0.3, LIMIT), (3.9, LIMIT), (4.0, invariants.AIM), (30.0, invariants.AIM)])
def test_the_designs_own_bound_fails_a_run_where_cores_are_to_spare(idle: float, bound: invariants.LatencyBound) -> None:
    assert invariants.bound_of(idle, LIMIT) == bound
    slow = history(probes("b", 0.063), probes("c", 0.010), span())
    assert bool(invariants.neighbours_unharmed(slow, BASELINE, invariants.bound_of(idle, LIMIT))) is (bound == invariants.AIM)


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
        [part(1, 3, oom=True), part(60, 3, oom=True)],
        led("x", 1),
        [part(1, tenant="a"), part(60, tenant="a", uid="p2"), part(140, tenant="a"), part(141, tenant="a", uid="p2")],
    ],
    ids=[
        "quiet",
        "target restarts",
        "target's restart is reported late",
        "old restarts",
        "out of memory before the run",
        "same leader",
        "both pods of a rollout",
    ],
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
        ([*led("x", 1, 60), *led("y", 60)], "leader changed"),
    ],
    ids=["restart", "replacement", "memory", "controller", "target long after", "leader"],
)
def test_no_restart_elsewhere_fails(records: list[Record], text: str) -> None:
    found = invariants.no_restart_elsewhere(history(records, span()))
    assert len(found) == 1
    assert text in found[0].text


def test_killing_the_controller_may_change_the_leader() -> None:
    records = [*led("x", 1, 60), *led("y", 60), part(1, tenant=""), part(61, 1, tenant="")]
    assert invariants.no_restart_elsewhere(history(records, span(target=invariants.CONTROLLER))) == []


def test_a_tenant_that_each_of_two_faults_creates_is_no_part_that_was_replaced() -> None:
    records = [replace(part(1), tenant="new"), replace(part(61), tenant="new", pod_uid="another")]
    assert invariants.no_restart_elsewhere(history(records)) == []
    for worse in (part(70, 1, tenant="new", uid="another"), part(70, tenant="new", uid="third", oom=True)):
        assert len(invariants.no_restart_elsewhere(history([*records, worse]))) == 1
    ours = [replace(item, tenant="b") for item in records]
    assert len(invariants.no_restart_elsewhere(history(ours))) == 1


# I8


@pytest.mark.parametrize(
    "records",
    [
        [virtual(1), host(2), virtual(60, deleting=True), host(61, deleting=True), PodGone(62, "host", "b", "h1")],
        [virtual(1), host(2), host(60, deleting=True), virtual(61, deleting=True)],
        [virtual(1), host(2), PodGone(60, "virtual", "b", "v1"), PodGone(61, "host", "b", "h1")],
        [virtual(1), host(2)],
        [virtual(1, asked=1), host(2), host(60, deleting=True), virtual(70), PodGone(71, "virtual", "b", "v1")],
        [virtual(1), host(2), host(60, deleting=True), virtual(70, asked=61), PodGone(71, "virtual", "b", "v1")],
        [virtual(1), host(2), PodGone(59, "virtual", "b", "v1"), host(60, deleting=True), virtual(70, asked=69)],
    ],
    ids=[
        "in order",
        "within the slack of two watches",
        "gone at once",
        "alive",
        "an event came late",
        "a list came late",
        "came back",
    ],
)
def test_wanted_deletions_are_accepted(records: list[Record]) -> None:
    assert invariants.only_wanted_deletions(history(records)) == []


@pytest.mark.parametrize(
    "records",
    [
        [virtual(1), host(2), host(60, deleting=True), virtual(70, asked=69), virtual(80, deleting=True)],
        [virtual(1), host(2), host(60, deleting=True), virtual(70, asked=69), virtual(71), virtual(80, deleting=True)],
        [virtual(1), host(2), PodGone(60, "host", "b", "h1")],
        [virtual(1), host(2), host(60, deleting=True), virtual(70, asked=69), PodGone(71, "virtual", "b", "v1")],
    ],
    ids=["still alive later", "an event does not take that away", "never deleted by the tenant", "ended later"],
)
def test_unwanted_deletions_are_found(records: list[Record]) -> None:
    assert len(invariants.only_wanted_deletions(history(records))) == 1


# I11


ANNOUNCED = Announced(49, "experiment", "etcd killed", "the others notice nothing", "a")


def test_a_proven_fault_is_accepted() -> None:
    good = history(span(), ANNOUNCED, Evidence("experiment", 51, True, "process 7 is gone"))
    assert invariants.faults_proven(good, ["experiment"]) == []


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([span(), ANNOUNCED], "no evidence"),
        ([span(), ANNOUNCED, Evidence("experiment", 51, False, "process 7 still runs")], "not proven: process 7 still runs"),
        ([ANNOUNCED, Evidence("experiment", 51, True, "process 7 is gone")], "did not run"),
        ([span(), Evidence("experiment", 51, True, "process 7 is gone")], "no hypothesis was recorded"),
        (
            [span(), replace(ANNOUNCED, at=52), Evidence("experiment", 51, True, "process 7 is gone")],
            "no hypothesis was recorded",
        ),
        ([span(), replace(ANNOUNCED, hypothesis=""), Evidence("experiment", 51, True, "gone")], "no hypothesis was recorded"),
    ],
    ids=["silent", "disproved", "cut off", "no hypothesis", "hypothesis afterwards", "empty hypothesis"],
)
def test_an_unproven_fault_fails(records: list[Record], text: str) -> None:
    found = invariants.faults_proven(history(records), ["experiment"])
    assert len(found) == 1
    assert text in found[0].text


def test_without_an_experiment_nothing_is_proven() -> None:
    assert [item.text for item in invariants.faults_proven(history(span()), [])] == ["no experiment was asked for"]


# A history in which nothing, or not enough, was seen


def test_an_empty_history_passes_no_check() -> None:
    for empty in (bare(), History.of([], TENANTS), History.of([], ())):
        found = invariants.check_all(empty, {}, [])
        assert {item.invariant for item in found} >= {"I4", "I11"}
    for empty in (bare(), History.of([], TENANTS)):
        found = invariants.check_all(empty, BASELINE, ["experiment"])
        # I9 is judged for each experiment that began.
        assert {item.invariant for item in found} == set(invariants.TITLES) - {"I9"}


PODS_UNSEEN = (
    *(f"tenant {tenant}: no pod {where} was observed" for tenant in TENANTS for where in ("in its plane", "of it on the host")),
)


@pytest.mark.parametrize("check", [invariants.one_to_one, invariants.only_wanted_deletions])
def test_a_history_without_pods_is_named(check: Callable[[History], list[invariants.Violation]]) -> None:
    assert tuple(item.text for item in check(bare(span()))) == PODS_UNSEEN
    assert check(history(span())) == []


def test_a_history_without_parts_or_a_leader_is_named() -> None:
    assert [item.text for item in invariants.no_restart_elsewhere(bare(span()))] == [
        *(f"tenant {tenant}: no container was observed" for tenant in TENANTS),
        "platform: no container was observed",
        "platform: no leader was observed",
    ]


def test_a_leader_without_a_name_counts_as_none() -> None:
    found = invariants.no_restart_elsewhere(history(led("", 0), span()))
    assert [item.text for item in found] == ["platform: no leader was observed"]


@pytest.mark.parametrize(
    ("blind", "text"),
    [
        (lambda item: isinstance(item, PodSeen) and item.tenant == "b", "tenant b: no pod"),
        (lambda item: isinstance(item, PodSeen) and item.side == "host", "tenant b: no pod of it on the host"),
        (lambda item: isinstance(item, PartSeen) and item.tenant == "c", "tenant c: no container"),
        (lambda item: isinstance(item, PartSeen) and not item.tenant, "platform: no container"),
        (lambda item: isinstance(item, LeaderSeen), "platform: no leader"),
    ],
    ids=["a tenant's pods", "the host's pods", "a plane", "the platform", "the leader"],
)
def test_an_observer_that_goes_blind_is_found(blind: Callable[[Record], bool], text: str) -> None:
    whole = history(span())
    seeing = [item for item in whole.records if not (blind(item) and 60 < time_of(item) < 100)]
    found = [item.text for item in invariants.check_all(bare(seeing), {}, []) if text in item.text]
    assert found
    assert all("was observed from 60.0 to 100.0" in each for each in found)


def test_a_target_may_be_out_of_sight_while_it_is_one() -> None:
    whole = history(span())
    seeing = [
        item
        for item in whole.records
        if not (isinstance(item, PodSeen | PartSeen) and item.tenant == "a" and 60 < item.at < 110)
    ]
    for check in (invariants.one_to_one, invariants.no_restart_elsewhere, invariants.only_wanted_deletions):
        assert check(bare(seeing)) == []


def test_all_checks_run_and_are_ordered() -> None:
    records = [virtual(1), host(2), PodGone(60, "host", "b", "h1"), part(1), part(60, 1), span()]
    found = [item.invariant for item in invariants.check_all(history(records), BASELINE, ["experiment"])]
    assert found == sorted(found, key=lambda name: int(name[1:]))
    assert set(found) == set(invariants.TITLES)
