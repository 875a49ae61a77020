"""The way to the plane from outside of the host. Its objects are among the extras: here is what is said of them."""

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
    """What the route names: empty where there is none."""

    obj: Obj


@dataclass(frozen=True, slots=True)
class Exposed(Facet):
    """See the module."""

    name = "exposure"
    in_any_case = True
    client: Client

    async def reconcile(self, turn: Turn) -> Turn:
        """Read the Gateway that the tenant's route names."""
        found = await gateway_of(self.client, turn.spec.exposure)
        return turn if found is None else turn.plus(Gateway(found))

    def report(self, seen: Seen) -> Report:
        """Whether the plane is reached; not looked at where not all is in that protects the tenant."""
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
