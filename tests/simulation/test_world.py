"""What every story leans on: what is awaited comes, or the story fails and says what it saw."""

import asyncio

import pytest

from bulkhead.kube.resources import NODES
from tests.simulation import stories, virtualtime
from tests.simulation.world import World


def run(story: stories.Story) -> None:
    async def whole() -> None:
        async with World.open(3) as world:
            await story(world)

    virtualtime.run(whole)


def test_until_gives_what_was_seen_and_waits_no_longer() -> None:
    async def story(world: World) -> None:
        await world.ready()
        world.tenant.pod("web")
        began = world.clock.monotonic()
        (pod,) = await world.until("the host pod made", world.on_host.pods, 20)
        assert pod["metadata"]["name"].startswith("web")
        assert world.clock.monotonic() < began + 5

    run(story)


def test_until_fails_when_nothing_comes_and_says_what_there_was() -> None:
    async def story(world: World) -> None:
        world.tenant.pod("web")
        await world.settle()
        await world.until("the pod gone", lambda: not world.on_host.pods(), 7)

    with pytest.raises(
        AssertionError, match=r"not within 7 s: the pod gone\. Seen: False; .*host pod web-\S+ \(node-a, Running"
    ):
        run(story)


def test_until_fails_at_once_at_what_must_not_happen() -> None:
    async def story(world: World) -> None:
        world.oracle.violate("forbidden")
        await world.until("anything", lambda: True, 1)

    with pytest.raises(AssertionError, match="forbidden"):
        run(story)


def test_sides_that_do_not_agree_are_not_settled() -> None:
    async def story(world: World) -> None:
        await world.ready()
        await world.stop()
        world.tenant.pod("web")
        await world.settle(5)

    with pytest.raises(AssertionError, match=r"not within 5 s: both sides agree\..* pod space/web has no host pod"):
        run(story)


def test_sides_that_change_all_the_time_are_not_settled() -> None:
    async def story(world: World) -> None:
        await world.settle()
        changing = asyncio.create_task(relabel(world))
        try:
            await world.settle(3)
        finally:
            changing.cancel()

    async def relabel(world: World) -> None:
        for number in range(1000):
            world.tenant.label_space(str(number))
            await asyncio.sleep(0.2)

    with pytest.raises(AssertionError, match="not within 3 s: both sides agree"):
        run(story)


def without_nodes(world: World) -> None:
    for node in world.host.store.all(NODES):
        world.host.do("DELETE", NODES, {}, name=node["metadata"]["name"])


def test_a_world_in_which_nothing_was_seen_of_the_syncer_is_not_settled() -> None:
    """Without nodes both sides are empty, and agree."""

    async def story() -> None:
        async with World.open(3, start=False) as world:
            without_nodes(world)
            with pytest.raises(AssertionError, match=r"both sides agree.*nothing was seen of the syncer"):
                await world.settle(5)
            with pytest.raises(AssertionError, match="both sides agree"):
                await world.check(5)

    virtualtime.run(story)


def test_a_syncer_that_had_nothing_to_do_is_given_a_node_to_show_itself() -> None:
    async def story(world: World) -> None:
        without_nodes(world)
        await world.check()
        assert world.plane.store.all(NODES)

    run(story)


def test_a_syncer_that_does_not_start_is_not_ready() -> None:
    async def story(world: World) -> None:
        world.host_faults.away = True
        await world.ready()

    with pytest.raises(AssertionError, match="the syncer is ready"):
        run(story)
