"""Identity providers. `controller.host.issuers` asks them for their keys: here what is known of them reaches the tenant."""

from dataclasses import dataclass, replace

from controller.decide.case import Case
from controller.host.issuers import Issuers
from controller.tenant.facets.issuers.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen


@dataclass(frozen=True, slots=True)
class SignIn(Facet):
    """See the module."""

    name = "issuers"
    issuers: Issuers

    def consider(self, case: Case, *, accepted: bool) -> Case:  # noqa: ARG002 - the class says whom to ask
        """What is known of the class's providers."""
        sources = (provider.source for provider in case.providers)
        return replace(case, issuers=self.issuers.look(str(case.tenant["metadata"]["name"]), sources))

    def report(self, seen: Seen) -> Report:
        """As it was known at the admission."""
        return report(seen.turn.spec)

    async def forget(self, tenant: str) -> None:
        """Ask for this tenant no more."""
        self.issuers.forget(tenant)
