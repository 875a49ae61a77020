"""The receiver of the plane's audit trail, if the class names one."""

from dataclasses import dataclass, replace

from bulkhead.kube import resources as kinds
from controller import metrics
from controller.host.auditreceivers import AuditReceivers
from controller.inside.access import PlaneHealth
from controller.inside.auditlosses import AuditLosses
from controller.plane import auditreceiver
from controller.plane.auditlosses import Losses
from controller.tenant.facets.audit.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, GroundLaid, Seen, Turn


@dataclass(frozen=True, slots=True)
class AuditReceiver(Facet):
    """The credential that the plane sends to the receiver; the host objects contain it."""

    name = "audit receiver"
    needs = (GroundLaid,)
    receivers: AuditReceivers

    async def reconcile(self, turn: Turn) -> Turn:
        """Read the present credential."""
        asked, copy = turn.spec.audit, turn.observed.get(kinds.SECRETS, auditreceiver.SECRET, turn.spec.namespace)
        receiver = await self.receivers.signed_in(turn.tenant, asked.receiver if asked is not None else None, copy)
        if asked is None:
            return turn
        return replace(turn, spec=replace(turn.spec, audit=replace(asked, receiver=receiver)))

    def report(self, seen: Seen) -> Report:
        """Whether the trail reaches the receiver."""
        return report(seen.turn.spec, seen.turn.of(Losses))

    async def forget(self, tenant: str) -> None:
        """Stop watching Secrets for this tenant."""
        self.receivers.forget(tenant)


@dataclass(frozen=True, slots=True)
class AuditTrail(Facet):
    """The number of lost events of a trail that is sent; a count from some minutes ago is good enough."""

    name = "audit trail"
    needs = (PlaneHealth,)
    losses: AuditLosses

    async def reconcile(self, turn: Turn) -> Turn:
        """Ask a plane that answers and sends its trail."""
        if turn.spec.audit is None or turn.spec.audit.receiver is None:
            self.losses.forget(turn.tenant)
            return turn
        found = await self.losses.look(turn.tenant) if turn.need(PlaneHealth).bootstrapped else None
        metrics.report_losses(turn.tenant, dict(found.total) if found is not None else {})
        return turn.plus(found)

    async def forget(self, tenant: str) -> None:
        """Drop the counts."""
        self.losses.forget(tenant)
