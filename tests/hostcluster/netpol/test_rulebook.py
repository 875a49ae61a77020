"""The rules of many pods: work that grows with what is written, is redone only where something changed, and goes in turns."""

from collections import Counter
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulkhead.api.objects import Obj
from tests.hostcluster.netpol.compiling import compile_rules
from tests.hostcluster.netpol.test_laws import NODE, worlds
from workstation.hostcluster.netpol import compiler, rulebook
from workstation.hostcluster.netpol.cluster import Cluster, cluster_from
from workstation.hostcluster.netpol.compiler import PodRules
from workstation.hostcluster.netpol.index import LabelIndex
from workstation.hostcluster.netpol.render import Chains, _Writer, render
from workstation.hostcluster.netpol.rulebook import Rulebook


def pod(namespace: str, number: int, address: str, **labels: str) -> Obj:
    return {
        "metadata": {"namespace": namespace, "name": f"pod-{number}", "labels": {"app": "a", "number": str(number), **labels}},
        "spec": {"nodeName": NODE, "containers": [{"ports": []}]},
        "status": {"phase": "Running", "podIP": address},
    }


def pods(namespace: str, count: int, third: int = 0) -> list[Obj]:
    return [pod(namespace, number, f"10.244.{third + number // 200}.{number % 200 + 2}") for number in range(count)]


def policy(namespace: str, rules: list[Obj], name: str = "p") -> Obj:
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": rules}
    return {"metadata": {"namespace": namespace, "name": name}, "spec": spec}


def rules(count: int) -> list[Obj]:
    """So many rules, each with a peer of its own."""
    return [{"from": [{"podSelector": {"matchLabels": {"number": str(number)}}}]} for number in range(count)]


def namespaces(*names: str) -> list[Obj]:
    return [{"metadata": {"name": name, "labels": {"name": name}}} for name in names]


def cluster(pods: list[Obj], policies: list[Obj], *names: str) -> Cluster:
    return cluster_from(pods, namespaces(*(names or ("red", "blue"))), policies)


def drained(book: Rulebook, seen: Cluster) -> tuple[PodRules, ...]:
    book.update(seen)
    while book.busy:
        book.work(7)
    return book.rules()


class Effort:
    """What was done, counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self.namespaces: list[str] = []
        for owner, name in ((LabelIndex, "_found"), (compiler._Namespace, "_peers"), (_Writer, "_peer_set")):
            monkeypatch.setattr(owner, name, self._counted(name, getattr(owner, name)))
        made = rulebook.compile_namespace

        def compiled(index: Any, name: str, *rest: Any) -> Any:
            self.namespaces.append(name)
            return made(index, name, *rest)

        monkeypatch.setattr(rulebook, "compile_namespace", compiled)

    def _counted(self, name: str, call: Any) -> Any:
        def counted(*args: Any) -> Any:
            self.counts[name] += 1
            return call(*args)

        return counted


@pytest.mark.parametrize("count", [1, 20, 400])
def test_a_policy_is_compiled_and_written_once_for_any_number_of_pods(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    effort = Effort(monkeypatch)
    seen = cluster(pods("red", count), [policy("red", rules(300))])
    text = render(compile_rules(seen, NODE))
    assert effort.counts["_peers"] == 300
    assert effort.counts["_found"] == 300
    assert effort.counts["_peer_set"] == min(count, 300)
    assert text.count(" : jump in-") == count


def test_pods_that_are_alike_share_their_rules_and_a_selector_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    effort = Effort(monkeypatch)
    made = compile_rules(cluster(pods("red", 50), [policy("red", rules(1) * 100)]), NODE)
    assert effort.counts["_found"] == 1
    assert {id(each.ingress) for each in made} == {id(made[0].ingress)}


def test_twice_the_rules_are_twice_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    for count in (100, 200, 400):
        effort = Effort(monkeypatch)
        compile_rules(cluster(pods("red", 50), [policy("red", rules(count))]), NODE)
        done.append(sum(effort.counts.values()))
        monkeypatch.undo()
    assert done == [200, 400, 800]


@given(
    st.tuples(st.integers(0, 255), st.integers(20, 32)),
    st.lists(st.tuples(st.integers(0, 4095), st.integers(20, 32)), max_size=12),
)
def test_what_is_left_of_a_block_is_what_no_exception_has(whole: tuple[int, int], holes: list[tuple[int, int]]) -> None:
    asked = IPv4Network(((10 << 24) + whole[0], whole[1]), strict=False)
    excepted = [IPv4Network(((10 << 24) + low, length), strict=False) for low, length in holes]
    left = compiler._left(str(asked), tuple(map(str, excepted)))
    for low in range(-1, 4097):
        address = IPv4Address((10 << 24) + low)
        wanted = address in asked and not any(address in each for each in excepted)
        assert any(address in each for each in left) == wanted


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(worlds(), st.integers(0, 5)), min_size=1, max_size=5))
def test_rules_that_are_kept_up_to_date_are_those_of_a_fresh_start(history: list[tuple[Any, int]]) -> None:
    """After any earlier changes, and however far their compilation had come."""
    book = Rulebook(NODE)
    for world, steps in history:
        book.update(cluster_from(*world))
        book.work(steps)
    last = cluster_from(*history[-1][0])
    assert drained(book, last) == compile_rules(last, NODE)
    assert render(book.rules(), chains=Chains()) == render(compile_rules(last, NODE))


def test_only_what_a_change_touches_is_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from_red = {"from": [{"podSelector": {}, "namespaceSelector": {"matchLabels": {"name": "red"}}}]}
    everywhere = {"to": [], "ports": [{"port": "web"}]}
    policies = [policy("red", rules(3)), policy("blue", rules(3)), policy("green", [from_red]), policy("grey", [])]
    policies[3]["spec"]["egress"] = [everywhere]
    names = ("red", "blue", "green", "grey")
    listed = [each for third, name in enumerate(names) for each in pods(name, 3, third * 10)]
    book = Rulebook(NODE)
    drained(book, cluster(listed, policies, *names))

    def after(listed: list[Obj], policies: list[Obj], *names: str) -> set[str]:
        effort = Effort(monkeypatch)
        seen = cluster(listed, policies, *names)
        assert drained(book, seen) == compile_rules(seen, NODE)
        monkeypatch.undo()
        return set(effort.namespaces)

    assert after(listed, policies, *names) == set()
    assert after(list(reversed(listed)), policies, *names) == set()
    changed = [*policies[:1], policy("blue", rules(2)), *policies[2:]]
    assert after(listed, changed, *names) == {"blue"}
    more = [*listed, pod("blue", 9, "10.244.99.9")]
    assert after(more, changed, *names) == {"blue", "grey"}
    more += [pod("red", 9, "10.244.99.10")]
    assert after(more, changed, *names) == {"red", "green", "grey"}
    assert after(more, changed, *names, "another") == set()


def test_no_namespace_waits_for_the_largest() -> None:
    heavy, light = pods("red", 50), pods("blue", 2, 50)
    book = Rulebook(NODE)
    book.update(cluster([*heavy, *light], [policy("red", rules(3000)), policy("blue", rules(2))]))
    assert book.work(20)
    assert [str(each.address) for each in book.rules()] == ["10.244.50.2", "10.244.50.3"]
    assert book.busy
    turns = 0
    while book.busy:
        book.work(20)
        turns += 1
    assert turns <= (3000 + 50) // 20 + 1
    assert len(book.rules()) == 52


def test_while_a_namespace_is_worked_on_its_pods_keep_their_rules_and_those_that_went_have_none() -> None:
    book = Rulebook(NODE)
    before = drained(book, cluster(pods("red", 3), [policy("red", [])]))
    gone = pods("red", 3)[1:]
    book.update(cluster([*gone, *pods("blue", 1, 50)], [policy("red", rules(3000)), policy("blue", [])]))
    book.work(20)
    assert book.rules()[:2] == before[1:]
    assert str(book.rules()[2].address) == "10.244.50.2"
    # Its address is another pod's now.
    book.update(cluster([pod("blue", 7, "10.244.0.3"), gone[1]], [policy("red", rules(3000)), policy("blue", [])]))
    book.work(20)
    assert [str(each.address) for each in book.rules()] == ["10.244.0.3", "10.244.0.4"]
    assert book.rules()[0].ingress == frozenset()


def test_a_tenant_that_keeps_writing_is_handled_all_the_same() -> None:
    book = Rulebook(NODE)
    finished = False
    for number in range(400):
        book.update(cluster(pods("red", 2), [policy("red", rules(200 + number % 2))]))
        finished = finished or book.work(20)
    assert finished
    assert len(book.rules()) == 2


def test_a_selector_is_remembered_but_not_for_ever() -> None:
    index = LabelIndex([{"app": "a"}])
    for number in range(10_000):
        assert index.chosen({"matchLabels": {"app": f"x{number}"}}) == frozenset()
    assert len(index._asked) <= 4096
    assert index.chosen({"matchLabels": {"app": "a"}}) == frozenset({0})
