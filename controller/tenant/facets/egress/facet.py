"""The ways out of the tenant's pods. Their policies are among the host objects: here is what is said of them."""

from dataclasses import dataclass

from controller.tenant.facets.egress.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen


@dataclass(frozen=True, slots=True)
class Egress(Facet):
    """See the module."""

    name = "egress"

    def report(self, seen: Seen) -> Report:
        """What is open, and what may be all the same."""
        return report(seen.turn.spec)
