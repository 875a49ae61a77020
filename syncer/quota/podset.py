"""Some pods, added up: how many they are, who is the best, what they ask for together and what the smallest of them do.

A gang may have thousands of pods, each of which is tried again and again, so nothing here walks through all of them: what is
asked for is kept as they come and go. Only memory.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Final

from bulkhead.kube.objects import Key
from syncer.quota.order import LAST, QueuedPod, QueueOrder


class Smallest:
    """Numbers, and the sum of the smallest so many of them."""

    __slots__ = ("_cut", "_numbers", "_sum")

    def __init__(self) -> None:
        self._numbers: Final[list[int]] = []
        # The sum of those before the cut, which moves to where it was last asked for: the next question is near it.
        self._cut = 0
        self._sum = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, number: int) -> None:
        """One more."""
        insort(self._numbers, number)
        if self._cut and number < self._numbers[self._cut]:
            self._sum += number - self._numbers[self._cut]

    def remove(self, number: int) -> None:
        """One that is there goes."""
        at = bisect_left(self._numbers, number)
        del self._numbers[at]
        if at >= self._cut:
            return
        self._sum -= number
        if len(self._numbers) < self._cut:
            self._cut -= 1
        else:
            self._sum += self._numbers[self._cut - 1]

    def sum_of(self, count: int) -> int:
        """The sum of the smallest so many, or of all where there are fewer."""
        wanted = min(max(count, 0), len(self._numbers))
        while self._cut < wanted:
            self._sum += self._numbers[self._cut]
            self._cut += 1
        while self._cut > wanted:
            self._cut -= 1
            self._sum -= self._numbers[self._cut]
        return self._sum

    def least(self) -> int:
        """The smallest of all."""
        return self._numbers[0]


class PodSet:
    """See the module."""

    # There may be tens of thousands, most of them of one pod.
    __slots__ = ("_asks", "_fixed", "_order", "_pods")

    def __init__(self, pods: Iterable[QueuedPod] = ()) -> None:
        self._pods: Final[dict[Key, QueuedPod]] = {}
        self._order: Final[list[tuple[QueueOrder, Key]]] = []
        # By resource what those ask for that ask for any.
        self._asks: Final[dict[str, Smallest]] = {}
        self._fixed = 0
        for pod in pods:
            self.add(pod)

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def get(self, key: Key) -> QueuedPod | None:
        """One of them."""
        return self._pods.get(key)

    def add(self, pod: QueuedPod) -> None:
        """One more, or one that is there as it is now."""
        self.discard(pod.key)
        self._pods[pod.key] = pod
        insort(self._order, (pod.rank, pod.key))
        self._fixed += not pod.movable
        for name, number in pod.asks.items():
            self._asks.setdefault(name, Smallest()).add(number)

    def discard(self, key: Key) -> None:
        """One goes, if it is there."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        del self._order[bisect_left(self._order, (pod.rank, key))]
        self._fixed -= not pod.movable
        for name, number in pod.asks.items():
            self._asks[name].remove(number)

    @property
    def movable(self) -> bool:
        """Whether all of them are."""
        return self._fixed == 0

    @property
    def rank(self) -> QueueOrder:
        """That of the best of them."""
        return self._order[0][0] if self._order else LAST

    def first(self) -> QueuedPod | None:
        """The best of them."""
        return self._pods[self._order[0][1]] if self._order else None

    def best(self, count: int) -> list[QueuedPod]:
        """So many of the best."""
        return [self._pods[key] for _, key in self._order[:count]]

    def asked_for(self) -> set[str]:
        """The resources that any of them asks for."""
        return {name for name, asks in self._asks.items() if len(asks)}

    def total(self, resource: str) -> int:
        """What all of them ask for together."""
        return self.sum_of_smallest(resource, len(self))

    def sum_of_smallest(self, resource: str, count: int) -> int:
        """What the smallest so many of them ask for together; those that do not ask for it are the smallest."""
        asking = self._asks.get(resource)
        return 0 if asking is None else asking.sum_of(count - (len(self) - len(asking)))

    def least(self, resource: str, least: int) -> int:
        """What the smallest of them asks for, where that is less than this."""
        asking = self._asks.get(resource)
        if asking is None or len(asking) < len(self):
            return 0 if self else least
        return min(least, asking.least()) if self else least
