"""What fills the stores of planes, from the API servers' own metrics. Asked only while a store is full or nearly full.

    now and then: /metrics of a plane ──> objects and bytes of each kind ──> the ten that take the most

A tenant may define any number of kinds: the answer is bounded, and charged to the turn like every answer of a plane.
"""

from typing import Final

from bulkhead.work.clock import Clock
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget
from controller.inside.planemetrics import UnreadError, read_metrics
from controller.plane.contents import Contents, contents_of

_ASK_PERIOD_SECONDS: Final = 30.0


class ContentsReader:
    """What fills each store, as far as it is known."""

    def __init__(self, planes: PlaneAccess, clock: Clock, budget: Budget) -> None:
        self._planes = planes
        self._clock = clock
        self._budget = budget
        self._known: dict[str, tuple[float, Contents]] = {}

    async def look(self, tenant: str) -> Contents:
        """What fills the store of a plane, asked at most every half minute."""
        at, before = self._known.get(tenant, (float("-inf"), None))
        if before is not None and self._clock.monotonic() - at < _ASK_PERIOD_SECONDS:
            return before
        found = await self._ask(tenant)
        self._known[tenant] = (self._clock.monotonic(), found)
        return found

    def forget(self, tenant: str) -> None:
        """Drop a deleted tenant."""
        self._known.pop(tenant, None)

    async def _ask(self, tenant: str) -> Contents:
        try:
            return contents_of(await read_metrics(self._planes, self._budget, tenant))
        except UnreadError as error:
            return Contents(unread=str(error))
