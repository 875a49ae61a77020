"""The status of Cohorts: written only if it differs, at most once a second, and only by the leader."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from bulkhead.kube.errors import Forbidden, KubeError, NotFound
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Rules, Share, Snapshot, Tenant
from controller.dispatch.apply import DeposedError
from controller.dispatch.cohorts import Statuses
from controller.dispatch.quotas import Cohort, cohort_of
from tests.controller.dispatch.pods import FakeHost
from tests.kit.fakeclock import FakeClock

GPU, NAME = "nvidia.com/gpu", "research"


class World:
    """One cohort with an object, whose watch shows what was written when a test says so."""

    def __init__(self) -> None:
        self.clock, self.host, self.leads = FakeClock(), FakeHost(), True
        self.statuses = Statuses(self.host, lambda: self.leads, self.clock)
        self.cohorts: dict[str, Cohort] = {NAME: Cohort(Rules(), 3, {})}
        self.tenants = ["ada"]

    async def turn(self) -> float | None:
        given = {name: Tenant(name, NAME, shares={("", GPU): Share(4, None)}) for name in self.tenants}
        snapshot = Snapshot(given, (), ())
        return await self.statuses.carry_out(snapshot, decide(snapshot, 100.0), self.cohorts)

    def written(self) -> list[Mapping[str, Any]]:
        return [body["status"] for verb, _, body in self.host.asked if verb == "patch status"]

    def shown(self) -> None:
        """The watch has come to the last write."""
        self.cohorts = {NAME: Cohort(Rules(), 3, json.loads(json.dumps(self.written()[-1])))}


@pytest.fixture
def world() -> World:
    return World()


async def test_what_has_not_changed_is_not_written_again(world: World) -> None:
    assert await world.turn() is None
    assert [(each["tenants"], each["devices"]) for each in world.written()] == [(1, "0/4")]
    world.shown()
    for _ in range(5):
        world.clock.advance(10.0)
        assert await world.turn() is None
    assert len(world.written()) == 1


async def test_a_change_is_written_once_a_second_at_most_and_whole(world: World) -> None:
    await world.turn()
    world.shown()
    world.tenants.append("bob")
    assert await world.turn() == pytest.approx(1.0)
    assert len(world.written()) == 1
    world.clock.advance(1.0)
    assert await world.turn() is None
    assert [each["tenants"] for each in world.written()] == [1, 2]


async def test_until_the_watch_shows_a_write_it_is_not_repeated_and_afterwards_it_is(world: World) -> None:
    await world.turn()
    world.clock.advance(1.0)
    assert await world.turn() == pytest.approx(1.0)
    assert len(world.written()) == 1
    world.clock.advance(1.5)
    await world.turn()
    assert len(world.written()) == 2


@pytest.mark.parametrize("error", [NotFound(404, "NotFound", "gone"), Forbidden(403, "Forbidden", "no right")])
async def test_one_that_is_gone_or_refused_is_left_alone_for_a_while_and_tried_again(world: World, error: KubeError) -> None:
    world.host.answer = lambda *_: error
    assert await world.turn() == pytest.approx(30.0)
    world.clock.advance(10.0)
    world.tenants.append("bob")
    assert await world.turn() == pytest.approx(20.0)
    assert len(world.written()) == 1
    world.clock.advance(20.0)
    await world.turn()
    assert len(world.written()) == 2


async def test_a_cohort_without_an_object_costs_nothing(world: World) -> None:
    world.cohorts = {}
    assert await world.turn() is None
    assert await world.statuses.without_tenants({}) is None
    assert world.host.asked == []


async def test_a_cohort_without_tenants_says_so(world: World) -> None:
    assert await world.statuses.without_tenants(world.cohorts) == pytest.approx(30.0)
    (said,) = world.written()
    assert (said["tenants"], said["conditions"][0]["reason"]) == (0, "NoTenants")


async def test_a_former_leader_writes_nothing(world: World) -> None:
    world.leads = False
    with pytest.raises(ExceptionGroup) as caught:
        await world.turn()
    assert caught.group_contains(DeposedError)
    assert world.host.asked == []


@pytest.mark.parametrize("status", [None, [], "x", 3])
@pytest.mark.parametrize("generation", [None, "3", True, -1.5])
def test_what_a_cohort_bears_may_be_anything(status: Any, generation: Any) -> None:
    found = cohort_of({"metadata": {"generation": generation}, "spec": status, "status": status})
    assert (found.generation, found.status, found.rules) == (0, {}, Rules())
