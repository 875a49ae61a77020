"""Keep a task alive: when it fails, say so, wait, start it again. Keep pieces of work apart. And end a task.

`supervise` is meant for a TaskGroup, so that the crash of one part ends no other. Cancellation goes through; a normal return
ends it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock, SystemClock

_log = logging.getLogger(__name__)


async def supervise(
    name: str,
    factory: Callable[[], Awaitable[None]],
    *,
    backoff: Backoff | None = None,
    clock: Clock | None = None,
    healthy_after: float = 120.0,
    on_failure: Callable[[Exception], None] | None = None,
) -> None:
    """Run `factory()` until it returns; after a run of `healthy_after` seconds the delays start over."""
    clock = clock or SystemClock()
    backoff = backoff or Backoff()
    while True:
        started = clock.monotonic()
        try:
            await factory()
        except Exception as error:  # noqa: BLE001 -- logged with its trace, and the reason for this function
            if clock.monotonic() - started >= healthy_after:
                backoff.reset()
            delay = backoff.next()
            _log.exception("task failed", extra={"task": name, "retry_in": round(delay, 2)})
            if on_failure is not None:
                on_failure(error)
            await clock.sleep(delay)
        else:
            return


async def apart(what: str, work: Callable[[], Awaitable[object]], **about: str) -> None:
    """Do one of many pieces of work: what it raises is logged with its trace, and stops none of the others."""
    try:
        await work()
    except Exception:  # noqa: BLE001 -- logged with its trace, and the reason for this function
        _log.exception("%s failed", what, extra=about)


async def ended(task: asyncio.Task[None] | None) -> None:
    """Cancel a task, if there is one, and return once it has ended, however it did."""
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])
