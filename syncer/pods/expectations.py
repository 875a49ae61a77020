"""What is known of pods' host pods beyond what the cache shows now. Only memory, no I/O.

    creation expected -> created -> shown by the cache, or proven absent
    deleted without a node, to be recreated -> the cache shows it for a while longer

After a restart nothing is known, and the first list shows what is there.
"""

from typing import Final, NamedTuple

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, uid_of
from syncer.translate.origin import virtual_uid


class _Expected(NamedTuple):
    """A host pod that the cache has not shown: the UID of its virtual pod, and its own where the host has answered."""

    virtual: str
    own: str
    refused: bool = False


_NONE: Final = _Expected("", "")


class Expectations:
    """Remembers by the key of the virtual pod."""

    def __init__(self) -> None:
        # Virtual UIDs that had a host pod, or may have had one.
        self._had: dict[Key, str] = {}
        # Host pods that were created, or may have been, and that the cache has not shown yet.
        self._expected: dict[Key, _Expected] = {}
        # UIDs of host pods that were deleted to be recreated; the host shows them as being deleted for a moment.
        self._recreated: dict[Key, str] = {}

    def observe(self, key: Key, host: Obj | None) -> None:
        """Note what the cache shows of a host pod now: the created one, by its UID, or still an older one."""
        if host is not None and self._expected.get(key, _NONE).own in ("", uid_of(host)):
            self.confirm(key, host)
        if host is None or self._recreated.get(key) != uid_of(host):
            self._recreated.pop(key, None)

    def confirm(self, key: Key, host: Obj) -> None:
        """The host has this host pod and no later one of the same virtual pod: nothing more is expected."""
        if virtual_uid(host) == self._expected.get(key, _NONE).virtual:
            self._expected.pop(key, None)

    def is_superseded(self, key: Key, host: Obj) -> bool:
        """Whether another host pod was created for the same virtual pod since the one that the cache shows."""
        expected = self._expected.get(key, _NONE)
        return expected.own not in ("", uid_of(host)) and virtual_uid(host) == expected.virtual

    def expect_creation(self, key: Key, virtual: str) -> None:
        """A host pod is about to be created for this virtual UID."""
        self._had[key] = virtual
        self._expected[key] = _Expected(virtual, "")

    def created(self, key: Key, host: Obj) -> None:
        """The host pod was created, or exists already."""
        self._expected[key] = _Expected(virtual_uid(host), uid_of(host))

    def refused(self, key: Key) -> None:
        """The host answered that it does not create the host pod that was expected last."""
        self._expected[key] = self._expected.get(key, _NONE)._replace(refused=True)

    def may_be_there(self, key: Key, virtual: str) -> bool:
        """Whether the host has, or may have, a host pod of this virtual UID that the cache has not shown."""
        expected = self._expected.get(key, _NONE)
        return expected.virtual == virtual and not expected.refused

    def expected(self, key: Key) -> str:
        """The virtual UID of the host pod that there may be although the cache has not shown it; empty for none."""
        return self._expected.get(key, _NONE).virtual

    def note_host(self, key: Key, virtual: str) -> None:
        """A host pod of this virtual UID is there."""
        self._had[key] = virtual

    def had_host(self, key: Key, virtual: str) -> bool:
        """Whether this virtual UID had a host pod, or may have had one."""
        return self._had.get(key) == virtual

    def expect_recreation(self, key: Key, host_uid: str) -> None:
        """A host pod without a node is being deleted, to be recreated."""
        self._recreated[key] = host_uid

    def is_recreated(self, key: Key) -> bool:
        """Whether the host pod that the cache shows was deleted to be recreated."""
        return key in self._recreated

    def forget(self, key: Key) -> str:
        """Both pods are gone; returns the virtual UID, where it had a host pod."""
        self._expected.pop(key, None)
        return self._had.pop(key, "")
