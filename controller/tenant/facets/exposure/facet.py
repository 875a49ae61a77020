"""The way to the plane from outside the host. Its objects are among the extras; this facet only reports on them."""

from dataclasses import dataclass

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from controller.plane.spec import PLANE
from controller.tenant.facets.exposure.gateway import gateway_of
from controller.tenant.facets.exposure.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, HostRefused, Seen, Turn


@dataclass(frozen=True, slots=True)
class Gateway:
    """The Gateway that the route names; empty if it does not exist."""

    obj: Obj


@dataclass(frozen=True, slots=True)
class Exposed(Facet):
    """Reads the Gateway, and reports whether the plane is reached."""

    name = "exposure"
    in_any_case = True
    client: Client

    async def reconcile(self, turn: Turn) -> Turn:
        """Read the Gateway that the tenant's route names."""
        found = await gateway_of(self.client, turn.spec.exposure)
        return turn if found is None else turn.plus(Gateway(found))

    def report(self, seen: Seen) -> Report:
        """Whether the plane is reached; unknown until everything that protects the tenant is in place."""
        turn = seen.turn
        refused, gateway = turn.of(HostRefused), turn.of(Gateway)
        route = next((obj for (kind, name), obj in seen.there.items() if kind.kind == "TLSRoute" and name == PLANE), None)
        return report(
            turn.spec,
            route,
            refused.objects if refused is not None else (),
            gateway.obj if gateway is not None else None,
            unseen=refused is None,
        )
