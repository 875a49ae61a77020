"""Things in the order of their ranks, those that came first before their equals, as they come and go. Only memory.

A sorted list: what is done is a search by halves and one move of memory, and the best and the worst are at its ends.
"""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

from syncer.quota.order import QueueOrder

T = TypeVar("T", bound=Hashable)


class Ranked(Generic[T]):
    """See the module."""

    __slots__ = ("_came", "_order", "_places")

    def __init__(self) -> None:
        self._order: Final[list[tuple[QueueOrder, int, T]]] = []
        self._places: Final[dict[T, tuple[QueueOrder, int, T]]] = {}
        self._came = 0

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, thing: object) -> bool:
        return thing in self._places

    def set(self, thing: T, rank: QueueOrder) -> bool:
        """Give it this rank, whether it is there or not; returns whether it had another one."""
        before = self._places.get(thing)
        if before is not None and before[0] == rank:
            return False
        self.discard(thing)
        self._came += 1
        place = rank, self._came if before is None else before[1], thing
        insort(self._order, place)
        self._places[thing] = place
        return True

    def discard(self, thing: T) -> bool:
        """Remove it; returns whether it was there."""
        place = self._places.pop(thing, None)
        if place is not None:
            del self._order[bisect_left(self._order, place)]
        return place is not None

    def first(self) -> tuple[T, QueueOrder] | None:
        """The best of all, and its rank."""
        return (self._order[0][2], self._order[0][0]) if self._order else None

    def best(self, count: int) -> list[T]:
        """So many of the best, in their order."""
        return [thing for _, _, thing in self._order[:count]]

    def worst_first(self) -> Iterator[tuple[T, QueueOrder]]:
        """All of them, backwards, with their ranks."""
        return ((thing, rank) for rank, _, thing in reversed(self._order))
