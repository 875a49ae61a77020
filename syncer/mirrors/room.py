"""How many bytes of ConfigMaps and Secrets a tenant may have on the host. Only memory, no I/O.

The host counts their number and not their size: a thousand of each, a MiB each, is as much as many a host's etcd may hold.
What is there stays; what comes on top, or grows, needs room. A copy that was there at the start counts as the largest possible
until it is known to be like its virtual object.
"""

from collections.abc import Iterable
from typing import Final

from syncer.work import Item

MOST_BYTES: Final = 128 << 20
_LARGEST: Final = 3 << 19  # a MiB, and half of that again for base64 and metadata


class Room:
    """The sizes of the copies that are there, or are about to be."""

    def __init__(self, held: Iterable[Item], most: int) -> None:
        self._most = most
        self._sizes: dict[Item, int] = {}
        self._total = 0
        self._unknown = set(held)
        self._unlooked = set(self._unknown)

    def knows_others(self, item: Item) -> bool:
        """Whether every other copy was looked at since the start."""
        return not self._unlooked - {item}

    def looked_at(self, item: Item) -> None:
        """A copy was looked at; its size may be unknown nevertheless."""
        self._unlooked.discard(item)

    def set(self, item: Item, size: int) -> None:
        """A copy is there, and has this size."""
        self.free(item)
        self._sizes[item] = size
        self._total += size

    def take(self, item: Item, size: int) -> bool:
        """Whether a copy may be written with this size; if so it has it."""
        before = self._sizes.get(item, 0)
        others = self._total - before + _LARGEST * len(self._unknown - {item})
        if size > before and others + size > self._most:
            return False
        self.set(item, size)
        return True

    def free(self, item: Item) -> None:
        """Forget a copy that has gone."""
        self._unknown.discard(item)
        self._unlooked.discard(item)
        self._total -= self._sizes.pop(item, 0)
