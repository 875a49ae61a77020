"""Repeats a call whose RoleBinding may just have been created, of which the host takes a moment to learn."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from bulkhead.kube.errors import Forbidden
from bulkhead.work.clock import Clock

T = TypeVar("T")
TRIES: Final = 40
_PAUSE: Final = 0.1


async def with_new_right(clock: Clock, call: Callable[[], Awaitable[T]], tries: int = TRIES) -> T:
    """The answer of the call. Raises Forbidden if the last try is forbidden, too."""
    for _ in range(tries - 1):
        with contextlib.suppress(Forbidden):
            return await call()
        await clock.sleep(_PAUSE)
    return await call()
