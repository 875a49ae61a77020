"""The volumes under the plane's etcd."""

from collections.abc import Mapping
from dataclasses import dataclass

from bulkhead.kube.client import Client
from controller.decide.plan import Plan
from controller.decide.storage import claims_of
from controller.tenant.facets.volumes.growing import grow
from controller.tenant.facets.volumes.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen, Turn


@dataclass(frozen=True, slots=True)
class Grown:
    """The claims that were patched to grow and did not, and why."""

    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Volumes(Facet):
    """Grows the volumes and reports on them."""

    name = "volumes"
    needs = (Plan,)
    in_any_case = True
    client: Client

    async def reconcile(self, turn: Turn) -> Turn:
        """Grow the claims, unless the tenant is held: people decide then how much it may have."""
        if turn.held:
            return turn
        return turn.plus(Grown(await grow(self.client, turn.spec, turn.observed.existing)))

    def report(self, seen: Seen) -> Report:
        """How far the volumes are."""
        spec, grown = seen.turn.spec, seen.turn.of(Grown)
        return report(spec, claims_of(seen.there.values(), spec.namespace), grown.refused if grown is not None else None)
