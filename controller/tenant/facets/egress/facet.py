"""The egress of the tenant's pods. Its policies are among the host objects; this facet only reports on them."""

from dataclasses import dataclass

from controller.tenant.facets.egress.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen


@dataclass(frozen=True, slots=True)
class Egress(Facet):
    """Reports on the egress."""

    name = "egress"

    def report(self, seen: Seen) -> Report:
        """What is open, and what may be open although it should not be."""
        return report(seen.turn.spec)
