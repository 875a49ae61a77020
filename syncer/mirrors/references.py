"""Which pods and Ingresses need which ConfigMaps and Secrets: the index that decides what leaves the plane.

A reference holds while its virtual holder lives or the holder's host object still exists; the last one that goes lets the
mirror go. Only memory, no I/O. It is filled from the caches before the first key is worked on, so nothing is dropped for not
being known yet.
"""

from collections.abc import Iterable
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended
from bulkhead.kube.objects import Key, key_of
from syncer.translate import Reference
from syncer.translate.references import none
from syncer.translate.registry import KINDS
from syncer.watch.informers import Caches
from syncer.work import Item, Queue

# The kinds whose objects refer to others.
HOLDERS: Final = tuple(kind for kind, translation in KINDS.items() if translation.references is not none)
# The kinds of which the host has what others refer to, and no more.
ON_REFERENCE: Final = tuple(kind for kind, translation in KINDS.items() if translation.on_reference)


class ReferenceIndex:
    """Holders by reference and references by holder; a holder is a pod or an Ingress."""

    def __init__(self) -> None:
        self._of_holder: dict[Item, frozenset[Item]] = {}
        self._holders: dict[Item, set[Item]] = {}

    def set(self, holder: Item, references: Iterable[Reference]) -> tuple[frozenset[Item], frozenset[Item]]:
        """Set what a holder refers to; returns the objects that are referred to newly, and those that no longer are."""
        wanted = frozenset(Item(reference.kind, Key(reference.namespace, reference.name)) for reference in references)
        before = self._of_holder.get(holder, frozenset())
        first = frozenset(item for item in wanted - before if item not in self._holders)
        for item in wanted - before:
            self._holders.setdefault(item, set()).add(holder)
        if wanted:
            self._of_holder[holder] = wanted
        else:
            self._of_holder.pop(holder, None)
        return first, self._release(holder, before - wanted)

    def forget(self, holder: Item) -> frozenset[Item]:
        """Forget a holder that is gone on both sides; returns the objects that are no longer referred to."""
        return self._release(holder, self._of_holder.pop(holder, frozenset()))

    def fill(self, caches: Caches, queue: Queue) -> None:
        """Read every reference before the first key is reconciled."""
        for kind in HOLDERS:
            for virtual in caches.virtual[kind].store.objects():
                if _refers_at_start(kind, virtual, caches):
                    first, _ = self.set(Item(kind, key_of(virtual)), mirrored_references(kind, virtual))
                    for item in first:
                        queue.add(item)
        for kind in ON_REFERENCE:
            for meta in caches.host[kind].store.metas():
                identity = caches.origin(meta)
                if identity is not None and identity.kind == kind:
                    queue.add(Item(kind, Key(identity.namespace, identity.name)))

    def _release(self, holder: Item, dropped: frozenset[Item]) -> frozenset[Item]:
        last: set[Item] = set()
        for item in dropped:
            holders = self._holders.get(item)
            if holders is None:
                continue
            holders.discard(holder)
            if not holders:
                del self._holders[item]
                last.add(item)
        return frozenset(last)

    def refers(self, kind: str, key: Key) -> bool:
        """Whether a holder refers to the object."""
        return Item(kind, key) in self._holders

    def of(self, holder: Item) -> frozenset[Item]:
        """What a holder refers to."""
        return self._of_holder.get(holder, frozenset())


def _refers_at_start(kind: str, virtual: Obj, caches: Caches) -> bool:
    """Whether an object holds, right after the start, what it refers to."""
    if kind != "Pod":
        # Without a copy on the host it may be refused, and then nothing leaves the plane for its sake.
        return caches.host_key(kind, key_of(virtual)) in caches.host[kind].store
    return not has_ended(virtual)


def mirrored_references(kind: str, virtual: Obj) -> list[Reference]:
    """What a virtual object needs of the kinds that are mirrored on reference."""
    return [
        reference
        for reference in KINDS[kind].references(virtual)
        if reference.kind in KINDS and KINDS[reference.kind].on_reference
    ]
