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
    """Observes the store, starts to free space, and reports."""

    name = "store"
    needs = (KeyMaterial,)
    stores: Stores
    interior: Interior

    async def reconcile(self, turn: Turn) -> Turn:
        """Ask each member; start to free space if that is needed."""
        return turn.plus(await self.stores.look(turn.spec, turn.need(KeyMaterial), self.interior.addresses(turn.spec)))

    def report(self, seen: Seen) -> Report:
        """The store as it was found."""
        return report(seen.turn.spec, seen.turn.of(Store))

    async def forget(self, tenant: str) -> None:
        """End the task that frees space."""
        await self.stores.forget(tenant)
