"""Reports how the Tenant will be deleted. The teardown reads it from the status (`controller.decide.retain`)."""

from controller.tenant.facets.retention.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen


class Retention(Facet):
    """See the module."""

    name = "retention"

    def report(self, seen: Seen) -> Report:
        """What class and Tenant say."""
        return report(seen.turn.spec.deletion)
