"""What the host shares with the tenant. Its own task copies it (`controller.shares.loop`), once the plane has answered."""

from dataclasses import dataclass

from controller.decide import creation
from controller.inside.access import PlaneHealth
from controller.shares.loop import ShareLoops
from controller.shares.status import Found, verdict
from controller.tenant.facets.shares.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen, Turn


@dataclass(frozen=True, slots=True)
class Shared:
    """What the last look into the plane found; None before the first one."""

    found: Found | None


@dataclass(frozen=True, slots=True)
class Shares(Facet):
    """Hands the shares to their task, and reports what the task found."""

    name = "shares"
    in_any_case = True
    loops: ShareLoops

    async def reconcile(self, turn: Turn) -> Turn:
        """Order what is shared now."""
        tenant, admitted, health = turn.tenant, turn.admitted, turn.of(PlaneHealth)
        # Before its accounts are there, a look would have to be repeated, and the tenant waits for it.
        if (health is not None and health.bootstrapped and not health.lacks) or self.loops.runs(tenant):
            self.loops.order(tenant, admitted.shares, admitted.class_name)
        gives = admitted.shares or self.loops.gives(tenant)
        return turn.plus(Shared(self.loops.found(tenant))) if gives else turn

    def report(self, seen: Seen) -> Report:
        """The shares as they were last found."""
        shared, observed = seen.turn.of(Shared), seen.turn.observed
        new = creation.is_traced(observed.tenant, observed.now.timestamp())
        return report(verdict(shared.found, new=new) if shared is not None else None, new=new)

    async def leave(self, tenant: str, *, ends: bool) -> None:  # noqa: ARG002 - it ends in both cases
        """End the task."""
        await self.loops.forget(tenant)
