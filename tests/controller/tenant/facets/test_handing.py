"""What facets hand on to the tasks beside the reconcile, and what they report of those."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api.conditions import ConditionType, Reason
from controller.decide.dedicated import Finding
from controller.inside.access import PlaneHealth
from controller.plane.auditlosses import Losses
from controller.plane.trail import Audit
from controller.refusal import Refusal
from controller.shares.status import Found
from controller.slurm.decide.status import READY
from controller.slurm.ordering import Ordered
from controller.tenant.facets.audit.facet import AuditReceiver, AuditTrail
from controller.tenant.facets.nodes.facet import Nodes
from controller.tenant.facets.plane.facet import Plane
from controller.tenant.facets.shares.facet import Shares
from controller.tenant.facets.slurm.facet import Slurm
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen, Turn
from tests.controller.plane.test_rendering import RECEIVER
from tests.kit.tenantsamples import plane_spec, tenant

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SERVES, DOWN = PlaneHealth(ready=True, bootstrapped=True), PlaneHealth()


class Task:
    """Any of the collaborators: remembers what it was asked, and answers what it was given."""

    def __init__(self, **answers: Any) -> None:
        self.asked: list[str] = []
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        waits = name == "look" or (name in {"order", "hold", "forget"} and self._answers.get("waits"))

        def call(*_: Any, **__: Any) -> Any:
            self.asked.append(name)
            return self._answers.get(name)

        async def later(*_: Any, **__: Any) -> Any:
            return call()

        return later if waits else call


def turn(*made: object, spec: Any = None, **admitted: Any) -> Turn:
    defaults = {
        "held": None,
        "edit": None,
        "slurm": None,
        "slurm_logins": None,
        "shares": (),
        "class_name": "c",
        "nodes": None,
    } | admitted
    observed = SimpleNamespace(tenant=tenant(), in_plane=lambda _: {}, now=NOW)
    return Turn(cast("Any", observed), cast("Any", SimpleNamespace(**defaults)), spec or plane_spec()).plus(*made)


async def acted(facet: Facet, before: Turn) -> Report:
    return facet.report(Seen(await facet.reconcile(before)))


@pytest.mark.parametrize(
    ("health", "runs", "ordered"), [(DOWN, False, False), (SERVES, False, True), (DOWN, True, True), (None, False, False)]
)
async def test_shares_are_ordered_once_the_plane_has_answered(health: PlaneHealth | None, runs: bool, ordered: bool) -> None:
    loops = Task(runs=runs, gives=True, found=Found())
    said = await acted(Shares(cast("Any", loops)), turn(health))
    assert ("order" in loops.asked) == ordered
    verdict = said.conditions[ConditionType.SHARES_APPLIED]
    assert verdict is not None
    assert verdict.status == "True"


async def test_of_shares_nothing_is_said_where_there_are_none() -> None:
    said = await acted(Shares(cast("Any", Task(runs=False, gives=False))), turn(SERVES))
    assert said.conditions == {ConditionType.SHARES_APPLIED: None}


async def test_a_cluster_is_ordered_once_the_plane_has_answered() -> None:
    wanted, found = cast("Any", SimpleNamespace(cluster_name="a", version="1")), Ordered(wanted=False)
    orders = Task(runs=False, order=found, waits=True)
    facet = Slurm(cast("Any", orders))
    assert (await acted(facet, turn(DOWN, slurm=wanted))).needed == (ConditionType.SLURM_READY,)
    assert "order" not in orders.asked
    assert (await acted(facet, turn(SERVES, slurm=wanted))).needed == ()
    assert "order" in orders.asked


async def test_a_cluster_that_is_refused_is_left_as_it_is_and_as_it_was_reported() -> None:
    refusal = Refusal(Reason.OUT_OF_BOUNDS, "no")
    orders = Task(runs=True)
    facet = Slurm(cast("Any", orders))
    assert await acted(facet, turn(SERVES, slurm=refusal, held=refusal)) == Report()
    assert orders.asked == []
    # But its users and their keys are the Tenant's.
    orders = Task(runs=False, waits=True)
    for health, asked in ((DOWN, ["runs"]), (SERVES, ["runs", "hold"])):
        before = turn(health, slurm=refusal, held=refusal, slurm_logins=cast("Any", SimpleNamespace()))
        assert await acted(Slurm(cast("Any", orders)), before) == Report()
        assert orders.asked == asked
    # Of one that is not held and has none, condition and field go.
    gone = await acted(Slurm(cast("Any", Task(runs=False, waits=True))), turn(SERVES))
    assert (gone.conditions, gone.fields) == ({ConditionType.SLURM_READY: None}, {"slurm": None})


async def test_a_controller_that_has_just_started_says_nothing_new_of_a_cluster() -> None:
    was = {"conditions": [{"type": "SlurmReady", "status": "True"}]}
    before = turn(Ordered(wanted=True, spec=cast("Any", SimpleNamespace())))
    observed = SimpleNamespace(tenant=tenant(status=was))
    said = Slurm(cast("Any", None)).report(Seen(replace(before, observed=cast("Any", observed))))
    verdict = said.conditions[ConditionType.SLURM_READY]
    assert verdict is not None
    assert verdict.message == READY


SENT = plane_spec(audit=Audit(receiver=RECEIVER))


@pytest.mark.parametrize(
    ("spec", "health", "asked"),
    [(plane_spec(), SERVES, ["forget"]), (SENT, SERVES, ["look"]), (SENT, DOWN, [])],
    ids=["not sent", "sent", "down"],
)
async def test_only_a_plane_that_answers_and_sends_is_asked_what_it_lost(
    spec: Any, health: PlaneHealth, asked: list[str]
) -> None:
    losses = Task(look=Losses(unread="no"))
    after = await AuditTrail(cast("Any", losses)).reconcile(turn(health, spec=spec))
    assert losses.asked == asked
    said = AuditReceiver(cast("Any", None)).report(Seen(after)).conditions[ConditionType.AUDIT_DELIVERED]
    reason = Reason.PLANE_UNREADABLE if asked == ["look"] else Reason.WAITING_FOR_PLANE
    assert (said.reason if said is not None else None) == (reason if spec is SENT else None)


def test_nodes_are_awaited_but_by_a_tenant_that_is_held() -> None:
    facet = Nodes(cast("Any", None))
    claims = {"claims_nodes": True, "nodes": None}
    assert facet.awaits(turn(**claims).admitted)
    assert not facet.awaits(turn(**claims, held=Refusal(Reason.OUT_OF_BOUNDS, "no")).admitted)
    assert not facet.awaits(turn(**claims | {"nodes": Finding()}).admitted)
    assert not facet.awaits(turn(**claims | {"claims_nodes": False}).admitted)


async def test_a_pause_keeps_the_way_to_the_plane_and_an_end_closes_it() -> None:
    interior = Task(waits=True)
    for ends, asked in ((False, []), (True, ["forget"])):
        await Plane(cast("Any", interior)).leave("a", ends=ends)
        assert interior.asked == asked
