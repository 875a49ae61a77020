"""The threads of one fault, and many requests by a few of them. Ctrl-C, or any error, begins none of those that are left."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def crew(threads: int) -> Iterator[ThreadPoolExecutor]:
    """So many threads. At the end what they do is waited for, and what waits for them is dropped."""
    pool = ThreadPoolExecutor(threads, "crew")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def each_of(items: Iterable[T], work: Callable[[T], R], *, threads: int, seconds: float) -> list[R]:
    """What `work` made of each item, in their order. Raises TimeoutError if not all are done by then."""
    with crew(threads) as pool:
        return list(pool.map(work, items, timeout=seconds))
