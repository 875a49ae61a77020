"""The plane and all that belongs to it on the host, as `controller.decide.plan` has it: three facets, with a plane between.

Objects: CAs, parts, workloads, orphans ──> the plane answers ──> Followers: syncer, DNS
                                       └──> Extras: the way in, disruption budgets; whatever failed in between
"""

import logging
from dataclasses import dataclass, replace

from bulkhead.api.conditions import ConditionType
from bulkhead.kube import resources as kinds
from controller import metrics
from controller.decide.plan import Plan, plan
from controller.inside.access import PlaneHealth
from controller.plane.secrets import KeyMaterial
from controller.tenant.apply import Applier, Stages
from controller.tenant.facets.objects.report import followers, refusals
from controller.tenant.status import Report
from controller.tenant.turn import Facet, HostRefused, PullTrouble, Seen, Turn

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Objects(Facet):
    """All that a tenant does not run without; where a Plan was made, all that protects the tenant is in."""

    name = "objects"
    needs = (KeyMaterial,)
    applier: Applier

    async def reconcile(self, turn: Turn) -> Turn:
        """CAs first, and never over others; then the rest in its stages, and orphans."""
        observed = turn.observed
        made = plan(turn.spec, turn.need(KeyMaterial), observed.existing, held=turn.held)
        authorities, *rest = made.stages
        stages = Stages(self.applier, observed)
        await stages.create_only(authorities)
        for stage in rest:
            await stages.apply(stage)
        await self.applier.delete(made.deletions, observed.objects)
        return replace(turn.plus(made), refused=(*turn.refused, *stages.refused))

    async def forget(self, tenant: str) -> None:
        """Drop what is known of its objects."""
        self.applier.forget((f"bh-{tenant}", f"bh-{tenant}-work", f"bh-{tenant}-syncer-nodes"))


@dataclass(frozen=True, slots=True)
class Followers(Facet):
    """What needs a plane that answers; its pods take longer to start than the plane's own objects are applied."""

    name = "followers"
    needs = (Plan, PlaneHealth)
    applier: Applier

    async def reconcile(self, turn: Turn) -> Turn:
        """Apply those that are to be there by now."""
        stages = Stages(self.applier, turn.observed)
        answers = turn.need(PlaneHealth).ready
        await stages.apply(turn.need(Plan).followers(plane_answers=answers, existing=turn.observed.existing))
        return replace(turn, refused=(*turn.refused, *stages.refused))

    def report(self, seen: Seen) -> Report:
        """Whether syncer and DNS run."""
        pods, pulls = tuple(seen.named(kinds.PODS).values()), seen.turn.of(PullTrouble)
        words = pulls.words if pulls is not None else ""
        return followers(seen.named(kinds.DEPLOYMENTS), pods, words, was=seen.was_true(ConditionType.SYNCER_READY))


@dataclass(frozen=True, slots=True)
class Extras(Facet):
    """What the plane runs without, its way in from outside first of all; what the host refuses of it is told."""

    name = "extras"
    needs = (Plan,)
    in_any_case = True
    applier: Applier

    async def reconcile(self, turn: Turn) -> Turn:
        """Apply and delete each for itself."""
        made = turn.need(Plan)
        refused = await self.applier.extras(made.rendered.extras, made.extra_deletions, turn.observed.objects)
        for each in refused:
            metrics.refused_objects.labels(each.slot.kind).inc()
            extra = {"tenant": turn.tenant, "object": f"{each.slot.kind} {each.slot.name}"}
            _log.warning("refused: %s", each.words, extra=extra)
        return turn.plus(HostRefused((*turn.refused, *made.kept, *refused)))

    def report(self, seen: Seen) -> Report:
        """What the host did not take, of these and of all before."""
        refused = seen.turn.of(HostRefused)
        return refusals(seen.turn.spec, refused.objects if refused is not None else ())
