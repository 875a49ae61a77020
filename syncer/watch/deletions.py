"""Which deletions of virtual objects a watch event reported, as against those that were inferred from a relist.

    virtual object gone in an event  -> observed, until an object of this name comes again
    virtual object missing in a list -> not observed: the mass-delete breaker decides whether its host object may be deleted

Only memory: after a restart nothing was observed.
"""

from typing import Final

from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key
from bulkhead.work.remembered import Remembered
from syncer.work import Item

_REMEMBERED: Final = 10_000


class ObservedDeletions:
    """The deletions that were observed, and not only inferred from a relist."""

    def __init__(self) -> None:
        self._observed: Remembered[Item, None] = Remembered(_REMEMBERED)

    def note(self, kind: str, change: Change) -> None:
        """Note that a virtual object came, changed or went."""
        item = Item(kind, change.key)
        if change.kind != "deleted":
            self._observed.pop(item, None)
        elif not change.relist:
            self._observed[item] = None

    def observed(self, kind: str, key: Key) -> bool:
        """Whether a watch event reported the deletion of the object."""
        return Item(kind, key) in self._observed
