"""The unit of the syncer's work, its queue, and the two ways in which work on a key ends without having been done.

    Item(kind, virtual key) --> Queue --> a worker --> done | Again (later) | Stale (something else has to go first)

Only names; nothing is decided here.
"""

from typing import Final, NamedTuple

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key
from bulkhead.work.queue import KeyedQueue


class Item(NamedTuple):
    """One unit of work: a kind of work and the virtual key that it is about."""

    kind: str
    key: Key


# Stands for all pods that no node was chosen for yet.
UNPLACED: Final = Item("Pod", Key("", ""))

Queue = KeyedQueue[Item]


class Again(Exception):  # noqa: N818 -- a request, not a failure
    """The world has to move first: reconcile the key again in so many seconds."""

    def __init__(self, seconds: float, why: str) -> None:
        super().__init__(why)
        self.seconds = seconds


class Stale(Exception):  # noqa: N818 -- reads as a state
    """The host object of this name belongs to an earlier virtual object; it has to go first."""

    def __init__(self, host: Obj) -> None:
        super().__init__("host object of an earlier virtual object")
        self.host = host
