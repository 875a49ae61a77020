"""What is made inside a plane that answers, and what is taken out of it again."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api.conditions import ConditionType
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound, Timeout
from controller.decide.case import Admitted
from controller.decide.plan import Plan, plan
from controller.host.owned import Owned
from controller.inside.access import PlaneAccess, PlaneHealth
from controller.inside.objects import gpumetrics, unprivileged
from controller.plane.spec import PlaneSpec
from controller.tenant.facets.plane.facet import Inside, Plane
from controller.tenant.facets.plane.report import Found, report
from controller.tenant.interior import Interior
from controller.tenant.observe import Observed
from controller.tenant.turn import Seen, Turn
from tests.kit.fakeclock import FakeClock
from tests.kit.tenantsamples import material, plane_spec

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SERVES = {"conditions": [{"type": "Ready", "status": "True"}]}


class Planes:
    """What was asked to be there, and to be there no more."""

    def __init__(self) -> None:
        self.asked: list[tuple[set[str], set[str]]] = []
        self.refusal: KubeError | None = None
        self.whole = True
        self.lacking: str | KubeError = ""
        self.looked = 0

    async def lacks(self, _spec: PlaneSpec) -> str:
        self.looked += 1
        if isinstance(self.lacking, KubeError):
            raise self.lacking
        return self.lacking

    async def bootstrap(self, _spec: PlaneSpec, objects: Iterable[Obj], withdrawn: Iterable[Obj] = ()) -> tuple[str, bool]:
        self.asked.append(({obj["kind"] for obj in objects}, {obj["kind"] for obj in withdrawn}))
        if self.refusal is not None:
            raise self.refusal
        return "u", self.whole


class Unrecorded:
    """A host without a record of the plane's data."""

    async def get(self, *_: object, **__: object) -> Obj:
        raise NotFound(404, "NotFound", "")


def turn(made: Plan, health: PlaneHealth, status: Obj | None = None, *, hours: float = 0.0) -> Turn:
    meta = {"name": made.spec.tenant, "creationTimestamp": NOW.isoformat()}
    tenant: Obj = {"metadata": meta, "status": status or {}}
    observed = cast("Observed", SimpleNamespace(tenant=tenant, now=NOW + timedelta(hours=hours)))
    return Turn(observed, cast("Admitted", None), made.spec, (made, health))


def planned(**changes: Any) -> Plan:
    spec = plane_spec(**changes)
    return plan(spec, material(spec), {})


async def test_what_a_tenant_wants_no_more_is_taken_out_of_its_plane() -> None:
    planes = Planes()
    interior = Interior(cast("Owned", None), cast("PlaneAccess", planes), FakeClock(), resync_seconds=600)
    policies = {obj["kind"] for obj in unprivileged.objects(plane_spec(isolation={"drop_privileges": "SlinkyWorkers"}))}
    for made in (
        planned(),
        planned(isolation={"drop_privileges": "SlinkyWorkers"}),
        planned(isolation={"drop_privileges": "SlinkyWorkers"}),
        planned(),
    ):
        assert (await interior.bootstrap(made, PlaneHealth(ready=True))).bootstrapped
    assert len(policies) == 2
    unasked = {obj["kind"] for obj in gpumetrics.objects(plane_spec(), b"")}
    # Each change once.
    assert [(policies <= there, gone) for there, gone in planes.asked] == [
        (False, policies | unasked),
        (True, unasked),
        (False, policies | unasked),
    ]


@pytest.mark.parametrize("refused", [True, False], ids=["all refused", "a definition refused"])
async def test_what_a_plane_could_not_take_is_tried_again_soon_and_then_as_often_as_all_else(refused: bool) -> None:
    planes, made, up = Planes(), planned(), PlaneHealth(ready=True)
    interior = Interior(cast("Owned", None), cast("PlaneAccess", planes), FakeClock(), resync_seconds=600)
    planes.refusal, planes.whole = (Timeout("no answer"), True) if refused else (None, False)
    seen = [await interior.bootstrap(made, up) for _ in range(7)]
    assert [health.again for health in seen] == [5.0, 10.0, 20.0, 40.0, 80.0, None, None]
    assert {health.bootstrapped for health in seen} == {not refused}
    planes.refusal, planes.whole = None, True
    health = await interior.bootstrap(made, up)
    assert (health.bootstrapped, health.again, len(planes.asked)) == (True, None, 8)
    # It has all of it, and is not asked before the resync.
    await interior.bootstrap(made, up)
    assert len(planes.asked) == 8
    # A plane that was away begins from the beginning.
    await interior.bootstrap(made, PlaneHealth())
    planes.whole = False
    assert (await interior.bootstrap(made, up)).again == 5.0


def test_the_report_of_a_plane_asks_for_that_turn() -> None:
    spec = plane_spec()
    tenant: Obj = {"metadata": {"name": spec.tenant}, "status": {}}
    assert report(tenant, spec, Found(message="the plane rejects its bootstrap objects", again=5.0)).again == 5.0
    assert report(tenant, spec, Found(message="the API server does not answer")).again is None


@pytest.mark.parametrize("lacking", ["ServiceAccount default", Timeout("no answer")], ids=["not made", "not told"])
async def test_a_new_plane_is_ready_once_it_has_what_its_first_pod_needs(lacking: str | KubeError) -> None:
    planes, made, up = Planes(), planned(), PlaneHealth(ready=True)
    inside = Inside(
        cast("Client", Unrecorded()),
        Interior(cast("Owned", None), cast("PlaneAccess", planes), FakeClock(), resync_seconds=600),
    )
    planes.lacking = lacking
    health = (await inside.reconcile(turn(made, up))).need(PlaneHealth)
    # The rest of the tenant does not wait for it.
    assert (health.ready, health.bootstrapped, health.again) == (True, True, 1.0)
    pod: Obj = {"metadata": {"name": "plane-0", "labels": {"bulkhead.dev/component": "plane"}}, "status": SERVES}
    seen = Seen(turn(made, health), there={(kinds.PODS, "plane-0"): pod})
    reported = Plane(inside.interior).report(seen).conditions[ConditionType.PLANE_READY]
    assert reported is not None
    assert (reported.status, str(lacking) in reported.message) == ("False", True)
    planes.lacking = ""
    for _ in range(3):
        health = (await inside.reconcile(turn(made, up))).need(PlaneHealth)
        assert (health.lacks, health.again) == ("", None)
    # What it has once is not asked for again.
    assert planes.looked == 2
    await inside.interior.bootstrap(made, PlaneHealth())
    await inside.reconcile(turn(made, up))
    assert planes.looked == 3


@pytest.mark.parametrize(("status", "hours"), [("True", 0.1), ("False", 2)], ids=["ready", "down after its first hour"])
async def test_a_plane_that_was_ready_is_not_asked_for_it(status: str, hours: float) -> None:
    """Its tenant may delete what the plane has made."""
    planes = Planes()
    planes.lacking = "ServiceAccount default"
    interior = Interior(cast("Owned", None), cast("PlaneAccess", planes), FakeClock(), resync_seconds=600)
    before: Obj = {"conditions": [{"type": ConditionType.PLANE_READY, "status": status}]}
    now = turn(planned(), PlaneHealth(ready=True), before, hours=hours)
    after = await Inside(cast("Client", Unrecorded()), interior).reconcile(now)
    assert (after.need(PlaneHealth).lacks, planes.looked) == ("", 0)
