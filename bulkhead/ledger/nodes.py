"""Finds the nodes that a pod may go to, as the host's scheduler judges selector, required affinity and taints.

    nodes ──> by label and value, by taint: sets of bits ──> matching(needs, flavor): a few operations on whole sets

A set of nodes is one integer, with bit N for node N, so the cost of thousands of different needs does not grow with the nodes.
This module judges labels, names and taints; `room` judges room. Nodes that are not usable match nothing. A requirement that
Kubernetes would refuse (an operator without its values, a value that no label can have) matches no node, as in the scheduler.
All caches here are bounded.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

from bulkhead.ledger.model import Expression, Flavor, Needs, Node, Taint, Toleration

Bits: TypeAlias = int
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_MOST_KEPT: Final = 8192  # kinds of needs, tolerations, keys of domains
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_MOST_INTEGER: Final = 2**63


def numbers(bits: Bits) -> Iterator[int]:
    """The nodes of a set, in order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def only(needs: Needs, operator: str, nodes: Iterable[str]) -> Needs:
    """The same needs, restricted to one node (In), or to nodes other than these (NotIn)."""
    named = tuple(Expression("metadata.name", operator, (name,), of_name=True) for name in sorted(nodes))
    return replace(needs, terms=tuple((*term, *named) for term in needs.terms) or (named,)) if named else needs


@dataclass(frozen=True, slots=True)
class Domains:
    """Nodes by the value of one label."""

    masks: tuple[Bits, ...]
    # By node: the number of its domain; -1 if it has none.
    of: tuple[int, ...]
    # The nodes that have the label.
    labelled: Bits


class Nodes:
    """All nodes; finds those that pods may go to."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.numbers = {node.name: number for number, node in enumerate(nodes)}
        self._nodes = nodes
        self._every = (1 << len(nodes)) - 1
        self._usable = _union(number for number, node in enumerate(nodes) if node.usable)
        self._keys = frozenset(key for node in nodes for key in node.labels)
        self._values: dict[str, dict[str, Bits]] = {}
        self._taints: dict[Taint, Bits] = {}
        for number, node in enumerate(nodes):
            for taint in node.taints:
                self._taints[taint] = self._taints.get(taint, 0) | 1 << number
        self._matching: dict[tuple[Needs, tuple[tuple[str, str], ...]], Bits] = {}
        self._tolerating: dict[tuple[Toleration, ...], Bits] = {}
        self._domains: dict[str, Domains] = {}

    def matching(self, needs: Needs, flavor: Flavor | None = None) -> Bits:
        """The usable nodes of the flavor that a pod with these needs may go to."""
        labels = () if flavor is None else tuple(sorted(flavor.node_labels.items()))
        found = self._matching.get((needs, labels))
        if found is None:
            found = self._usable & self._tolerated(needs.tolerations)
            for key, value in (*needs.selector, *labels):
                found &= self._labelled(key).get(value, 0)
            if needs.terms:
                found &= _any(self._term(term) for term in needs.terms)
            _keep(self._matching, (needs, labels), found)
        return found

    def named(self, names: Iterable[str]) -> Bits:
        """The nodes with these names; unknown names are ignored."""
        return _union(self.numbers[name] for name in names if name in self.numbers)

    def domains(self, key: str) -> Domains:
        """The nodes by the value of a label."""
        found = self._domains.get(key)
        if found is None:
            values = sorted(self._labelled(key).items())
            of = [-1] * len(self._nodes)
            for domain, (_, nodes) in enumerate(values):
                for number in numbers(nodes):
                    of[number] = domain
            found = Domains(tuple(nodes for _, nodes in values), tuple(of), _any(nodes for _, nodes in values))
            _keep(self._domains, key, found)
        return found

    def _labelled(self, key: str) -> Mapping[str, Bits]:
        if key not in self._keys:
            return {}
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = {}
            for number, node in enumerate(self._nodes):
                value = node.labels.get(key)
                if value is not None:
                    found[value] = found.get(value, 0) | 1 << number
        return found

    def _tolerated(self, tolerations: tuple[Toleration, ...]) -> Bits:
        found = self._tolerating.get(tolerations)
        if found is None:
            kept = (
                bits
                for taint, bits in self._taints.items()
                if not any(tolerates(toleration, taint) for toleration in tolerations)
            )
            found = self._every & ~_any(kept)
            _keep(self._tolerating, tolerations, found)
        return found

    def _term(self, term: tuple[Expression, ...]) -> Bits:
        # A term without requirements matches nothing.
        found = self._every if term else 0
        for expression in term:
            if not found:
                break
            found &= self._named(expression) if expression.of_name else self._expressed(expression)
        return found

    def _named(self, asked: Expression) -> Bits:
        if len(asked.values) != 1 or asked.operator not in {"In", "NotIn"}:
            return 0
        number = self.numbers.get(asked.values[0])
        one = 0 if number is None else 1 << number
        return one if asked.operator == "In" else self._every & ~one

    def _expressed(self, asked: Expression) -> Bits:
        judge = _JUDGES.get(asked.operator)
        if judge is None or not all(len(value) <= 63 and _VALUE.fullmatch(value) for value in asked.values):
            return 0
        found = judge(self._labelled(asked.key), asked.values)
        return 0 if found is None else found & self._every


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a pod with the toleration may go to a node with the taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.exists or toleration.value == taint.value


def _in(labelled: Mapping[str, Bits], values: Sequence[str]) -> Bits | None:
    return _any(labelled.get(value, 0) for value in values) if values else None


def _not_in(labelled: Mapping[str, Bits], values: Sequence[str]) -> Bits | None:
    found = _in(labelled, values)
    return None if found is None else ~found


def _exists(labelled: Mapping[str, Bits], values: Sequence[str]) -> Bits | None:
    return None if values else _any(labelled.values())


def _does_not_exist(labelled: Mapping[str, Bits], values: Sequence[str]) -> Bits | None:
    return None if values else ~_any(labelled.values())


def _greater(labelled: Mapping[str, Bits], values: Sequence[str]) -> Bits | None:
    return _compared(labelled, values, lambda value, bound: value > bound)


def _less(labelled: Mapping[str, Bits], values: Sequence[str]) -> Bits | None:
    return _compared(labelled, values, lambda value, bound: value < bound)


_JUDGES: Final[Mapping[str, Callable[[Mapping[str, Bits], Sequence[str]], Bits | None]]] = {
    "In": _in,
    "NotIn": _not_in,
    "Exists": _exists,
    "DoesNotExist": _does_not_exist,
    "Gt": _greater,
    "Lt": _less,
}


def _compared(labelled: Mapping[str, Bits], values: Sequence[str], further: Callable[[int, int], bool]) -> Bits | None:
    bound = _integer(values[0]) if len(values) == 1 else None
    if bound is None:
        return None
    read = ((_integer(value), nodes) for value, nodes in labelled.items())
    return _any(nodes for value, nodes in read if value is not None and further(value, bound))


def _integer(text: str) -> int | None:
    """A 64-bit integer as Go reads it; None for other text. Python's `int` would also accept spaces and underscores."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_MOST_INTEGER <= number < _MOST_INTEGER else None


def _union(nodes: Iterable[int]) -> Bits:
    found = 0
    for number in nodes:
        found |= 1 << number
    return found


def _any(sets: Iterable[Bits]) -> Bits:
    found = 0
    for nodes in sets:
        found |= nodes
    return found


def _keep(kept: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    kept[key] = value
