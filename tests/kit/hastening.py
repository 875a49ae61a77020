"""Time that a test need not wait for: keys of a queue that are due later become due now."""

from typing import TypeVar

from bulkhead.work.queue import KeyedQueue

K = TypeVar("K")
_AT_ONCE = 1e-9  # seconds: a key that is added after none at all would stay delayed as well


def hasten(queue: KeyedQueue[K]) -> None:
    """Make all delayed keys due. What they wait for has had no time to come: they may be delayed again."""
    for key, (_, lane) in list(queue._due.items()):
        queue.add_after(key, _AT_ONCE, lane)
