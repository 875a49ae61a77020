"""How many events of planes' audit trails were lost on their way to the receiver, from the API servers' own metrics.

    now and then: /metrics of a plane ──> apiserver_audit_error_total ──> lost since it started, and since the last look

Only planes that send their trail are asked. An API server counts from its own start; of several members one is asked.
"""

from typing import Final

from bulkhead.work.clock import Clock
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget
from controller.inside.planemetrics import SilentError, UnreadError, read_metrics
from controller.plane.auditlosses import Losses, losses_of

_ASK_PERIOD_SECONDS: Final = 60.0


class AuditLosses:
    """The losses of each plane, as far as they are known."""

    def __init__(self, planes: PlaneAccess, clock: Clock, budget: Budget) -> None:
        self._planes = planes
        self._clock = clock
        self._budget = budget
        self._known: dict[str, tuple[float, Losses]] = {}

    async def look(self, tenant: str) -> Losses:
        """The losses of a plane, asked at most once a minute."""
        at, before = self._known.get(tenant, (float("-inf"), None))
        if before is not None and self._clock.monotonic() - at < _ASK_PERIOD_SECONDS:
            return before
        found = await self._ask(tenant, before)
        self._known[tenant] = (self._clock.monotonic(), found)
        return found

    def forget(self, tenant: str) -> None:
        """Drop a tenant that is gone or sends nothing."""
        self._known.pop(tenant, None)

    async def _ask(self, tenant: str, before: Losses | None) -> Losses:
        try:
            total = losses_of(await read_metrics(self._planes, self._budget, tenant))
        except SilentError as error:
            return before or Losses(unread=str(error))
        except UnreadError as error:
            return Losses(unread=str(error))
        # The first look has nothing to compare with. After a restart the API server counts from 0 again.
        earlier = sum(number for _, number in before.total) if before is not None else 0
        now = sum(number for _, number in total)
        return Losses(total, growing=now > earlier if now >= earlier else now > 0)
