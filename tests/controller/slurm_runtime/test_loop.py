"""The loop around many tenants' clusters: none delays another, and each recovers by itself."""

import asyncio
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ApiError, Unprocessable
from bulkhead.kube.objects import Resource
from controller.inside.calls import Plane
from controller.slurm.client import rest as rest_module
from controller.slurm.cluster import Cluster, Order
from controller.slurm.decide.status import Found, verdict
from controller.slurm.loop import SlurmLoops
from tests.controller.slurm_runtime.bed import Bed, order, until
from tests.controller.slurm_runtime.plane import FakePlane
from tests.controller.slurm_runtime.slurmrestd import FakeSlurmrestd, served
from tests.controller.slurm_runtime.world import node_set


async def test_a_silent_tenant_delays_no_other(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_module, "_REQUEST_DEADLINE_SECONDS", 300.0)
    async with served(FakeSlurmrestd(mood="silent"), seconds=300.0) as (silent, transport):
        planes = {"mute": FakePlane(transport), "well": bed.plane}
        changed: list[str] = []
        loops = SlurmLoops(bed.clock, lambda turn: cast(Plane, planes[turn.tenant]), lambda _: {}, changed.append)
        assert loops.order("mute", order()) is None
        assert loops.order("well", order()) is None
        await until(lambda: "well" in changed)
        for _ in range(5):
            before = len(bed.fake.calls)
            await until(lambda: bed.clock.sleepers > 0)
            bed.clock.advance(4)
            await until(lambda before=before: len(bed.fake.calls) > before)  # type: ignore[misc]
        assert "mute" not in changed
        found = loops.order("well", order())
        assert found is not None
        assert found.counts is not None
        await loops.close()
        silent.stuck.set()


async def test_a_plane_that_is_down_is_reported_and_asked_again(bed: Bed) -> None:
    bed.plane.down = True
    changed: list[str] = []
    loops = SlurmLoops(bed.clock, lambda _: cast(Plane, bed.plane), lambda _: {}, changed.append)
    loops.order("team-a", order())
    await until(lambda: len(changed) == 1)
    found = loops.order("team-a", order())
    assert found is not None
    assert "the plane is down" in found.trouble
    bed.plane.down = False
    await until(lambda: bed.clock.sleepers > 0)
    bed.clock.advance(20)
    await until(lambda: len(changed) > 1)
    await loops.close()


async def test_a_tenant_that_is_forgotten_is_left_alone(bed: Bed) -> None:
    loops = SlurmLoops(bed.clock, lambda _: cast(Plane, bed.plane), lambda _: {}, lambda _: None)
    loops.order("team-a", order())
    await until(lambda: bed.clock.sleepers > 0)
    await loops.forget("team-a")
    calls = len(bed.fake.calls)
    bed.clock.advance(60)
    await asyncio.sleep(0.05)
    assert len(bed.fake.calls) == calls
    assert not loops.runs("team-a")


async def test_a_surprise_in_one_pass_is_not_the_last_pass(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [RuntimeError("a surprise")]
    real = Cluster.reconcile

    async def reconcile(self: Cluster, plane: Plane, found: Order) -> Found:
        if failures:
            raise failures.pop()
        return await real(self, plane, found)

    monkeypatch.setattr(Cluster, "reconcile", reconcile)
    loops = SlurmLoops(bed.clock, lambda _: cast(Plane, bed.plane), lambda _: {}, lambda _: None)
    loops.order("team-a", order())
    await until(lambda: bed.clock.sleepers > 0)
    assert not bed.fake.calls
    bed.clock.advance(20)
    await until(lambda: bool(bed.fake.calls))
    await loops.close()


async def test_a_definition_of_the_tenants_own_stops_its_own_cluster_and_is_named(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bed.reconcile(node_set())
    scope = "spec.scope: Invalid value: field is immutable"

    async def replace_(r: Resource, obj: Obj) -> None:
        raise Unprocessable(422, "Invalid", scope)

    real = bed.plane.list

    async def list_(r: Resource, namespace: str | None = None, **more: Any) -> Any:
        if r.kind == "NodeSet":
            raise ApiError(500, "InternalError", "conversion webhook failed")
        return await real(r, namespace, **more)

    monkeypatch.setattr(bed.plane, "replace", replace_)
    monkeypatch.setattr(bed.plane, "list", list_)
    bed.clock.advance(121)
    changed: list[str] = []
    loops = SlurmLoops(bed.clock, lambda _: cast(Plane, bed.plane), lambda _: {}, changed.append)
    loops.order("team-a", order())
    await until(lambda: bool(changed))
    found = loops.order("team-a", order())
    assert found is not None
    condition = verdict(found, was=True)
    assert (condition.status, condition.reason) == ("False", "PlaneUnreadable")
    assert scope in condition.message
    assert "conversion webhook failed" in condition.message
    # Once it is corrected, the cluster goes on by itself.
    monkeypatch.undo()
    changed.clear()
    await until(lambda: bed.clock.sleepers > 0)
    bed.clock.advance(20)
    await until(lambda: bool(changed))
    found = loops.order("team-a", order())
    assert found is not None
    assert verdict(found, was=True).reason != "PlaneUnreadable"
    await loops.close()
