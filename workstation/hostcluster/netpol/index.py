"""Finds things by their labels: a selector costs a look-up for each of its terms, and not a scan of all things. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from workstation.hostcluster.netpol.cluster import Labels, Pod

Selector = Mapping[str, Any]
_MAX_REMEMBERED_ANSWERS = 4096


class LabelIndex:
    """Labelled things, known by their index in a sequence. Remembers answers, because selectors repeat."""

    def __init__(self, labels: Sequence[Labels]) -> None:
        self._all = frozenset(range(len(labels)))
        self._equal: dict[tuple[str, str], set[int]] = {}
        self._having: dict[str, set[int]] = {}
        self._asked: dict[str, frozenset[int]] = {}
        for place, own in enumerate(labels):
            for key, value in own.items():
                self._equal.setdefault((key, value), set()).add(place)
                self._having.setdefault(key, set()).add(place)

    def chosen(self, selector: Selector) -> frozenset[int]:
        """The indices that a selector matches; the empty selector matches everything."""
        if not selector:
            return self._all
        name = json.dumps(selector, sort_keys=True)
        if name not in self._asked:
            if len(self._asked) >= _MAX_REMEMBERED_ANSWERS:
                self._asked.clear()
            self._asked[name] = self._found(selector)
        return self._asked[name]

    def _found(self, selector: Selector) -> frozenset[int]:
        found = self._all
        for key, value in (selector.get("matchLabels") or {}).items():
            found &= self._equal.get((key, value), frozenset())
        for expression in selector.get("matchExpressions") or ():
            found = self._narrowed(found, expression)
        return found

    def _narrowed(self, found: frozenset[int], expression: Selector) -> frozenset[int]:
        key, values = expression["key"], expression.get("values") or ()
        match expression["operator"]:
            case "In":
                return found & frozenset().union(*(self._equal.get((key, value), ()) for value in values))
            case "NotIn":
                return found.difference(*(self._equal.get((key, value), ()) for value in values))
            case "Exists":
                return found & self._having.get(key, frozenset())
            case "DoesNotExist":
                return found - self._having.get(key, frozenset())
        return frozenset()  # an operator of a later API: what is not understood allows nothing


class Space:
    """The pods of one namespace."""

    def __init__(self, pods: tuple[Pod, ...]) -> None:
        self.pods = pods
        self.index = LabelIndex([pod.labels for pod in pods])

    def chosen(self, selector: Selector) -> list[Pod]:
        """The pods that a selector matches, in their order."""
        return [self.pods[place] for place in sorted(self.index.chosen(selector))]


EMPTY = Space(())


class ClusterIndex:
    """Namespaces and their pods. Spaces whose pods are the same as before are reused with their caches."""

    def __init__(self, pods: Sequence[Pod], namespaces: Mapping[str, Labels], before: "ClusterIndex | None" = None) -> None:
        grouped: dict[str, list[Pod]] = {}
        for pod in pods:
            grouped.setdefault(pod.namespace, []).append(pod)
        known = before.spaces if before is not None else {}
        self.spaces: dict[str, Space] = {}
        for name, listed in grouped.items():
            held = known.get(name)
            self.spaces[name] = held if held is not None and held.pods == tuple(listed) else Space(tuple(listed))
        self._names = tuple(namespaces)
        self._namespaces = LabelIndex([namespaces[name] for name in self._names])

    def space(self, namespace: str) -> Space:
        """The pods of a namespace."""
        return self.spaces.get(namespace, EMPTY)

    def namespaces(self, selector: Selector) -> tuple[str, ...]:
        """The names of the namespaces that a selector matches."""
        return tuple(self._names[place] for place in sorted(self._namespaces.chosen(selector)))
