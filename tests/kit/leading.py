"""Parts of a leader in tests: each runs until the leader is killed."""

import contextlib
from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

from tests.kit.background import background


class Runs(Protocol):
    """Something that runs until it is cancelled."""

    async def run(self) -> None: ...


T = TypeVar("T", bound=Runs)


@contextlib.asynccontextmanager
async def leading(part: T) -> AsyncIterator[T]:
    """Run a part of a leader, and kill the leader at the end."""
    async with background(part.run()):
        yield part
