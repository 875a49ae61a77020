"""The tenant's quota. Its objects are among the host objects; this facet only reports on them."""

from dataclasses import dataclass

from bulkhead.kube import resources as kinds
from controller.tenant.facets.quota.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen


@dataclass(frozen=True, slots=True)
class Quota(Facet):
    """Reports on the quota."""

    name = "quota"

    def report(self, seen: Seen) -> Report:
        """The quota as the host counts it."""
        return report(seen.turn.spec, seen.named(kinds.RESOURCE_QUOTAS))
