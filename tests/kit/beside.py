"""Something asynchronous that lives longer than one test: it runs in an event loop of its own, in a thread.

    @pytest.fixture(scope="module")
    def plane(...): with beside(lambda: Believer(folder)) as believer: yield believer

A test may read its plain data. It must not await anything of it, because that would happen in the wrong loop.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

T = TypeVar("T")
_SECONDS = 300.0


@contextlib.contextmanager
def beside(make: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Create the context in a loop of its own, enter it, and leave it at the end of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stack = contextlib.AsyncExitStack()
    try:
        made = asyncio.run_coroutine_threadsafe(stack.enter_async_context(make()), loop).result(_SECONDS)
        try:
            yield made
        finally:
            asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
