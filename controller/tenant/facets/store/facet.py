"""How full the plane's store is and how fast its disks are, whether its API server answers or not."""

from dataclasses import dataclass

from controller.inside.contents import ContentsReader
from controller.inside.stores import Stores
from controller.plane.contents import Contents
from controller.plane.secrets import KeyMaterial
from controller.plane.storestate import Store
from controller.tenant.facets.store.report import is_filling, report
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
    contents: ContentsReader

    async def reconcile(self, turn: Turn) -> Turn:
        """Ask each member; start to free space if that is needed. What fills a store is asked only once it fills."""
        store = await self.stores.look(turn.spec, turn.need(KeyMaterial), self.interior.addresses(turn.spec))
        contents = await self.contents.look(turn.tenant) if store.full or is_filling(store) else None
        return turn.plus(store, contents)

    def report(self, seen: Seen) -> Report:
        """The store as it was found."""
        return report(seen.turn.spec, seen.turn.of(Store), seen.turn.of(Contents))

    async def leave(self, tenant: str, *, ends: bool) -> None:  # noqa: ARG002 - a paused plane is left alone as well
        """End the task that frees space, and look no more."""
        self.contents.forget(tenant)
        await self.stores.forget(tenant)
