"""Metering on a real API server: what is stored by controllers that die at any write, that overlap, that come back late."""

from datetime import timedelta

import pytest

from bulkhead.api.quotalines import ReservedRoom
from bulkhead.metering.usagebook import Sums
from controller.metering import metrics
from controller.metering.reservations import Reservations
from controller.metering.store import UsageStore
from tests.controller.metering.bed import GPU, START, Dying, MeteredHost, Silent, gone
from tests.kit.background import background
from tests.kit.fakeclock import FakeClock
from tests.kit.syncerbed import until

pytestmark = pytest.mark.apiserver


async def test_what_pods_hold_is_stored_by_owner_and_goes_on_over_a_restart(host: MeteredHost) -> None:
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a", 2)
        await host.run("b")
        await host.seen(usage, 2)
        await host.pass_time(60)
        await host.sums_are(a=(80, 20), b=(40, 10))
    await host.pass_time(600, counted=False)
    await host.end("b")
    await host.pass_time(600, counted=False)
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 2)
        await host.pass_time(60)
        await host.sums_are(a=(2 * (60 + 1200 + 60 - 20), 20), b=(650, 10))
        await host.delete("b")
        await host.delete("a")
        await until(lambda: gone(usage), "both ends to be seen")
        await host.pass_time(60)
        await host.sums_are(a=(2 * (60 + 1200 + 60 - 10), 20), b=(650, 10))
    value = metrics.seconds.labels(host.tenant, GPU, "", "used")._value.get()
    assert value == 2 * (60 + 1200 + 60 - 10) + 650


async def test_a_process_whose_clock_is_behind_the_last_ones_counts_nothing_twice(host: MeteredHost) -> None:
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(60)
        await host.sums_are(a=(40, 10))
    # Another machine leads, and five minutes pass by its clock until it is where the first one was.
    host.clock = FakeClock(START - timedelta(seconds=240))
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 1)
        await host.pass_time(360)
        await host.sums_are(a=(100, 10))


async def test_what_is_reserved_is_stored_and_is_not_counted_again_after_a_restart(host: MeteredHost) -> None:
    room = ReservedRoom(host.tenant, "ml", "Job/waits", {("h100", GPU): 3})
    reservations = Reservations(host.clock)
    usage = host.usage(reserved=reservations.count)
    async with background(usage.run()):
        await host.seen(usage, 0)
        reservations.show([room])
        await host.pass_time(60)
        # Known up to the last decision alone.
        assert await host.sums() == {}
        reservations.show([room])
        await host.pass_time(60)
        assert await host.sums() == {"Job/waits": Sums(reserved=180)}
        reservations.show([])
        await host.pass_time(60)
        assert await host.sums() == {"Job/waits": Sums(reserved=360)}
    reservations.show([room])
    # The process is gone; the next one is told of the room later, and that it is released.
    await host.pass_time(600, counted=False)
    reservations = Reservations(host.clock)
    usage = host.usage(reserved=reservations.count)
    async with background(usage.run()):
        await host.seen(usage, 0)
        reservations.show([room])
        await host.pass_time(60)
        reservations.show([])
        await host.pass_time(60)
        assert await host.sums() == {"Job/waits": Sums(reserved=540)}
    assert metrics.reserved_seconds.labels(host.tenant, GPU, "h100")._value.get() == 540
    assert metrics.seconds.labels(host.tenant, GPU, "h100", "idle")._value.get() == 0


async def test_what_is_reserved_is_not_counted_by_a_process_that_was_overtaken(host: MeteredHost) -> None:
    room = ReservedRoom(host.tenant, "ml", "Job/waits", {("", GPU): 1})
    reservations = Reservations(host.clock)
    usage = host.usage(reserved=reservations.count)
    async with background(usage.run()):
        await host.seen(usage, 0)
        reservations.show([room])
        await host.pass_time(60)
        other = UsageStore(host.client, host.system, "other")
        page = await other.open(round(host.moment() * 1000))
        await other.save(page)
        reservations.show([room])
        await host.pass_time(60)
        reservations.show([])
        await host.pass_time(60)
        # The first minute was on the page that another process had written meanwhile.
        assert await host.sums() == {"Job/waits": Sums(reserved=60)}


async def test_a_pod_that_vanished_unseen_ends_when_it_was_last_counted(host: MeteredHost) -> None:
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(120)
        await host.sums_are(a=(100, 10))
    await host.delete("a")
    await host.pass_time(600, counted=False)
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.pass_time(60)
        await host.sums_are(a=(100, 10))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fatal", range(2, 8))
async def test_a_controller_that_is_killed_at_any_write_counts_nothing_twice_and_loses_nothing(
    host: MeteredHost, fatal: int, *, after: bool
) -> None:
    """Over midnight, so that a page is closed and the next one begun among the writes; the first one says that it begins."""
    host.clock.advance(12 * 3600 - 90)
    deadly = Dying(host.client, fatal, after=after)
    usage = host.usage(deadly)  # type: ignore[arg-type]
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a", 3)
        await host.seen(usage, 1)
        for _ in range(5):
            if deadly.died.is_set():
                break
            host.clock.advance(60)
            await until(lambda: _either(deadly, host), "the write or the end")
    assert deadly.died.is_set() == (deadly.writes >= fatal)
    passed = host.moment() - host.since["a"]
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 1)
        await host.pass_time(180)
        await host.sums_are(a=(round(3 * (passed + 180 - 20)), 30))


async def _either(deadly: Dying, host: MeteredHost) -> bool:
    return deadly.died.is_set() or host.clock.sleepers > 0


async def test_a_write_to_which_no_answer_came_is_known_again(host: MeteredHost) -> None:
    usage = host.usage(Silent(host.client, 2))  # type: ignore[arg-type]
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(240)
        await host.sums_are(a=(220, 10))
        await host.delete("a")
        await until(lambda: gone(usage), "the end to be seen")
        await host.pass_time(120)
        await host.sums_are(a=(230, 10))


async def test_a_worker_without_a_job_is_idle(host: MeteredHost) -> None:
    usage = host.usage(resting=lambda: {(host.tenant, "a-virtual")})
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(60)
        await host.sums_are(a=(0, 50))


async def test_a_tenant_that_takes_a_former_ones_name_is_counted_on_pages_of_its_own(host: MeteredHost) -> None:
    holders = {host.tenant: "first"}

    async def seconds() -> list[tuple[str, int]]:
        rows = [(page.holders.get(host.tenant, ""), sums) for page in await host.pages() for _, _, sums in page.rows()]
        return [(uid, round((sums.used + sums.idle) / 1000)) for uid, sums in rows]

    usage = host.usage(holders=lambda: holders)
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(60)
        await host.delete("a")
        await until(lambda: gone(usage), "the end to be seen")
        # The last ten seconds of the first one are not counted yet.
        holders[host.tenant] = "second"
        await host.pass_time(60)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(60)
        assert await seconds() == [("first", 60), ("second", 50)]
    # One that begins later finds it so, too.
    holders[host.tenant] = "third"
    usage = host.usage(holders=lambda: holders)
    async with background(usage.run()):
        await host.seen(usage, 1)
        await host.pass_time(60)
        assert await seconds() == [("first", 60), ("second", 50), ("third", 60)]
