"""How many endpoints a tenant's Services have on the host together: for each Service its ports, once for each pod. Pure.

It is what each kube-proxy of the host makes rules of, and what the host's controller computes again with each pod that turns
ready. Neither Services, ports nor pods alone bound it: 200 Services with 250 ports at the same thousand pods have 50 million.
A Service without pods counts its ports once, a headless one without ports counts as one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bulkhead.api.labels import VIRTUAL_NAME, VIRTUAL_NAMESPACE
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, sequence, text
from bulkhead.kube.objects import Key
from syncer.translate.metadata import NAMESPACE_HASH

Labels = Mapping[str, str]
_NO_LABELS: Final[Labels] = {}


@dataclass(frozen=True, slots=True)
class Target:
    """A host Service: the name by which the tenant knows it, which pods it selects, and how many ports it has."""

    name: str
    selector: Labels
    ports: int

    @property
    def group(self) -> str:
        """The pods of one virtual namespace, which are all that it selects."""
        return self.selector.get(NAMESPACE_HASH, "")

    def selects(self, labels: Labels) -> bool:
        """Whether it selects a pod with these labels; without a selector it selects none."""
        return bool(self.selector) and self.selector.items() <= labels.items()

    def endpoints(self, pods: int) -> int:
        """How many endpoints it has with so many pods."""
        return max(1, self.ports) * max(1, pods)


def target_of(host: Obj) -> Target:
    """What counts of a host Service."""
    spec, noted = mapping(host.get("spec")), mapping(mapping(host.get("metadata")).get("annotations"))
    name = f"{text(noted.get(VIRTUAL_NAMESPACE))}/{text(noted.get(VIRTUAL_NAME))}"
    return Target(name, mapping(spec.get("selector")), len(sequence(spec.get("ports"))))


class Reach:
    """The Services and the pods of a tenant on the host, and the endpoints that follow from them."""

    def __init__(self) -> None:
        self.total = 0
        self._targets: dict[Key, Target] = {}
        self._selected: dict[Key, int] = {}
        self._pods: dict[Key, Labels] = {}
        # By virtual namespace, so that a pod is held against the Services of its own alone.
        self._targets_in: dict[str, set[Key]] = {}
        self._pods_in: dict[str, set[Key]] = {}

    def target(self, key: Key) -> Target | None:
        """A Service as it counts now."""
        return self._targets.get(key)

    def labels(self, key: Key) -> Labels | None:
        """The labels of a pod as it counts now."""
        return self._pods.get(key)

    def set_target(self, key: Key, now: Target | None) -> None:
        """A Service is like this, or has gone."""
        before = self._targets.pop(key, None)
        if before is not None:
            self.total -= before.endpoints(self._selected.pop(key))
            _discard(self._targets_in, before.group, key)
        if now is not None:
            self._targets[key] = now
            self._selected[key] = self._pods_of(now)
            self._targets_in.setdefault(now.group, set()).add(key)
            self.total += now.endpoints(self._selected[key])

    def set_pod(self, key: Key, now: Labels | None) -> None:
        """A pod has these labels, or has gone or ended, which makes it an endpoint of nothing."""
        before = self._pods.get(key)
        if before == now:
            return
        for target, change in self._moves(before, now):
            found, pods = self._targets[target], self._selected[target]
            self._selected[target] = pods + change
            self.total += found.endpoints(pods + change) - found.endpoints(pods)
        if before is not None:
            del self._pods[key]
            _discard(self._pods_in, _group(before), key)
        if now is not None:
            self._pods[key] = now
            self._pods_in.setdefault(_group(now), set()).add(key)

    def with_target(self, key: Key, now: Target) -> int:
        """The endpoints of all Services if this one were like this."""
        before = self._targets.get(key)
        without = self.total - (before.endpoints(self._selected[key]) if before is not None else 0)
        return without + now.endpoints(self._pods_of(now))

    def with_pod(self, key: Key, now: Labels) -> int:
        """The endpoints of all Services if this pod had these labels."""
        moves = self._moves(self._pods.get(key), now)
        return self.total + sum(
            self._targets[target].endpoints(self._selected[target] + change)
            - self._targets[target].endpoints(self._selected[target])
            for target, change in moves
        )

    def selecting(self, labels: Labels) -> list[Target]:
        """The Services that select a pod with these labels, those with most ports first."""
        found = (self._targets[key] for key in self._targets_in.get(_group(labels), ()))
        return sorted((target for target in found if target.selects(labels)), key=lambda target: (-target.ports, target.name))

    def _pods_of(self, target: Target) -> int:
        return sum(target.selects(self._pods[key]) for key in self._pods_in.get(target.group, ()))

    def _moves(self, before: Labels | None, now: Labels | None) -> list[tuple[Key, int]]:
        """The Services that a pod comes to (1) or leaves (-1) if its labels change so."""
        old, new = before or _NO_LABELS, now or _NO_LABELS
        near = self._targets_in.get(_group(old), set()) | self._targets_in.get(_group(new), set())
        moves = ((key, self._targets[key].selects(new) - self._targets[key].selects(old)) for key in near)
        return [(key, change) for key, change in moves if change]


def _group(labels: Labels) -> str:
    return labels.get(NAMESPACE_HASH, "")


def _discard(index: dict[str, set[Key]], group: str, key: Key) -> None:
    index[group].discard(key)
    if not index[group]:
        del index[group]
