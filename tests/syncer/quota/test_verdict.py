"""Which pods wait if not all may be on the host: the worst first, gangs whole, none without need, and never in turn."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.workloads import WorkloadKey
from bulkhead.kube.objects import Key
from syncer.quota import order, verdict
from syncer.quota.order import Gang, QueuedPod
from syncer.quota.podset import PodSet
from syncer.quota.verdict import Others

GPU = "nvidia.com/gpu"


def entry(name: str, gpus: int = 1, *, priority: int = 0, gang: str = "", size: int = 1, admitted: bool = False) -> QueuedPod:
    of = Gang("space", gang, size) if gang else None
    return QueuedPod(Key("space", name), (0, 0, -priority, name, name), {GPU: gpus}, of, movable=not admitted, uid=name)


def names(entries: Iterable[QueuedPod]) -> list[str]:
    return sorted(each.key.name for each in entries)


def others(on_host: Iterable[QueuedPod] = (), in_plane: Iterable[QueuedPod] = ()) -> Others:
    on_host, in_plane = list(on_host), list(in_plane)
    return Others(PodSet(on_host), PodSet(in_plane), PodSet([*on_host, *in_plane]))


def worst_first(there: Iterable[QueuedPod]) -> list[tuple[order.QueueOrder, PodSet]]:
    found: dict[WorkloadKey, list[QueuedPod]] = {}
    for each in there:
        found.setdefault(each.workload, []).append(each)
    return sorted(((pods.rank, pods) for pods in map(PodSet, found.values())), key=lambda each: each[0], reverse=True)


def victims(lacking: int, *there: QueuedPod, rank: order.QueueOrder = (0, 0, -5, "m", "m")) -> list[str]:
    return names(verdict.victims(rank, {GPU: lacking}, worst_first(there)))


def test_the_worst_give_their_place_and_no_more_than_are_needed() -> None:
    assert victims(1, entry("a"), entry("b"), entry("c")) == ["c"]
    assert victims(2, entry("a"), entry("b", priority=9), entry("c")) == ["a", "c"]
    # The worst alone would not do, and the next does without it.
    assert victims(4, entry("a", 4), entry("b", 1)) == ["a"]


def test_no_pod_gives_its_place_without_making_room() -> None:
    assert victims(3, entry("a"), entry("b")) == []
    assert victims(1, entry("a", admitted=True)) == []
    assert victims(1, entry("a", priority=5), entry("b", priority=9)) == []
    assert verdict.victims((0, 0, -5, "m", "m"), {"example.com/other": 1}, worst_first([entry("a")])) == []


def test_a_gang_goes_whole_or_not_at_all() -> None:
    half = [entry("a", gang="g", size=2), entry("b", gang="g", size=2)]
    assert victims(1, *half) == ["a", "b"]
    # One of them was admitted, or is better than the one that waits: so the gang is.
    assert victims(1, half[0], entry("b", gang="g", size=2, admitted=True)) == []
    assert victims(1, half[0], entry("b", gang="g", size=2, priority=9)) == []


def test_a_gang_needs_what_all_of_it_asks_for() -> None:
    first = entry("a", 2, gang="g", size=4)
    assert verdict.needed(entry("x", 2), others()) == {GPU: 2}
    assert verdict.needed(first, others()) == {GPU: 8}
    # Of those that are known it counts what they ask for, of the others as little as any asks for.
    assert verdict.needed(first, others([], [entry("b", 1, gang="g", size=4)])) == {GPU: 5}
    known = others([entry("c", 1, gang="g", size=4)], [entry("b", 5, gang="g", size=4)])
    assert verdict.needed(first, known) == {GPU: 8}
    # It is whole already, and this is one more.
    assert verdict.needed(first, others(entry(name, gang="g", size=4) for name in "bcde")) == {GPU: 2}


def test_a_gang_asks_at_least_for_its_smallest_pods() -> None:
    first = entry("a", 8, gang="g", size=3)
    assert verdict.at_least(first, others()) == {GPU: 24}
    assert verdict.at_least(first, others([], [entry("b", 1, gang="g", size=3)])) == {GPU: 10}
    assert verdict.at_least(entry("x", 3), others()) == {GPU: 3}


ENTRIES = st.builds(
    lambda number, gpus, priority, gang: entry(f"p{number}", gpus, priority=priority, gang=gang, size=2),
    st.integers(0, 30), st.integers(1, 8), st.integers(0, 3), st.sampled_from(["", "", "g", "h"]),
)  # fmt: skip
POPULATION = st.lists(ENTRIES, max_size=12, unique_by=lambda each: each.key)


@given(there=POPULATION, candidate=ENTRIES, lacking=st.integers(1, 12))
def test_victims_are_worse_whole_enough_and_none_of_them_too_many(
    there: list[QueuedPod], candidate: QueuedPod, lacking: int
) -> None:
    rest = [each for each in there if each.workload != candidate.workload]
    found = verdict.victims(candidate.rank, {GPU: lacking}, worst_first(rest))
    gone = {each.workload for each in found}
    for workload in gone:
        pods = [each for each in rest if each.workload == workload]
        assert {each.key for each in pods} <= {each.key for each in found}, "a gang goes whole"
        assert PodSet(pods).rank > candidate.rank
        # Without this one there would be too little room.
        assert sum(each.asks[GPU] for each in found if each.workload != workload) < lacking
    assert not found or sum(each.asks[GPU] for each in found) >= lacking


@given(pods=st.lists(ENTRIES, min_size=2, max_size=10, unique_by=lambda each: each.key), limit=st.integers(1, 12))
def test_giving_place_ends(pods: list[QueuedPod], limit: int) -> None:
    """In whatever order they come, after as many turns as there are pods no pod takes another's place."""
    pods = [each for each in pods if each.asks[GPU] <= limit and each.gang is None]
    there: list[QueuedPod] = []
    for _turn in range(len(pods) + 1):
        moved = False
        for each in sorted(pods, key=lambda one: one.rank):
            if each in there:
                continue
            short = each.asks[GPU] - (limit - sum(one.asks[GPU] for one in there))
            gone = verdict.victims(each.rank, {GPU: short}, worst_first(there)) if short > 0 else []
            if short <= 0 or gone:
                there = [one for one in there if one not in gone] + [each]
                moved = True
        if not moved:
            return
    raise AssertionError("still moving")
