"""Runs what a command does with a cluster, and keeps what Ctrl-C does to asyncio's own callbacks out of the user's sight.

asyncio acts on Ctrl-C between any two steps of a callback, and cancels what the command waits for. A callback that has just
looked whether its future was done, and now sets its result, raises InvalidStateError, and asyncio shows that as a traceback. It
happened to one command in two hundred on a busy machine.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end, as `asyncio.run` does; raises KeyboardInterrupt after Ctrl-C."""
    return asyncio.run(_run(work))


async def _run(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()

    def tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not (task and task.cancelling() and isinstance(context.get("exception"), asyncio.InvalidStateError)):
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(tell)
    return await work
