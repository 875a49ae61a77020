"""What is known of pods' host pods beyond what the cache shows now. Only memory, no I/O.

    may be made -> made -> shown by the cache, or proven absent
    deleted to be made anew, unplaced -> the cache shows it for a while longer

After a restart nothing is known, and the first list tells.
"""

from bulkhead.kube.objects import Key, Obj, uid_of
from syncer.translate.origin import virtual_uid


class Sightings:
    """Remembers by the key of the virtual pod."""

    def __init__(self) -> None:
        # Virtual UIDs that had a host pod, or may have had one.
        self._had: dict[Key, str] = {}
        # Virtual UIDs of host pods that were made, or may have been made, and that the cache has not shown yet; with their own
        # UIDs where those were told.
        self._unshown: dict[Key, tuple[str, str]] = {}
        # UIDs of host pods that were deleted to be made anew; the host shows them as being deleted for a moment.
        self._remade: dict[Key, str] = {}

    def cache_shows(self, key: Key, host: Obj | None, *, surely: bool = False) -> None:
        """What the cache has of a host pod now: the one that was made, `surely` or by its UID, or an older one still."""
        if host is not None:
            whose, own = self._unshown.get(key, ("", ""))
            if virtual_uid(host) == whose and (surely or own in ("", uid_of(host))):
                self._unshown.pop(key, None)
        if host is None or self._remade.get(key) != uid_of(host):
            self._remade.pop(key, None)

    def is_older(self, key: Key, host: Obj) -> bool:
        """Whether another host pod was made for the same virtual one since the one that the cache shows."""
        whose, own = self._unshown.get(key, ("", ""))
        return own not in ("", uid_of(host)) and virtual_uid(host) == whose

    def may_be_made(self, key: Key, whose: str) -> None:
        """A host pod is being asked for."""
        self._had[key] = whose
        self._unshown[key] = (whose, "")

    def made(self, key: Key, host: Obj) -> None:
        """It was made, or found to be there."""
        self._unshown[key] = (virtual_uid(host), uid_of(host))

    def has_one(self, key: Key, whose: str) -> None:
        """A host pod of this virtual one is there."""
        self._had[key] = whose

    def had_one(self, key: Key, whose: str) -> bool:
        """Whether this virtual pod had a host pod, or may have had one."""
        return self._had.get(key) == whose

    def unshown(self, key: Key) -> str:
        """Whose host pod there may be that the cache has not shown; empty for none."""
        return self._unshown.get(key, ("", ""))[0]

    def unseen_end(self, key: Key) -> float | None:
        """In how many seconds to ask for the end of a host pod that was deleted; None where its event will tell.

        Of a host pod that came and went while a watch was broken the next list knows nothing, so no event ever tells.
        """
        return 1.0 if key in self._unshown else None

    def remake(self, key: Key, host_uid: str) -> None:
        """A host pod without a node is being deleted, to be made anew."""
        self._remade[key] = host_uid

    def is_remade(self, key: Key) -> bool:
        """Whether the host pod that the cache shows was deleted to be made anew."""
        return key in self._remade

    def forget(self, key: Key) -> str:
        """Both pods are gone; returns the virtual UID, where one had a host pod."""
        self._unshown.pop(key, None)
        return self._had.pop(key, "")
