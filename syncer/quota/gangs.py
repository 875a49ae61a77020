"""The gangs of a tenant's pods, on the host and in the plane, and the pods that contradict their gang. Only memory.

A pod counts where it is: on the host, or about to be, or in the plane. If an old host pod and the pod that replaces it are of
two gangs, the key counts in both. The first pod of a gang sets its size and topology. A pod that contradicts it is not part of
the gang until the gang changes, or the last pod that agreed is gone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bulkhead.kube.objects import Key
from syncer.quota.order import LAST, Gang, QueuedPod, QueueOrder
from syncer.quota.podset import PodSet
from syncer.quota.verdict import NO_PODS, Others


class Gangs:
    """See the module."""

    def __init__(self) -> None:
        self._gangs: Final[dict[Key, Others]] = {}
        self._of: Final[dict[Key, tuple[Key, ...]]] = {}
        # The word that pods of a gang disagreed with, and who they are.
        self._odd: Final[dict[Key, tuple[Gang, dict[Key, None]]]] = {}
        self._odd_of: Final[dict[Key, Key]] = {}

    def of(self, entry: QueuedPod) -> Others:
        """All pods of a pod's gang."""
        gang = None if entry.gang is None else self._gangs.get(entry.gang.key)
        return gang or NO_PODS

    def names(self, key: Key) -> tuple[Key, ...]:
        """The gangs that a pod is of."""
        return self._of.get(key, ())

    def rank(self, name: Key) -> QueueOrder:
        """Where a gang comes: as its best pod, wherever that one is."""
        gang = self._gangs.get(name)
        return LAST if gang is None else gang.all.rank

    @contextmanager
    def without(self, entry: QueuedPod) -> Iterator[Others]:
        """The other pods of a pod's gang, as long as nothing else is done."""
        gang = self.of(entry)
        on_host, in_plane = gang.on_host.get(entry.key), gang.in_plane.get(entry.key)
        _discard(gang, entry.key)
        try:
            yield gang
        finally:
            if on_host is not None:
                _add(gang, gang.on_host, on_host)
            if in_plane is not None:
                _add(gang, gang.in_plane, in_plane)

    def place(self, key: Key, on_host: QueuedPod | None, in_plane: QueuedPod | None) -> list[Key]:
        """Count a pod where it is now; returns the pods that contradicted a size or topology that no longer counts."""
        self._forget_odd(key)
        before = self._of.pop(key, ())
        for name in before:
            _discard(self._gangs[name], key)
        now: dict[Key, None] = {}
        for entry, where in ((on_host, "on_host"), (in_plane, "in_plane")):
            if entry is not None and entry.gang is not None and entry.gang.key not in now:
                now[entry.gang.key] = None
                gang = self._gangs.setdefault(entry.gang.key, Others())
                _add(gang, gang.on_host if where == "on_host" else gang.in_plane, entry)
        if now:
            self._of[key] = tuple(now)
        for name in before:
            if not self._gangs[name].all:
                del self._gangs[name]
        return [odd for name in dict.fromkeys((*before, *now)) for odd in self._unopposed(name)]

    def is_odd(self, key: Key, word: Gang) -> None:
        """A pod says something else of a gang than the word that counts."""
        self._odd.setdefault(word.key, (word, {}))[1][key] = None
        self._odd_of[key] = word.key

    def _unopposed(self, name: Key) -> list[Key]:
        """Those that disagreed with a word that is no longer the gang's; that they did is forgotten."""
        word, odd = self._odd.get(name, (None, {}))
        gang = self._gangs.get(name)
        first = None if gang is None else gang.first
        if word is None or (first is not None and first.gang == word):
            return []
        del self._odd[name]
        for other in odd:
            del self._odd_of[other]
        return list(odd)

    def _forget_odd(self, key: Key) -> None:
        name = self._odd_of.pop(key, None)
        if name is not None:
            odd = self._odd[name][1]
            del odd[key]
            if not odd:
                del self._odd[name]


def _add(gang: Others, side: PodSet, entry: QueuedPod) -> None:
    side.add(entry)
    gang.all.add(entry)


def _discard(gang: Others, key: Key) -> None:
    for pods in (gang.on_host, gang.in_plane, gang.all):
        pods.discard(key)
