"""Which deletions of virtual objects a watch event reported, as against those that were inferred from a relist.

    virtual object gone in an event  -> observed, whatever has its name since
    virtual object missing in a list -> not observed: the mass-delete breaker decides whether its host object may be deleted

By UID: objects that are replaced are deleted and made within milliseconds, before anything was done for the deletion. Only
memory: after a restart nothing was observed.
"""

from typing import Final

from bulkhead.kube.informer import Change
from bulkhead.work.remembered import Remembered

_REMEMBERED: Final = 10_000


class ObservedDeletions:
    """The deletions that were observed, and not only inferred from a relist."""

    def __init__(self) -> None:
        self._observed: Remembered[tuple[str, str], None] = Remembered(_REMEMBERED)

    def note(self, kind: str, change: Change) -> None:
        """Note that a virtual object came, changed or went."""
        known = kind, change.meta.uid
        if change.kind != "deleted":
            # A plane that was replaced by an older copy of it has objects once more.
            self._observed.pop(known, None)
        elif not change.relist:
            self._observed[known] = None

    def observed(self, kind: str, uid: str) -> bool:
        """Whether a watch event reported the deletion of the object with this UID."""
        return (kind, uid) in self._observed
