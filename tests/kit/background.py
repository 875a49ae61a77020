"""A task that runs next to a test and ends with it: an informer, a leader, a daemon.

async with background(informer.run()) as task: ...
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def background(main: Coroutine[Any, Any, None]) -> AsyncIterator["asyncio.Task[None]"]:
    """Run it until the block ends; its own error is raised at the end."""
    task = asyncio.create_task(main)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
