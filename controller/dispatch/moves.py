"""Remembers pods that move to other nodes, and for how long their new places stay reserved once the pods are gone.

    reclaim noted on the pod ──> remembered ──> gone ──> a while more ──> forgotten
                                │               └──> its successor is admitted ──> forgotten
                                └──> the host refused the note, so the pod stays ──> forgotten

This is kept in memory only, and limited in size. After a restart a successor queues like any other pod, and the first in the
queue gets the room.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bulkhead.ledger.model import Moved, Pod, Reclaim
from bulkhead.work.remembered import Remembered

# A Job waits ten seconds before it creates another pod.
_PLACE_KEPT_SECONDS: Final = 60.0
# Longer than an annotation takes to appear in the watch.
_NOTE_SHOWN_WITHIN_SECONDS: Final = 30.0
_MOST_MOVES_REMEMBERED: Final = 1024


class Moves:
    """Moved pods, and the nodes on which room is reserved for their successors."""

    def __init__(self) -> None:
        self._moved: Remembered[str, Moved] = Remembered(_MOST_MOVES_REMEMBERED)

    def note(self, reclaim: Reclaim, now: float) -> None:
        """Remember a move whose note is about to be written to the pod."""
        self._moved[reclaim.pod.uid] = Moved(reclaim.pod, reclaim.to, now)

    def forget(self, uid: str) -> None:
        """Forget a moved pod, because its successor is admitted."""
        self._moved.pop(uid, None)

    def at(self, now: float, pod: Callable[[str], Pod | None]) -> tuple[Moved, ...]:
        """The moves whose reservations are valid at this moment."""
        for uid, moved in list(self._moved.items()):
            there = pod(uid)
            stays = (
                there is not None
                and there.reclaim_by is None
                and not there.ending
                and now > moved.since + _NOTE_SHOWN_WITHIN_SECONDS
            )
            until = now + _PLACE_KEPT_SECONDS if moved.until is None and there is None else moved.until
            if stays or (until is not None and until <= now):
                del self._moved[uid]
            elif until != moved.until:
                self._moved[uid] = replace(moved, until=until)
        return tuple(self._moved.values())
