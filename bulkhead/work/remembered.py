"""What a loop remembers only to spare itself work: a mapping of bounded size, whose memory does not follow a tenant's objects.

    remembered[key] = value ──> newest ──> more than `most`? ── yes ──> the entry that was written longest ago is forgotten

An entry may be gone at any time: its user must be right without it, only slower. Reading refreshes nothing:
`move_to_end` does, where an entry in use should stay.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(OrderedDict[K, V]):
    """A dict that holds at most `most` entries."""

    # An OrderedDict, because finding the first key of a plain dict takes the longer the more were deleted before it.

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError(f"remembered: at most {most} entries")
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        """Write an entry: it is the newest now, and the oldest one too many is forgotten."""
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
