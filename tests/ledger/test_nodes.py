"""Which nodes match what a pod needs: the same table that a real scheduler answers, and needs as tenants might abuse them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.ledger import nodes as matching
from bulkhead.ledger.model import Expression, Flavor, Needs, Node, Taint, Toleration
from bulkhead.ledger.nodes import Nodes, numbers
from bulkhead.ledger.read import node_of, pod_of
from tests.kit import yamlfiles

CASES: list[dict[str, Any]] = yamlfiles.load(Path(__file__).parent / "data/needs.yaml")


def node_object(case: dict[str, Any], name: str = "the-node") -> dict[str, Any]:
    spec = {key: value for key, value in case["node"].items() if key != "labels"}
    return {"metadata": {"name": name, "labels": case["node"].get("labels", {})}, "spec": spec}


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_needs_are_matched_as_the_scheduler_does(case: dict[str, Any]) -> None:
    node = node_of(node_object(case))
    pod = pod_of({"metadata": {"uid": "1", "name": "pod", "namespace": "x"}, "spec": case["pod"]})
    assert pod is not None
    assert bool(Nodes([node]).matching(pod.needs)) is case["matches"]


def test_a_flavor_is_its_labels() -> None:
    h100, a100 = (Node(f"{kind}-{number}", {}, {"gpu": kind, "zone": "z"}) for kind, number in (("h100", 0), ("a100", 1)))
    others = Needs(selector=(("zone", "z"),))
    nodes = Nodes([h100, a100])
    assert list(numbers(nodes.matching(others))) == [0, 1]
    assert list(numbers(nodes.named({"a100-1", "gone"}))) == [1]
    assert list(numbers(nodes.matching(others, Flavor("a", "nvidia.com/gpu", {"gpu": "a100", "zone": "z"})))) == [1]
    assert not nodes.matching(others, Flavor("b", "nvidia.com/gpu", {"gpu": "b200"}))


_WORDS = st.sampled_from(["", "a", "b", "1", "2", "10", "x y"])
_EXPRESSIONS = st.builds(
    Expression,
    st.sampled_from(["k", "l", "other"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "?"]),
    st.lists(_WORDS, max_size=2).map(tuple),
    st.booleans(),
)
_TAINTS = st.builds(
    Taint, st.sampled_from(["k", "l"]), st.sampled_from(["", "a"]), st.sampled_from(["NoSchedule", "NoExecute"])
)
_TOLERATIONS = st.builds(
    Toleration, st.sampled_from(["", "k", "l"]), st.sampled_from(["", "a"]), st.sampled_from(["", "NoExecute"]), st.booleans()
)
_NODES = st.builds(
    Node,
    st.sampled_from(["a", "b", "1"]),
    st.just({}),
    st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["", "a", "b", "1", "2", "10"])),
    st.lists(_TAINTS, max_size=2).map(tuple),
    st.booleans(),
)
_NEEDS = st.builds(
    Needs,
    st.lists(st.tuples(st.sampled_from(["k", "l"]), _WORDS), max_size=2).map(tuple),
    st.lists(st.lists(_EXPRESSIONS, max_size=2).map(tuple), max_size=2).map(tuple),
    st.lists(_TOLERATIONS, max_size=2).map(tuple),
)


@given(st.lists(_NODES, max_size=4, unique_by=lambda node: node.name), _NEEDS)
def test_each_node_is_judged_by_itself(nodes: list[Node], needs: Needs) -> None:
    """What sets of bits say of all nodes is what they say of each alone."""
    together = Nodes(nodes).matching(needs)
    alone = [number for number, node in enumerate(nodes) if Nodes([node]).matching(needs)]
    assert list(numbers(together)) == alone


def test_thousands_of_different_needs_are_judged_and_no_more_of_them_kept_than_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matching, "_MOST_KEPT", 100)
    nodes = Nodes([Node(f"n{number}", {}, {"host": f"n{number}"}) for number in range(64)])
    for number in range(1000):
        name = f"n{number % 64}"
        needs = Needs(
            (("host", name),),
            ((Expression("metadata.name", "NotIn", (f"x{number}",), of_name=True),),),
            (Toleration(f"k{number}", "", "", exists=True),),
        )
        assert list(numbers(nodes.matching(needs))) == [number % 64]
        nodes.domains(f"made-up-{number}")
    assert max(map(len, (nodes._matching, nodes._tolerating, nodes._domains))) <= 100
    assert len(nodes._values) <= 1, "keys that no node has are not kept"
