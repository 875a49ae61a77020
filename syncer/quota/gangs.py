"""Of which gang a tenant's pods are, on the host and in the plane, and who says something else of one. Only memory.

A pod counts where it is: on the host, or about to be, or in the plane. Where a host pod of before and the pod that is to be
made in its place are of two gangs, it is one of either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bulkhead.kube.objects import Key
from syncer.quota.crowd import Crowd
from syncer.quota.order import Entry
from syncer.quota.verdict import Others


class Gangs:
    """See the module."""

    def __init__(self) -> None:
        self._gangs: Final[dict[Key, Others]] = {}
        self._of: Final[dict[Key, tuple[Key, ...]]] = {}
        # Pods that say something else of a gang than those that came before them, and of which gang.
        self._odd: Final[dict[Key, dict[Key, None]]] = {}
        self._odd_of: Final[dict[Key, Key]] = {}

    def of(self, entry: Entry) -> Others:
        """All pods of a pod's gang."""
        gang = None if entry.gang is None else self._gangs.get(entry.gang.key)
        return gang or Others()

    @contextmanager
    def without(self, entry: Entry) -> Iterator[Others]:
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

    def place(self, key: Key, on_host: Entry | None, in_plane: Entry | None) -> list[Key]:
        """Count a pod where it is now; returns who said something else of a gang of which no pod is left."""
        self._agrees(key)
        before = self._of.pop(key, ())
        for each in before:
            _discard(self._gangs[each], key)
        of = {}
        for entry, where in ((in_plane, "in_plane"), (on_host, "on_host")):
            if entry is not None and entry.gang is not None:
                of[entry.gang.key] = entry, where
        for name, (entry, where) in of.items():
            gang = self._gangs.setdefault(name, Others())
            _add(gang, gang.on_host if where == "on_host" else gang.in_plane, entry)
        if of:
            self._of[key] = tuple(of)
        return [odd for each in before if not self._gangs[each].all for odd in self._end(each)]

    def is_odd(self, key: Key, gang: Key) -> None:
        """A pod says something else of this gang."""
        self._odd.setdefault(gang, {})[key] = None
        self._odd_of[key] = gang

    def _agrees(self, key: Key) -> None:
        gang = self._odd_of.pop(key, None)
        if gang is not None:
            self._odd[gang].pop(key)
            if not self._odd[gang]:
                del self._odd[gang]

    def _end(self, gang: Key) -> list[Key]:
        del self._gangs[gang]
        return list(self._odd.get(gang, ()))


def _add(gang: Others, side: Crowd, entry: Entry) -> None:
    side.add(entry)
    gang.all.add(entry)


def _discard(gang: Others, key: Key) -> None:
    for crowd in (gang.on_host, gang.in_plane, gang.all):
        crowd.discard(key)
