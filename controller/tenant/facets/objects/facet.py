"""The plane and all its objects on the host, from the Plan (`controller.decide.plan`): three facets, with the plane's between.

Objects: CAs, parts, workloads, orphans ──> the plane answers ──> Followers: syncer, DNS
                                       └──> Extras: the way in, disruption budgets; whatever failed in between
"""

import logging
from dataclasses import dataclass, replace

from bulkhead.api.conditions import ConditionType
from bulkhead.api.planeidentity import Recorded
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
    """Everything that a tenant cannot run without. If it produced a Plan, everything that protects the tenant is in place."""

    name = "objects"
    needs = (KeyMaterial,)
    applier: Applier

    async def reconcile(self, turn: Turn) -> Turn:
        """Apply the CAs first, never overwriting existing ones; then the other stages, and delete orphans."""
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
        """Drop the records of a deleted tenant's objects."""
        self.applier.forget((f"bh-{tenant}", f"bh-{tenant}-work", f"bh-{tenant}-syncer-nodes"))


@dataclass(frozen=True, slots=True)
class Followers(Facet):
    """What needs a plane that answers. Its pods take longer to start than the plane's own objects take to apply."""

    name = "followers"
    needs = (Plan, PlaneHealth)
    applier: Applier

    async def reconcile(self, turn: Turn) -> Turn:
        """Apply those that should exist by now."""
        stages = Stages(self.applier, turn.observed)
        answers = turn.need(PlaneHealth).ready
        await stages.apply(turn.need(Plan).followers(plane_answers=answers, existing=turn.observed.existing))
        return replace(turn, refused=(*turn.refused, *stages.refused))

    def report(self, seen: Seen) -> Report:
        """Whether syncer and DNS run."""
        pods, pulls = tuple(seen.named(kinds.PODS).values()), seen.turn.of(PullTrouble)
        words = pulls.words if pulls is not None else ""
        recorded = seen.turn.of(Recorded)
        return followers(
            seen.named(kinds.DEPLOYMENTS), pods, words,
            was=seen.was_true(ConditionType.SYNCER_READY),
            incomplete=recorded.incomplete if recorded is not None else "",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extras(Facet):
    """What the plane runs without, above all its way in from outside; refusals by the host are reported."""

    name = "extras"
    needs = (Plan,)
    in_any_case = True
    applier: Applier

    async def reconcile(self, turn: Turn) -> Turn:
        """Apply and delete each object independently."""
        made = turn.need(Plan)
        refused = await self.applier.extras(made.rendered.extras, made.extra_deletions, turn.observed.objects)
        for refusal in refused:
            metrics.refused_objects.labels(refusal.slot.kind).inc()
            extra = {"tenant": turn.tenant, "object": f"{refusal.slot.kind} {refusal.slot.name}"}
            _log.warning("refused: %s", refusal.words, extra=extra)
        return turn.plus(HostRefused((*turn.refused, *made.kept, *refused)))

    def report(self, seen: Seen) -> Report:
        """Everything that the host refused, of these objects and of all earlier ones."""
        refused = seen.turn.of(HostRefused)
        return refusals(seen.turn.spec, refused.objects if refused is not None else ())
