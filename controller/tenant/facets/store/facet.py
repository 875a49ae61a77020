"""How full the plane's store is, whether its API server answers or not."""

from dataclasses import dataclass

from controller.inside.stores import Stores
from controller.plane.secrets import KeyMaterial
from controller.plane.storestate import Store
from controller.tenant.facets.store.report import report
from controller.tenant.interior import Interior
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen, Turn


@dataclass(frozen=True, slots=True)
class StoreRoom(Facet):
    """See the module."""

    name = "store"
    needs = (KeyMaterial,)
    stores: Stores
    interior: Interior

    async def reconcile(self, turn: Turn) -> Turn:
        """Ask each member; where room is to be made, that is begun."""
        return turn.plus(await self.stores.look(turn.spec, turn.need(KeyMaterial), self.interior.addresses(turn.spec)))

    def report(self, seen: Seen) -> Report:
        """As it was found."""
        return report(seen.turn.spec, seen.turn.of(Store))

    async def forget(self, tenant: str) -> None:
        """End what is done about it."""
        await self.stores.forget(tenant)
