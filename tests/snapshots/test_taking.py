"""How the controller ends a TenantSnapshot on a host that refuses, loses answers or hangs. With a clock of the tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from bulkhead.api.conditions import SnapshotReason
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import KubeError, Throttled
from bulkhead.snapshots.manifest import Manifest
from bulkhead.snapshots.target import TargetError
from controller.snapshots import loop, reports
from controller.snapshots.loop import SnapshotTasks
from controller.snapshots.places import Places
from controller.snapshots.reports import MOST_TRIES, Reports
from controller.snapshots.spec import Order
from tests.kit.fakeclock import FakeClock
from tests.kit.snapshothost import RETRY_AFTER_SECONDS, SnapshotHost, Trouble
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec
from tests.snapshots.samples import GOLDEN

RUNNING, RETRYING, STORED, FAILED = (
    SnapshotReason.RUNNING, SnapshotReason.RETRYING, SnapshotReason.STORED, SnapshotReason.FAILED,
)  # fmt: skip
LOCATION = "file:///store/red-1/manifest.json"


@dataclass
class World:
    host: SnapshotHost
    clock: FakeClock
    tasks: SnapshotTasks
    during: Callable[[], Awaitable[None]] | None = None
    taken: int = 0  # attempts
    fail: list[Exception] = field(default_factory=list)  # of the next attempts

    async def take(self, *_: object) -> tuple[Manifest, str]:
        self.taken += 1
        if self.during is not None:
            await self.during()
        if self.fail:
            raise self.fail.pop(0)
        return GOLDEN, LOCATION

    def order(self, request: Obj) -> None:
        anything = cast("Any", None)
        self.tasks.order(Order(request, {}, plane_spec(tenant="red"), anything, "", {}, {}))

    async def passes(self, over: Callable[[], bool]) -> None:
        """Let time pass until something is so."""
        for _ in range(5000):
            # What runs goes on until it waits for the clock.
            for _ in range(20):
                await asyncio.sleep(0)
            if over():
                return
            self.clock.advance(1)
        raise AssertionError(f"not within {self.clock.monotonic():g} s; tried: {self.host.tried[-20:]}")

    async def ends(self) -> None:
        """Wait until nothing is being done."""
        await self.passes(lambda: not self.tasks._tasks)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    host, clock = SnapshotHost(), FakeClock()
    made = World(host, clock, SnapshotTasks(host.client, clock, Places(cast("Any", object()))))
    monkeypatch.setattr(loop, "take", made.take)
    yield made
    await made.tasks.close()


def first(number: int, reason: str, trouble: Trouble) -> Callable[[str, str], Trouble | None]:
    """Trouble with the first writes of a reason."""
    left = [trouble] * number
    return lambda verb, tried: left.pop() if verb == "patch" and tried == reason and left else None


@pytest.mark.parametrize("trouble", [Trouble.REFUSED, Trouble.LOST])
async def test_a_whole_snapshot_is_reported_until_the_host_takes_it_and_not_taken_again(world: World, trouble: Trouble) -> None:
    world.host.trouble = first(8, STORED, trouble)
    world.order(world.host.ask("red-1", "red"))
    await world.ends()
    assert world.taken == 1
    assert world.host.reason("red-1") == STORED
    # Of an answer that is lost the write counts: the second look finds it, and nothing more is written.
    assert world.host.tried.count(STORED) == (9 if trouble is Trouble.REFUSED else 1)
    assert RETRYING not in world.host.tried
    assert world.host.objects["red-1"]["status"]["location"] == LOCATION


async def test_the_host_is_not_asked_again_before_the_time_that_it_asked_for(world: World) -> None:
    world.host.trouble = first(1, STORED, Trouble.REFUSED)
    world.order(world.host.ask("red-1", "red"))
    await world.passes(lambda: STORED in world.host.tried)
    refused = world.clock.monotonic()
    await world.ends()
    assert world.clock.monotonic() - refused >= RETRY_AFTER_SECONDS


async def test_a_report_that_hangs_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_TRY_SECONDS", 0.01)
    world.host.trouble = first(1, STORED, Trouble.HANGS)
    world.order(world.host.ask("red-1", "red"))
    await world.passes(lambda: STORED in world.host.tried)

    async def waits() -> bool:
        return world.clock.sleepers == 1

    await until(waits, "the pause before the next try")
    await world.ends()
    assert (world.taken, world.host.reason("red-1")) == (1, STORED)


async def test_a_host_that_never_takes_the_report_is_asked_a_bounded_number_of_times_and_the_next_reconcile_asks_again(
    world: World,
) -> None:
    world.host.trouble = lambda verb, reason: Trouble.REFUSED if reason == STORED else None
    request = world.host.ask("red-1", "red")
    world.order(request)
    await world.ends()
    assert world.host.tried.count(STORED) == MOST_TRIES
    assert world.host.reason("red-1") == RUNNING
    world.host.trouble = lambda verb, reason: None
    world.order(request)
    await world.ends()
    assert (world.taken, world.host.reason("red-1")) == (1, STORED)


async def test_a_report_that_is_repeated_ends_with_the_lease(world: World) -> None:
    world.host.trouble = lambda verb, reason: Trouble.REFUSED if reason == STORED else None
    world.order(world.host.ask("red-1", "red"))
    await world.passes(lambda: world.host.tried.count(STORED) == 3)
    await world.tasks.close()
    assert not world.tasks._tasks
    assert not world.tasks._ends, "the next term does not trust what this one knew"


async def test_a_whole_snapshot_holds_no_place_while_its_report_is_repeated(world: World) -> None:
    world.host.trouble = lambda verb, reason: Trouble.REFUSED if reason == STORED else None
    for number in range(loop.AT_ONCE + 1):
        world.order(world.host.ask(f"red-{number}", "red"))
    await world.passes(lambda: world.taken == loop.AT_ONCE + 1)


async def test_a_whole_snapshot_of_a_tenant_that_goes_meanwhile_is_stored_and_not_failed(world: World) -> None:
    world.host.trouble = lambda verb, reason: Trouble.REFUSED if reason == STORED else None
    request = world.host.ask("red-1", "red")
    world.order(request)
    await world.passes(lambda: STORED in world.host.tried)
    await world.tasks.forget("red")
    assert not world.tasks._tasks
    with pytest.raises(Throttled):
        await world.tasks.fail(request, "there is no Tenant red")
    world.host.trouble = lambda verb, reason: None
    await world.tasks.fail(request, "there is no Tenant red")
    assert world.host.reason("red-1") == STORED
    assert not world.tasks._ends


@pytest.mark.parametrize("reason", [STORED, FAILED])
async def test_what_ends_during_an_attempt_or_a_pause_is_not_taken_again(world: World, reason: str) -> None:
    async def meanwhile() -> None:
        world.host.complete("red-1", reason)

    world.during = meanwhile
    world.fail = [TargetError("the bucket is full")]
    world.order(world.host.ask("red-1", "red"))
    await world.ends()
    assert world.taken == 1
    assert world.host.message("red-1") == "of another process", "the report of the failed attempt has not replaced it"


async def test_an_attempt_after_the_first_looks_at_the_object(world: World) -> None:
    world.fail = [TargetError("the bucket is full")]
    world.order(world.host.ask("red-1", "red"))
    await world.passes(lambda: world.host.reason("red-1") == RETRYING)
    world.host.complete("red-1", STORED)
    await world.ends()
    assert (world.taken, world.host.message("red-1")) == (1, "of another process")


@pytest.mark.parametrize("how", ["deleted", "being deleted", "another of its name"])
async def test_what_goes_while_it_waits_for_a_place_is_not_taken(world: World, how: str) -> None:
    held = asyncio.Event()
    world.during = held.wait  # type: ignore[assignment]
    for number in range(loop.AT_ONCE):
        world.order(world.host.ask(f"red-{number}", "red"))
    world.order(world.host.ask("goes", "red"))
    await world.passes(lambda: world.host.reason("goes") == SnapshotReason.WAITING)
    meta = world.host.objects["goes"]["metadata"]
    if how == "deleted":
        del world.host.objects["goes"]
    elif how == "being deleted":
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    else:
        meta["uid"] = "another"
    held.set()
    await world.ends()
    assert world.taken == loop.AT_ONCE


async def test_a_report_of_progress_that_arrives_late_does_not_undo_the_end(world: World) -> None:
    async def meanwhile() -> None:
        await world.passes(lambda: world.host.tried.count(RUNNING) == 2)

    world.during = meanwhile
    began = iter([None, Trouble.LATE])
    world.host.trouble = lambda verb, reason: next(began, None) if reason == RUNNING else None
    world.order(world.host.ask("red-1", "red"))
    await world.ends()
    world.host.deliver()
    assert world.host.reason("red-1") == STORED


async def test_the_start_of_the_first_attempt_stays(world: World) -> None:
    world.fail = [TargetError("the bucket is full")]
    world.order(world.host.ask("red-1", "red"))
    await world.passes(lambda: RUNNING in world.host.took)
    began = world.host.objects["red-1"]["status"]["startTime"]
    await world.ends()
    assert world.host.reason("red-1") == STORED
    assert world.host.objects["red-1"]["status"]["startTime"] == began
    assert world.host.objects["red-1"]["status"]["completionTime"] > began


async def test_attempts_that_fail_end_in_failed_and_their_number_is_bounded_whatever_the_host_takes(world: World) -> None:
    world.host.trouble = first(5, FAILED, Trouble.REFUSED)
    world.fail = [TargetError(f"the bucket is full for the {number}. time") for number in range(1, loop.ATTEMPTS + 1)]
    world.order(world.host.ask("red-1", "red"))
    await world.ends()
    assert world.taken == loop.ATTEMPTS
    assert world.host.reason("red-1") == FAILED
    assert "full for the 6. time" in world.host.message("red-1")


@pytest.mark.parametrize("verb", ["get", "patch"])
async def test_who_reports_a_failure_hears_that_the_host_did_not_take_it(world: World, verb: str) -> None:
    request = world.host.ask("red-1", "red")
    world.host.trouble = lambda tried, reason: Trouble.REFUSED if tried == verb else None
    with pytest.raises(KubeError):
        await world.tasks.fail(request, "there is no Tenant red")
    world.host.trouble = lambda tried, reason: None
    await world.tasks.fail(request, "there is no Tenant red")
    assert world.host.reason("red-1") == FAILED
    await world.tasks.fail(request, "for another reason")
    assert world.host.message("red-1") == "there is no Tenant red"


async def test_a_report_over_a_version_that_is_no_longer_the_present_one_is_refused(world: World) -> None:
    request = world.host.ask("red-1", "red")

    def meanwhile(looked: Obj) -> Obj:
        world.host.complete("red-1", STORED)
        return {"conditions": [{"type": "Complete", "status": "False", "reason": FAILED, "message": "too late"}]}

    with pytest.raises(KubeError, match="resourceVersion"):
        await Reports(world.host.client, world.clock).write(request, meanwhile)
    assert world.host.reason("red-1") == STORED
