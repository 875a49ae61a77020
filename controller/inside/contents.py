"""What fills the stores of planes, from the API servers' own metrics. Asked only while a store is full or nearly full.

    now and then: /metrics of a plane ──> objects and bytes of each kind ──> the ten that take the most

A tenant may define any number of kinds: the answer is bounded, and charged to the turn like every answer of a plane.
"""

from typing import Final

from bulkhead.kube.errors import KubeError
from bulkhead.work.clock import Clock
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget
from controller.plane.contents import Contents, contents_of

METRICS_ANSWER_BYTES: Final = 16 << 20
_ASK_PERIOD_SECONDS: Final = 30.0
_REQUEST_DEADLINE_SECONDS: Final = 10.0


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
            async with self._budget.turn(tenant, _REQUEST_DEADLINE_SECONDS) as turn:
                plane = self._planes.plane(turn)
                if plane is None:
                    return Contents(unread="the plane's API server does not answer")
                seconds = _REQUEST_DEADLINE_SECONDS
                answer = await plane.exchange("GET", "/metrics", timeout=seconds, max_body=METRICS_ANSWER_BYTES)
                if answer.status != 200:
                    return Contents(unread=f"the plane's /metrics answered with status {answer.status}")
                return contents_of(answer.data)
        except (KubeError, TimeoutError) as error:
            return Contents(unread=f"the plane's /metrics could not be read: {error}")
