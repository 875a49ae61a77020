"""Where pods would go: whole or not at all, on whole nodes or broken ones, in one domain; every state can be returned to."""

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bulkhead.ledger import room
from bulkhead.ledger.model import Flavor, Needs, Node, Pod, Stage, Topology
from bulkhead.ledger.nodes import Nodes
from bulkhead.ledger.place import Board
from tests.kit import yamlfiles

GPU = "nvidia.com/gpu"
RACK, NVLINK = "bulkhead.dev/rack", "bulkhead.dev/nvlink-domain"
CASES: list[dict[str, Any]] = yamlfiles.load(Path(__file__).parent / "data/places.yaml")


def pod(uid: int = 0, needs: Needs | None = None, **asks: int) -> Pod:
    named = {GPU if name == "gpu" else name: amount for name, amount in asks.items()}
    return Pod(str(uid), "ns", f"p{uid}", named, Stage.WAITING, 0.0, needs=needs or Needs())


def nodes_of(case: dict[str, Any]) -> list[Node]:
    """`name: free of allocatable` GPUs, and whatever other fields are given."""
    found = []
    for name, said in case["nodes"].items():
        room = {GPU: said["gpus"]} if said.get("gpus") else {}
        labels = {
            RACK if key == "rack" else NVLINK if key == "nvlink" else key: value
            for key, value in said.get("labels", {}).items()
        }
        found.append(Node(name, room | said.get("room", {}), labels, usable=said.get("usable", True)))
    return found


def board_of(case: dict[str, Any]) -> Board:
    board = Board(nodes_of(case))
    for name, said in case["nodes"].items():
        for _ in range(said.get("held", 0)):
            board.hold(name, {GPU: 1})
    return board


def asked(case: dict[str, Any]) -> list[Pod]:
    groups = case["pods"] if isinstance(case["pods"], list) else [case["pods"]]
    return [
        pod(number, Needs(tuple(group.get("selector", {}).items())), **group.get("asks", {"gpu": group.get("gpu", 0)}))
        for number, group in enumerate(itertools.chain.from_iterable([group] * group.get("count", 1) for group in groups))
    ]


def topology_of(case: dict[str, Any]) -> Topology | None:
    how = case.get("topology")
    return None if how is None else Topology(RACK, required=how == "required")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_where_pods_go(case: dict[str, Any]) -> None:
    found = board_of(case).place(asked(case), topology=topology_of(case))
    assert (None if found is None else " ".join(found)) == case["go"]
    if found is None:
        short = board_of(case).explain(asked(case), topology=topology_of(case))
        assert {key: getattr(short, key) for key in case["short"]} == case["short"]


def test_a_flavor_binds_those_who_ask_for_its_resource() -> None:
    board = Board(
        [
            Node("cpu", {"cpu": 4}),
            Node("a", {"cpu": 4, GPU: 8}, {"gpu": "a100"}),
            Node("h", {"cpu": 4, GPU: 8}, {"gpu": "h100"}),
        ]
    )
    gang = [pod(0, cpu=1), pod(1, cpu=1, gpu=8)]
    assert board.place(gang, Flavor("h100", GPU, {"gpu": "h100"})) == ("cpu", "h")
    assert board.place([pod(0, gpu=8), pod(1, gpu=8)], Flavor("h100", GPU, {"gpu": "h100"})) is None


def test_a_running_pod_takes_room_also_where_none_was_left() -> None:
    board = Board([Node("a", {GPU: 2, "pods": 2})])
    board.hold("gone", {GPU: 1})
    board.hold("a", {GPU: 3, "unheard.of/thing": 1})
    assert board.place([pod(gpu=1)]) is None
    board.release("a", {GPU: 3, "unheard.of/thing": 1})
    board.hold("a", {})
    assert board.place([pod(gpu=1)]) == ("a",)
    assert board.place([pod(0, gpu=1), pod(1, gpu=1)]) is None, "two pods are the most"


def test_what_no_node_has_is_named() -> None:
    board = Board([Node("a", {"cpu": 1000})])
    short = board.explain([pod(cpu=1), pod(1, gpu=4), pod(2, gpu=4)])
    assert (short.pods, short.resource, short.asks, short.nodes, short.free, short.could_ever) == (2, GPU, 4, 1, 0, False)


# -- properties

_ASKS = st.fixed_dictionaries({GPU: st.integers(0, 4), "cpu": st.integers(0, 4)})
_ROOM = st.fixed_dictionaries({GPU: st.integers(0, 4), "cpu": st.integers(0, 8)}, optional={"pods": st.integers(0, 3)})
_LABELS = st.dictionaries(st.sampled_from([RACK, NVLINK]), st.sampled_from(["x", "y"]))


@st.composite
def boards(draw: st.DrawFn) -> tuple[list[Node], list[tuple[str, dict[str, int]]]]:
    """A few small nodes, and who runs there."""
    nodes = [
        Node(f"n{number}", draw(_ROOM), draw(_LABELS), usable=draw(st.integers(0, 5)) > 0)
        for number in range(draw(st.integers(1, 4)))
    ]
    running = draw(st.lists(st.tuples(st.sampled_from([node.name for node in nodes]), _ASKS), max_size=4))
    return nodes, running


def free_of(nodes: Sequence[Node], running: Sequence[tuple[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    """Counted in another way than the board does."""
    free = {node.name: {"pods": 99} | dict(node.allocatable) for node in nodes}
    for name, asks in running:
        for resource, amount in (asks | {"pods": 1}).items():
            free[name][resource] = free[name].get(resource, 0) - amount
    return free


def fits(free: dict[str, int], asks: dict[str, int], times: int) -> bool:
    return all(free.get(name, 0) >= amount * times for name, amount in (asks | {"pods": 1}).items() if amount)


def search(nodes: Sequence[Node], free: dict[str, dict[str, int]], asks: dict[str, int], count: int, key: str | None) -> bool:
    """Whether so many equal pods find room in any way at all: every way is tried."""
    open_to = [node for node in nodes if node.usable and (key is None or key in node.labels)]
    for way in itertools.combinations_with_replacement(open_to, count):
        if key is not None and len({node.labels[key] for node in way}) > 1:
            continue
        if all(fits(free[name], asks, times) for name, times in Counter(node.name for node in way).items()):
            return True
    return False


def built(nodes: Sequence[Node], running: Sequence[tuple[str, dict[str, int]]]) -> Board:
    board = Board(nodes)
    for name, asks in running:
        board.hold(name, asks)
    return board


@settings(max_examples=300)
@given(
    boards(), _ASKS, st.integers(1, 4), st.sampled_from([None, Topology(RACK, required=True), Topology(RACK, required=False)])
)
def test_equal_pods_find_room_exactly_where_there_is_some(
    made: tuple[list[Node], list[tuple[str, dict[str, int]]]], asks: dict[str, int], count: int, topology: Topology | None
) -> None:
    nodes, running = made
    free = free_of(nodes, running)
    pods = [Pod(str(number), "ns", "p", asks, Stage.WAITING, 0.0) for number in range(count)]
    found = built(nodes, running).place(pods, topology=topology)
    key = RACK if topology is not None and topology.required else None
    assert (found is not None) == search(nodes, free, asks, count, key)
    if found is None:
        short = built(nodes, running).explain(pods, topology=topology)
        assert short.pods == count
        assert short.fitting < count or short.fitting_domain < count or topology is not None
        assert short.could_ever == search(
            [Node(n.name, n.allocatable, n.labels) for n in nodes], free_of(nodes, []), asks, count, key
        )
        return
    for name, times in Counter(found).items():
        assert fits(free[name], asks, times)
    if key is not None:
        assert len({next(node for node in nodes if node.name == name).labels[key] for name in found}) == 1


@given(boards(), st.lists(_ASKS, min_size=1, max_size=4), st.sampled_from([None, Topology(RACK, required=False)]))
def test_different_pods_are_never_given_more_than_there_is(
    made: tuple[list[Node], list[tuple[str, dict[str, int]]]], gang: list[dict[str, int]], topology: Topology | None
) -> None:
    nodes, running = made
    pods = [Pod(str(number), "ns", "p", asks, Stage.WAITING, 0.0) for number, asks in enumerate(gang)]
    found = built(nodes, running).place(pods, topology=topology)
    assert found == built(nodes, running).place(pods, topology=topology), "the same answer each time"
    if found is not None:
        after = free_of(nodes, [*running, *zip(found, gang, strict=True)])
        before = free_of(nodes, running)
        for name, asks in zip(found, gang, strict=True):
            assert all(after[name].get(resource, 0) >= 0 for resource, amount in asks.items() if amount), (before, after)
            assert after[name]["pods"] >= 0
            assert next(node for node in nodes if node.name == name).usable


def state_of(board: Board) -> str:
    columns = board._room.columns.values()
    return json.dumps(
        [
            [column.resource, column.free, sorted(getattr(column, "levels", {}).items()), getattr(column, "touched", 0)]
            for column in columns
        ]
    )


@given(
    capacity=st.lists(st.integers(0, 8), min_size=1, max_size=12),
    taken=st.lists(st.integers(-2, 8), max_size=12),
    amount=st.integers(1, 9),
    racks=st.lists(st.sampled_from(["", "x", "y", "z"]), min_size=12, max_size=12),
    few=st.sampled_from([0, 2, 64]),
    some=st.integers(0, 2**12 - 1),
)
def test_devices_are_counted_by_levels_as_node_by_node(
    *, capacity: list[int], taken: list[int], amount: int, racks: list[str], few: int, some: int
) -> None:
    plain, devices = room.Column(GPU, capacity), room.Devices(GPU, capacity)
    for node, each in enumerate(taken[: len(capacity)]):
        plain.take(node, each)
        devices.take(node, each)
    nodes = some & ((1 << len(capacity)) - 1)
    labelled = [Node(f"n{number}", {}, {RACK: rack} if rack else {}) for number, rack in enumerate(racks[: len(capacity)])]
    domains = Nodes(labelled).domains(RACK)
    assert devices.enough(nodes, amount) == plain.enough(nodes, amount)
    assert devices.free_on(nodes) == plain.free_on(nodes)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(room, "_FEW_DOMAINS", few)
        assert devices.rooms(nodes, amount, domains) == plain.rooms(nodes, amount, domains)


class Holding(RuleBasedStateMachine):
    """Any order of holding, releasing, asking, marking and undoing."""

    @initialize(made=boards())
    def begin(self, made: tuple[list[Node], list[tuple[str, dict[str, int]]]]) -> None:
        self.nodes, self.running = made[0], list(made[1])
        self.board = built(self.nodes, self.running)
        self.marks: list[tuple[int, list[tuple[str, dict[str, int]]], str]] = []

    @rule(gang=st.lists(_ASKS, min_size=1, max_size=3))
    def admit(self, gang: list[dict[str, int]]) -> None:
        pods = [Pod(str(number), "ns", "p", asks, Stage.WAITING, 0.0) for number, asks in enumerate(gang)]
        before = state_of(self.board)
        found = self.board.place(pods)
        self.board.explain(pods)
        assert state_of(self.board) == before, "asking holds nothing"
        for name, asks in zip(found or (), gang if found else (), strict=True):
            self.board.hold(name, asks)
            self.running.append((name, asks))

    @rule(at=st.integers(0, 100))
    def end(self, at: int) -> None:
        if self.running:
            name, asks = self.running.pop(at % len(self.running))
            self.board.release(name, asks)

    @rule()
    def mark(self) -> None:
        self.marks.append((self.board.mark(), list(self.running), state_of(self.board)))

    @rule()
    def undo(self) -> None:
        if self.marks:
            mark, self.running, state = self.marks.pop()
            self.board.undo(mark)
            assert state_of(self.board) == state

    @invariant()
    def counts_right(self) -> None:
        assert state_of(self.board) == state_of(built(self.nodes, self.running)), "as if it had always been so"


TestHolding = Holding.TestCase
TestHolding.settings = settings(max_examples=60, stateful_step_count=20)
