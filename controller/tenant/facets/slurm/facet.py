"""The tenant's Slurm cluster. Its own task builds it (`controller.slurm.ordering`), once the plane has answered."""

from dataclasses import dataclass

from bulkhead.api.conditions import ConditionType
from bulkhead.kube import resources as kinds
from controller.inside.access import PlaneHealth
from controller.refusal import Refusal
from controller.slurm.decide.status import SlurmPart, part
from controller.slurm.ordering import Ordered, Ordering
from controller.tenant.facets.slurm.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen, Turn


@dataclass(frozen=True, slots=True)
class Slurm(Facet):
    """Hands the cluster to its task, and reports what the task found."""

    name = "slurm"
    needs = (PlaneHealth,)
    ordering: Ordering

    async def reconcile(self, turn: Turn) -> Turn:
        """Order the cluster; a refused one stays as it is, but lets in only the users that the Tenant still has."""
        wanted, secrets = turn.admitted.slurm, turn.observed.in_plane(kinds.SECRETS)
        if isinstance(wanted, Refusal):
            if turn.admitted.slurm_logins is not None and self._may_act(turn):
                await self.ordering.hold(turn.spec, turn.observed.tenant, secrets, turn.admitted.slurm_logins)
            return turn
        if self._may_act(turn):
            return turn.plus(await self.ordering.order(turn.spec, turn.observed.tenant, secrets, wanted))
        return turn.plus(Ordered(wanted=True, spec=wanted)) if wanted is not None else turn

    def _may_act(self, turn: Turn) -> bool:
        return turn.need(PlaneHealth).bootstrapped or self.ordering.runs(turn.tenant)

    def report(self, seen: Seen) -> Report:
        """The cluster as it was last found."""
        unseen = seen.turn.held and isinstance(seen.turn.admitted.slurm, Refusal)
        return report(seen.turn.observed.tenant, _part(seen), unseen=unseen)

    async def leave(self, tenant: str, *, ends: bool) -> None:  # noqa: ARG002 - it ends in both cases
        """End the tasks of the cluster."""
        await self.ordering.forget(tenant)


def _part(seen: Seen) -> SlurmPart | None:
    ordered = seen.turn.of(Ordered)
    if ordered is None:
        return None
    return part(ordered.found, ordered.spec, was=seen.was_true(ConditionType.SLURM_READY))
