"""How much of the controller's memory planes may use: each plane, and all of them together.

A tenant is admin in its plane, so the plane may answer anything. What is read from a plane is charged here while it is held:
the bytes of responses while they arrive, and the objects decoded from them until the turn ends. A turn is one reconcile of one
plane, with a deadline; its end releases everything.

    a plane takes more than `each` ──────────────────> its own call fails
    all planes together take more than `total` ──────> the turn of the plane that holds the most ends

So however many planes misbehave, each of the others keeps its even share, and no plane waits for another.
"""

import asyncio
import contextlib
from collections import Counter
from types import TracebackType
from typing import Final, Self

from bulkhead.kube.errors import TooLarge

_MIB: Final = 1024 * 1024
PLANE_BYTES: Final = 48 * _MIB
TOTAL_BYTES: Final = 128 * _MIB


class Budget:
    """The memory that all planes hold."""

    def __init__(self, total: int = TOTAL_BYTES, each: int = PLANE_BYTES) -> None:
        self.total = total
        self.each = each
        self.most = 0  # the most bytes that were ever held at once
        self._held: Counter[str] = Counter()
        self._turns: set[Turn] = set()

    @property
    def held(self) -> int:
        """Bytes that all turns hold now."""
        return self._held.total()

    def turn(self, tenant: str, seconds: float) -> "Turn":
        """A turn with a tenant's plane, as an async context manager."""
        return Turn(self, tenant, seconds)

    def charge(self, turn: "Turn", size: int) -> None:
        """Charge bytes to a turn. Raises TooLarge if there are too many."""
        tenant = turn.tenant
        if self._held[tenant] + size > self.each:
            raise TooLarge(f"the plane's responses need more than {self.each} bytes at once")
        while self.held + size > self.total:
            largest = max(self._held, key=lambda name: self._held[name], default=tenant)
            if self._held[largest] <= self._held[tenant] + size:
                raise TooLarge(
                    f"the responses of all planes need more than {self.total} bytes, and those of this plane need the most"
                )
            ending = [other for other in self._turns if other.tenant == largest and not other.ended]
            if not ending:
                # No turn is left that could release it.
                raise TooLarge(f"the responses of all planes need more than {self.total} bytes at once")
            for other in ending:
                other.end()
        self._held[tenant] += size
        self.most = max(self.most, self.held)

    def release(self, tenant: str, size: int) -> None:
        """Release bytes."""
        self._held[tenant] -= size
        if self._held[tenant] <= 0:
            del self._held[tenant]

    def enter(self, turn: "Turn") -> None:
        """A turn begins."""
        self._turns.add(turn)

    def leave(self, turn: "Turn") -> None:
        """A turn is over."""
        self._turns.discard(turn)


class Turn:
    """One reconcile of one plane; an async context manager. Past its deadline it raises TimeoutError."""

    def __init__(self, budget: Budget, tenant: str, seconds: float) -> None:
        self.tenant = tenant
        self.read = 0  # bytes of all responses
        self._budget = budget
        self._held = 0
        self._scope = asyncio.timeout(seconds)
        self._ended = False
        self._left = False

    @property
    def ended(self) -> bool:
        """Whether it has released everything and accepts nothing more."""
        return self._ended or self._left

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self._budget.enter(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        self._budget.leave(self)
        self.release(self._held)
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError:
            if not self._ended:
                raise
            raise TooLarge("the responses of all planes need too much memory, and those of this plane need the most") from None

    def arrived(self, size: int) -> None:
        """Count bytes of a response."""
        self.charge(size)
        self.read += size

    def charge(self, size: int) -> None:
        """Charge bytes that are held. Raises TooLarge if there are too many."""
        if self.ended:
            raise TooLarge("the turn has ended")
        self._budget.charge(self, size)
        self._held += size

    def release(self, size: int) -> None:
        """Release bytes."""
        size = min(size, self._held)
        self._held -= size
        if size:
            self._budget.release(self.tenant, size)

    def end(self) -> None:
        """End the turn now: other planes need the memory."""
        self._ended = True
        self.release(self._held)
        # After its deadline it is already ending.
        with contextlib.suppress(RuntimeError):
            self._scope.reschedule(asyncio.get_running_loop().time())
