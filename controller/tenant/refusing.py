"""What the controller does for a Tenant that is refused as it is: it only delivers revocations and renews certificates."""

from controller.tenant.observe import Observed
from controller.tenant.renewing import Renewing
from controller.tenant.revoking import Revoking
from controller.tenant.tools import Tools


class Refusing:
    """Acts in planes that are not reconciled otherwise."""

    def __init__(self, tools: Tools) -> None:
        self._known = tools.known
        self._revoking = Revoking(tools.client, tools.clock)
        self._renewing = Renewing(tools.client, tools.renewals)

    async def reach(self, observed: Observed) -> str:
        """Do both, if there is a plane; returns what went wrong or soon will, empty if nothing."""
        revoked = await self._revoking.reach(observed)
        renewed = await self._renewing.reach(observed, self._known[observed.name])
        return "; ".join(trouble for trouble in (revoked, renewed) if trouble)
