"""The plane's API server: whether it answers, and the objects that every plane starts with."""

from dataclasses import dataclass

from bulkhead.api.conditions import ConditionType
from bulkhead.api.planeidentity import Recorded
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from controller.decide import creation
from controller.decide.plan import Plan
from controller.inside.access import PlaneHealth
from controller.plane.membership import Standing
from controller.plane.secrets import KeyMaterial
from controller.plane.stranded import Strandings
from controller.tenant.facets.plane.report import Found, report
from controller.tenant.interior import Interior
from controller.tenant.observe import recorded_identity
from controller.tenant.status import Report, was_true
from controller.tenant.turn import Facet, PullTrouble, Seen, Turn


@dataclass(frozen=True, slots=True)
class Plane(Facet):
    """Whether the API server answers, and the report on the plane."""

    name = "plane"
    needs = (Plan, KeyMaterial)
    interior: Interior

    async def reconcile(self, turn: Turn) -> Turn:
        """Ask the API server."""
        return turn.plus(await self.interior.health(turn.need(Plan), turn.need(KeyMaterial)))

    def report(self, seen: Seen) -> Report:
        """The plane as it answered last."""
        turn = seen.turn
        health, pulls = turn.of(PlaneHealth) or PlaneHealth(), turn.of(PullTrouble)
        standing = turn.of(Standing)
        found = Found(
            ready=health.ready and health.bootstrapped and not health.lacks,
            message=health.lacks or health.message,
            again=health.again,
            uid=health.cluster_uid,
            identity=turn.of(Recorded) or Recorded(),
            pods=tuple(seen.named(kinds.PODS).values()),
            pull_trouble=pulls.words if pulls is not None else "",
            strandings=turn.of(Strandings) or Strandings(),
            etcd_quorate=standing is not None and standing.quorate,
        )
        return report(turn.observed.tenant, turn.spec, found)

    async def leave(self, tenant: str, *, ends: bool) -> None:
        """Close the connections to a plane that is being torn down."""
        if ends:
            await self.interior.forget(tenant)


@dataclass(frozen=True, slots=True)
class Inside(Facet):
    """The objects that every plane starts with, and the host's record of the plane's data."""

    name = "inside"
    needs = (Plan, PlaneHealth)
    client: Client
    interior: Interior

    async def reconcile(self, turn: Turn) -> Turn:
        """Apply those objects, if the plane answers."""
        identity = await recorded_identity(self.client, turn.spec.namespace)
        health = await self.interior.bootstrap(turn.need(Plan), turn.need(PlaneHealth))
        # A plane that served before is not asked: its tenant may delete what it has made, and refuse to have it again.
        tenant, now = turn.observed.tenant, turn.observed.now.timestamp()
        if creation.is_traced(tenant, now) and not was_true(tenant, ConditionType.PLANE_READY):
            health = await self.interior.complete(turn.need(Plan), health)
        return turn.plus(identity, health)
