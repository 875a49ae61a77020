"""What is known of pods' host pods beyond what the cache shows now. Only memory, no I/O.

    may be made -> unshown  -> shown by the cache, or proven absent
    made, shown -> had one: where it is missing later, it went, and may have run
    taken away to be made anew, unplaced -> has had none

After a restart nothing is known, and the first list tells.
"""

from bulkhead.kube.objects import Key, Obj, uid_of


class Sightings:
    """Remembers by the key of the virtual pod."""

    def __init__(self) -> None:
        # Virtual UIDs that have had a host pod.
        self._had: dict[Key, str] = {}
        # Virtual UIDs of host pods that were made, or may have been made, and that the cache has not shown yet.
        self._unshown: dict[Key, str] = {}
        # UIDs of host pods that were deleted to be made anew; the host shows them as being deleted for a moment.
        self._remade: dict[Key, str] = {}

    def cache_shows(self, key: Key, host: Obj | None) -> None:
        """What the cache has of a host pod now."""
        if host is not None:
            self._unshown.pop(key, None)
        if host is None or self._remade.get(key) != uid_of(host):
            self._remade.pop(key, None)

    def has_one(self, key: Key, virtual_uid: str) -> None:
        """A host pod of this virtual one is there."""
        if key not in self._remade:
            self._had[key] = virtual_uid

    def had_one(self, key: Key, virtual_uid: str) -> bool:
        """Whether this virtual pod has had a host pod, but for one that was taken away unplaced."""
        return self._had.get(key) == virtual_uid

    def may_be_made(self, key: Key, virtual_uid: str) -> None:
        """A host pod is being asked for."""
        self._unshown[key] = virtual_uid

    def unshown(self, key: Key) -> str:
        """Whose host pod there may be that the cache has not shown; empty for none."""
        return self._unshown.get(key, "")

    def unseen_end(self, key: Key) -> float | None:
        """In how many seconds to ask for the end of a host pod that was deleted; None where its event will tell.

        Of a host pod that came and went while a watch was broken the next list knows nothing, so no event ever tells.
        """
        return 1.0 if key in self._unshown else None

    def remake(self, key: Key, host_uid: str) -> None:
        """A host pod without a node is being deleted, to be made anew."""
        self._remade[key] = host_uid
        self._had.pop(key, None)

    def not_remade(self, key: Key) -> None:
        """It had its node, or went, by then."""
        self._remade.pop(key, None)

    def is_remade(self, key: Key) -> bool:
        """Whether the host pod that the cache shows was deleted to be made anew."""
        return key in self._remade

    def forget(self, key: Key) -> str:
        """Both pods are gone; returns the virtual UID, where one had a host pod."""
        self._unshown.pop(key, None)
        return self._had.pop(key, "")
