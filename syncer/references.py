"""Which pods need which ConfigMaps and Secrets: the index that decides what leaves the plane.

A reference holds while its virtual pod lives or the pod's host pod still exists; the last one that goes lets the mirror go.
Only memory, no I/O. It is filled from the caches before the first key is worked on, so nothing is dropped for not being
known yet.
"""

from collections.abc import Iterable

from bulkhead.kube.objects import Key
from syncer.caches import Item
from syncer.translate import Obj, Reference
from syncer.translate.registry import KINDS


class ReferenceIndex:
    """Pods by reference and references by pod."""

    def __init__(self) -> None:
        self._of_pod: dict[Key, frozenset[Item]] = {}
        self._pods: dict[Item, set[Key]] = {}

    def set(self, pod: Key, references: Iterable[Reference]) -> tuple[frozenset[Item], frozenset[Item]]:
        """Note what a pod refers to now; returns what nobody referred to before, and what nobody refers to any more."""
        wanted = frozenset(Item(each.kind, Key(each.namespace, each.name)) for each in references)
        before = self._of_pod.get(pod, frozenset())
        first = frozenset(each for each in wanted - before if each not in self._pods)
        for each in wanted - before:
            self._pods.setdefault(each, set()).add(pod)
        if wanted:
            self._of_pod[pod] = wanted
        else:
            self._of_pod.pop(pod, None)
        return first, self._release(pod, before - wanted)

    def forget(self, pod: Key) -> frozenset[Item]:
        """A pod is gone on both sides; returns what nobody refers to any more."""
        return self._release(pod, self._of_pod.pop(pod, frozenset()))

    def _release(self, pod: Key, dropped: frozenset[Item]) -> frozenset[Item]:
        last: set[Item] = set()
        for each in dropped:
            pods = self._pods.get(each)
            if pods is None:
                continue
            pods.discard(pod)
            if not pods:
                del self._pods[each]
                last.add(each)
        return frozenset(last)

    def refers(self, kind: str, key: Key) -> bool:
        """Whether any pod needs the object."""
        return Item(kind, key) in self._pods

    def of(self, pod: Key) -> frozenset[Item]:
        """What a pod refers to."""
        return self._of_pod.get(pod, frozenset())

    def pods(self, kind: str, key: Key) -> frozenset[Key]:
        """The pods that need the object."""
        return frozenset(self._pods.get(Item(kind, key), ()))


def mirrored_references(virtual: Obj) -> list[Reference]:
    """What a virtual pod needs of the kinds that are mirrored on reference."""
    return [each for each in KINDS["Pod"].references(virtual) if each.kind in KINDS and KINDS[each.kind].on_reference]
