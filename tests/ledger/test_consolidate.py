"""Which pods make room for a workload that has quota but no node, where they go, and which stay."""

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bulkhead.ledger import consolidate
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import (
    Cause,
    Decisions,
    Flavor,
    Gang,
    Moved,
    Needs,
    Node,
    Pod,
    Rules,
    Share,
    Stage,
    Tenant,
    Topology,
)
from tests.ledger import oracle
from tests.ledger.world import COHORT, GPU, KIND, RACK, World, nodes, tenant

RULES = Rules(max_moves=4)


def world(count: int, *running: tuple[str, int, int], rules: Rules = RULES, quota: int = 64, **more: Any) -> World:
    """Nodes with pods that have run for long: tenant, GPUs, node."""
    made = World(nodes=nodes(count), rules=rules, after_write=oracle.after_write, before_writes=oracle.before_writes)
    made.tenants = {name: tenant(name, quota) for name in ("ada", "bob")}
    for number, (name, gpus, node) in enumerate(running):
        runs(made, name, gpus, node, f"r{number}", **more)
    return made


def runs(made: World, name: str, gpus: int, node: int, called: str, **more: Any) -> Pod:
    said: dict[str, Any] = {"maker": called, "stage": Stage.BOUND, "node": f"n{node}", "created": 0.0, "admitted": 0.0}
    return made.add(name, called, gpus, **(said | more))


def moves(decisions: Decisions) -> dict[str, str]:
    return {each.pod.virtual_name: each.to for each in decisions.reclaim if each.cause is Cause.MOVED}


def where(made: World) -> dict[str, str]:
    return {pod.virtual_name: pod.node for pod in made.held()}


def test_one_of_two_halves_moves_and_everything_runs() -> None:
    made = world(2, ("ada", 4, 0), ("ada", 4, 1))
    name = made.create("ada", 8)
    decisions = made.decide()
    assert moves(decisions) == {"r0": "n1"}
    (verdict,) = decisions.verdicts.values()
    assert f"{verdict.why}: {verdict.message}" == (
        "WaitingForReclaim: requests 8 nvidia.com/gpu; room for it becomes free within 3 min"
    )
    (back,) = decisions.reclaim
    assert back.message.startswith(
        "it makes room for a larger workload, because free devices are spread over too many nodes; room on"
    )
    assert back.deadline == made.now + 180.0
    made.settle()
    assert where(made) == {"r0": "n1", "r1": "n1", name: "n0"}


@pytest.mark.parametrize("rules", [Rules(), Rules(max_moves=0)])
def test_no_pod_moves_unless_the_cohort_allows_it(rules: Rules) -> None:
    made = world(2, ("ada", 4, 0), ("ada", 4, 1), rules=rules)
    made.create("ada", 8)
    decisions = made.settle()
    (verdict,) = decisions.verdicts.values()
    assert f"{verdict.why}: {verdict.message}" == (
        "NoCapacity: requests 8 nvidia.com/gpu; 2 nodes match; 8 nvidia.com/gpu are free there, at most 4 on one node"
    )
    assert where(made) == {"r0": "n0", "r1": "n1"}


def test_a_gang_finds_whole_nodes() -> None:
    made = world(4, ("ada", 2, 0), ("ada", 2, 1), ("ada", 2, 2), ("ada", 2, 3))
    name = made.create("ada", 8, 3)
    assert set(moves(made.decide()).values()) == {"n3"}
    made.settle()
    assert sorted(pod.node for pod in made.held() if pod.virtual_name == name) == ["n0", "n1", "n2"]
    assert len(where(made)) == 5


def test_a_gang_that_has_to_be_in_one_rack_finds_one() -> None:
    made = world(4, ("ada", 4, 0), ("ada", 4, 2), ("ada", 8, 3))
    name = made.create("ada", 8, 2, topology=Topology(RACK, required=True))
    assert moves(made.decide()) == {"r0": "n2"}
    made.settle()
    assert sorted(pod.node for pod in made.held() if pod.virtual_name == name) == ["n0", "n1"]


def test_no_more_are_moved_than_have_to_be_nor_than_the_bound() -> None:
    running = [("ada", 1, 0)] * 2 + [("ada", 2, 0)] + [("ada", 4, 1)] + [("ada", 8, 2)]
    made = world(4, *running, ("ada", 4, 3), rules=replace(RULES, max_moves=1))
    made.create("ada", 6)
    assert moves(made.decide()) == {"r2": "n1"}
    made = world(2, *[("ada", 1, 0)] * 4, ("ada", 4, 1), rules=replace(RULES, max_moves=3))
    made.pods["u00005"] = replace(made.pods["u00005"], maker="")
    made.create("ada", 8)
    assert not moves(made.decide())
    made.rules = replace(RULES, max_moves=4)
    assert len(moves(made.decide())) == 4


def test_a_pod_whose_node_helps_no_more_stays() -> None:
    """What else runs on the first node leaves no CPU for the gang, which shows only when its GPUs are free."""
    made = world(4, ("ada", 2, 0), ("ada", 2, 1), ("ada", 2, 2), ("ada", 4, 3))
    runs(made, "ada", 0, 0, "hog", asks={"cpu": 1 << 20})
    made.create("ada", 8, 2)
    assert moves(made.decide()) == {"r1": "n3", "r2": "n3"}


@pytest.mark.parametrize(("ends_in", "moved"), [(RULES.reclaim_within - 1.0, {}), (RULES.reclaim_within + 60.0, {"r0": "n1"})])
def test_no_pod_moves_for_what_starts_as_soon_without_that(ends_in: float, moved: dict[str, str]) -> None:
    made = world(3, ("ada", 4, 0), ("ada", 4, 1), ("ada", 8, 2))
    uid = next(uid for uid, pod in made.pods.items() if pod.virtual_name == "r2")
    made.pods[uid] = replace(made.pods[uid], ends_by=made.now + ends_in)
    made.create("ada", 8)
    assert moves(made.decide()) == moved


UNMOVABLE: dict[str, dict[str, Any]] = {
    "no controller recreates it": {"maker": ""},
    "something else decides where it fits": {"plain": False},
    "of the same size": {"asks": {GPU: 8}},
    "of Slurm": {"slurm_worker": True},
    "of higher priority": {"priority": 1},
    "of higher priority in its tenant": {"own_priority": 1},
    "another's within its quota": {"tenant": "bob"},
    "runs only there": {"needs": Needs(selector=(("kubernetes.io/hostname", "n0"),))},
    "not for long": {"admitted": 950.0},
    "not bound": {"stage": Stage.ADMITTED, "pinned": "n0"},
    "of a gang": {"gang": Gang("g", 1)},
}


@pytest.mark.parametrize("case", UNMOVABLE)
def test_which_pods_do_not_make_room(case: str) -> None:
    made = world(2, ("ada", 4, 0))
    runs(made, "bob", 4, 1, "other")
    (first, other) = made.pods.values()
    labels = {"kubernetes.io/hostname": "n0"}
    made.nodes["n0"] = replace(made.nodes["n0"], labels=made.nodes["n0"].labels | labels)
    made.create("ada", 8)
    assert moves(made.decide()) == {"r0": "n1"}, "it does without that"
    made.pods[first.uid] = replace(first, **UNMOVABLE[case])
    made.pods[other.uid] = replace(other, maker="")
    assert not moves(made.decide())


def test_a_pod_that_has_not_run_for_the_minimum_moves_after_it() -> None:
    made = world(2, ("ada", 4, 0), ("ada", 4, 1), admitted=950.0)
    made.create("ada", 8)
    assert made.decide().next_at == 1070.0
    made.settle()
    assert len(where(made)) == 3


@pytest.mark.parametrize(("nominal", "borrows"), [(0, True), (2, True), (4, False)])
def test_of_others_those_that_borrow_move(nominal: int, *, borrows: bool) -> None:
    """Half of the node is its own tenant's, which has to move too: taking back alone would not do."""
    made = world(3, ("ada", 4, 0), ("bob", 4, 0), ("ada", 4, 1), ("ada", 4, 2))
    made.tenants["bob"] = tenant("bob", nominal)
    for pod in list(made.pods.values())[2:]:
        made.pods[pod.uid] = replace(pod, maker="")
    made.create("ada", 8)
    found = moves(made.decide())
    assert set(found) == ({"r0", "r1"} if borrows else set())
    assert sorted(found.values()) == (["n1", "n2"] if borrows else [])


@pytest.mark.parametrize("kinds", [("fast", "slow"), ("slow", "fast")])
def test_a_moved_pod_stays_on_its_kind_of_node(kinds: tuple[str, str]) -> None:
    """The quota that it keeps is of one kind; it would fit more tightly on the other one, of which its tenant has quota too."""
    flavors = tuple(Flavor(kind, GPU, {KIND: kind}) for kind in kinds)
    made = World(nodes=nodes(4, kinds=kinds), rules=replace(RULES, flavors=flavors))
    shares = {(kind, GPU): Share(64) for kind in kinds}
    made.tenants = {"ada": Tenant("ada", COHORT, shares=shares, prefers={GPU: ("fast", "slow")})}
    runs(made, "ada", 4, 0, "small", flavor=kinds[0])
    for node, gpus in ((1, 4), (2, 2), (3, 8)):
        runs(made, "ada", gpus, node, f"stays-{node}", flavor=kinds[node % 2], maker="")
    made.create("ada", 8, needs=Needs(selector=((KIND, kinds[0]),)))
    assert moves(made.decide()) == {"small": "n2"}


def test_of_others_no_more_move_than_they_borrow() -> None:
    """Both would have to go, and one of them is on what is its tenant's own."""
    made = world(3, ("bob", 4, 0), ("bob", 4, 0), ("ada", 4, 1), ("ada", 4, 2))
    made.tenants["bob"] = tenant("bob", 4)
    for pod in list(made.pods.values())[2:]:
        made.pods[pod.uid] = replace(pod, maker="")
    made.create("ada", 8)
    assert not moves(made.decide())


def test_no_pod_moves_if_one_that_has_to_finds_no_room() -> None:
    made = world(2, ("ada", 4, 0), ("ada", 4, 0))
    runs(made, "ada", 4, 1, "stays", maker="")
    made.create("ada", 8)
    assert not moves(made.decide())


def test_no_pod_moves_for_a_pod_of_the_same_size() -> None:
    """It may go to the other node, where the one that waits may not."""
    made = world(2, ("ada", 8, 0))
    hostname = ("kubernetes.io/hostname", "n0")
    made.nodes["n0"] = replace(made.nodes["n0"], labels=made.nodes["n0"].labels | dict([hostname]))
    made.create("ada", 8, needs=Needs(selector=(hostname,)))
    assert not moves(made.decide())
    (running, _) = made.pods.values()
    made.pods[running.uid] = replace(running, asks={GPU: 7})
    assert moves(made.decide()) == {"r0": "n1"}


def test_no_pod_moves_to_where_it_could_not_be_bound_before() -> None:
    made = world(2, ("ada", 4, 0), ("ada", 4, 1))
    made.create("ada", 8)
    assert moves(made.decide()) == {"r0": "n1"}
    avoids = replace(made.snapshot(), avoid={("ada", Needs()): frozenset({"n1"})})
    assert not moves(decide(avoids, made.now))


def test_a_place_is_kept_from_pods_that_come_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that is older than the successor, and asks for just what is free on its new node."""

    def runs_after(made: World) -> bool:
        made.create("ada", 8)
        made.apply(made.decide())
        made.step(1.0)
        made.create("bob", 4)
        made.settle()
        return "r0" in where(made)

    assert runs_after(world(2, ("ada", 4, 0), ("ada", 4, 1)))
    monkeypatch.setattr("bulkhead.ledger.homes.Homes.__init__", _nothing_is_kept)
    assert not runs_after(world(2, ("ada", 4, 0), ("ada", 4, 1)))


def _nothing_is_kept(homes: Any, _: Any, books: Any) -> None:
    homes._books, homes._homes = books, {}


def test_a_place_is_kept_for_a_while_only() -> None:
    made = world(2, ("ada", 4, 0), ("ada", 4, 1))
    made.create("ada", 8)
    made.apply(made.decide())
    made.step(1.0)
    (moved,) = (pod for pod in made.pods.values() if pod.ending)
    made.end(moved)
    name = made.create("bob", 4)
    assert not any(each.pod.virtual_name == name for each in made.decide().admit)
    made.settle()
    assert name in where(made)


def test_what_the_host_does_not_show_as_leaving_keeps_no_other_place() -> None:
    made = world(2, ("ada", 4, 0), ("ada", 4, 1))
    (first, _) = made.pods.values()
    made.moved[first.uid] = Moved(first, "n1", made.now)
    name = made.create("bob", 4)
    assert [each.pod.virtual_name for each in made.decide().admit] == [name]
    made.pods[first.uid] = replace(first, ending=True)
    assert [each.node for each in made.decide().admit] == ["n0"]


def test_a_successor_waits_for_the_end_of_its_predecessor() -> None:
    """A Deployment makes it at once; the quota of one pod is not that of two."""
    made = world(2, ("ada", 4, 0), ("ada", 4, 1))
    made.create("ada", 8)
    made.apply(made.decide())
    made.step(1.0)
    successor = made.add("ada", "new", 4, maker="r0")
    decisions = made.decide()
    assert not decisions.admit
    assert decisions.verdicts[successor.uid].why == "WaitingForReclaim"
    made.pods.pop("u00001")
    assert [(each.pod.virtual_name, each.node, each.instead) for each in made.decide().admit] == [
        ("new", "n1", "u00001"),
        ("w3", "n0", ""),
    ]


def test_a_successor_goes_to_the_node_that_is_kept_for_it_though_another_fits_better() -> None:
    made = world(2, ("ada", 4, 1))
    gone = made.pods.pop(made.add("ada", "old", 4, maker="m").uid)
    made.add("ada", "new", 4, maker="m")
    assert [admission.node for admission in made.decide().admit] == ["n1"]
    made.moved[gone.uid] = Moved(gone, "n0", made.now)
    assert [(admission.node, admission.instead) for admission in made.decide().admit] == [("n0", gone.uid)]


def test_quota_of_a_moved_pod_is_kept_too() -> None:
    """Its tenant has an older pod that waits for quota: it waits on."""
    made = world(2, ("ada", 4, 0), ("ada", 4, 1))
    made.tenants = {"ada": Tenant("ada", COHORT, shares={("", GPU): Share(16, 0)})}
    made.create("ada", 8)
    waits = made.create("ada", 2, priority=-1)
    made.settle()
    assert len(where(made)) == 3
    assert waits not in where(made)


def test_everything_on_a_full_host_stays_where_it_is() -> None:
    made = world(2, ("ada", 4, 0), ("ada", 4, 1), ("ada", 4, 1))
    made.create("ada", 8)
    assert not moves(made.settle())
    made.nodes["n2"] = Node("n2", {GPU: 8, "cpu": 1 << 20}, usable=False)
    assert not moves(made.settle())


def _break(draw: st.DrawFn) -> World:
    """A host that is free in pieces: on each node something runs."""
    count = draw(st.integers(2, 4))
    made = world(count, rules=Rules(max_moves=draw(st.integers(1, 4))))
    made.tenants = {name: tenant(name, draw(st.sampled_from((4, 16, 32)))) for name in ("ada", "bob")}
    for node in range(count):
        for number in range(draw(st.integers(1, 2))):
            owner = draw(st.sampled_from(("ada", "ada", "ada", "bob")))
            gpus, maker = draw(st.sampled_from((1, 2, 3, 4))), draw(st.sampled_from((f"{node}", f"{node}", "many", "")))
            runs(made, owner, gpus, node, f"r{node}-{number}", maker=maker)
    return made


@st.composite
def histories(draw: st.DrawFn) -> tuple[World, list[tuple[str, int, int, float]]]:
    """Such a host, and the arrivals: tenant, GPUs, number of pods, and the time after the previous one."""
    comes = st.tuples(
        st.sampled_from(("ada", "ada", "bob")),
        st.sampled_from((8, 8, 6, 4, 1)),
        st.sampled_from((1, 1, 1, 2)),
        st.sampled_from((0.0, 1.0, 4.0, 7.0, 500.0)),
    )
    return _break(draw), draw(st.lists(comes, min_size=1, max_size=5))


def play(history: tuple[World, list[tuple[str, int, int, float]]]) -> int:
    """Each moved pod runs at the end, unless it was evicted for another reason. Returns how many were moved."""
    made, comes = history
    moved: list[str] = []
    others: list[str] = []

    def noted(_: World, decisions: Decisions) -> None:
        oracle.before_writes(made, decisions)
        for each in decisions.reclaim:
            (moved if each.cause is Cause.MOVED else others).append(each.pod.virtual_name)

    made.before_writes = noted
    for name, gpus, pods, later in comes:
        made.create(name, gpus, pods, maker=f"{gpus}")
        made.apply(made.decide())
        made.step(later)
    oracle.at_rest(made, made.settle())
    assert others or set(moved) <= {pod.virtual_name for pod in made.held()}
    return len(moved)


def many(number: int) -> None:
    """So many histories, the same each time."""
    gc.collect()

    @settings(max_examples=number, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(histories())
    def each(history: tuple[World, list[tuple[str, int, int, float]]]) -> None:
        play(history)

    each()


def test_a_moved_pod_runs_again() -> None:
    many(150)


@pytest.mark.simulation
@pytest.mark.timeout(900)
def test_moved_pods_run_again_after_many_histories() -> None:
    many(3000)


def wherever_there_is_a_node(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consolidate._Search, "_elsewhere", lambda self, *_: min(self.candidates.nodes))


def no_place_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("bulkhead.ledger.homes.Homes.__init__", _nothing_is_kept)


def what_nobody_makes_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consolidate._Search, "_is_movable", lambda _, group: not group.is_gang and group.pods[0].reclaim_by is None)


@pytest.mark.parametrize(
    "mutation", [wherever_there_is_a_node, no_place_is_kept, what_nobody_makes_again], ids=lambda each: each.__name__
)
def test_a_missing_rule_is_noticed(mutation: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        many(400)
