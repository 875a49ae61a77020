"""What is done for a Tenant that is refused as it is: nothing is changed but what was revoked, and certificates are renewed."""

from controller.tenant.observe import Observed
from controller.tenant.renewing import Renewing
from controller.tenant.revoking import Revoking
from controller.tenant.tools import Tools


class Refusing:
    """Reaches planes that are not looked after otherwise."""

    def __init__(self, tools: Tools) -> None:
        self._known = tools.known
        self._revoking = Revoking(tools.client, tools.clock)
        self._renewing = Renewing(tools.client, tools.renewals)

    async def reach(self, observed: Observed) -> str:
        """Do it, if there is a plane; returns what went wrong, or will."""
        revoked = await self._revoking.reach(observed)
        renewed = await self._renewing.reach(observed, self._known[observed.name])
        return "; ".join(trouble for trouble in (revoked, renewed) if trouble)
