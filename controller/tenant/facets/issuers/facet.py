"""Identity providers. `controller.host.issuers` fetches their keys; this facet passes on what is known about them."""

from dataclasses import dataclass, replace

from controller.decide.case import Case
from controller.host.issuers import Issuers
from controller.tenant.facets.issuers.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen


@dataclass(frozen=True, slots=True)
class SignIn(Facet):
    """Passes the providers' keys to the admission and to the report."""

    name = "issuers"
    issuers: Issuers

    def consider(self, case: Case, *, accepted: bool) -> Case:  # noqa: ARG002 - the class names the providers
        """What is known about the class's providers."""
        sources = (provider.source for provider in case.providers)
        return replace(case, issuers=self.issuers.look(str(case.tenant["metadata"]["name"]), sources))

    def report(self, seen: Seen) -> Report:
        """The providers as they were known at the admission."""
        return report(seen.turn.spec)

    async def forget(self, tenant: str) -> None:
        """Stop fetching keys for this tenant."""
        self.issuers.forget(tenant)
