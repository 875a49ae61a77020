"""A machine's clock that jumps, is wrong from the beginning, or not the server's: which time counts, what is reported."""

import logging
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from bulkhead.work import clock
from bulkhead.work.clock import SystemClock
from bulkhead.work.steadyclock import SteadyClock
from tests.kit.fakeclock import FakeClock

DAYS = timedelta(days=600)
SECOND = timedelta(seconds=1)


class Machine(FakeClock):
    """A machine whose clock is wrong by so much, and that was suspended for so many seconds."""

    wrong = timedelta()
    suspended = 0.0

    def now(self) -> datetime:
        return self.right() + self.wrong

    def right(self) -> datetime:
        return super().now() + timedelta(seconds=self.suspended)

    def elapsed(self) -> float:
        return super().elapsed() + self.suspended


class World:
    """A machine, a server that has the right time unless it is wrong too, and the clock between them."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.clock = SteadyClock(self.machine)
        self.server_wrong = timedelta()

    def hear(self) -> None:
        self.clock.heard(format_datetime(self.machine.right() + self.server_wrong, usegmt=True))

    def off(self) -> timedelta:
        """How far the clock is from the right time, after the server has answered."""
        self.hear()
        return self.clock.now() - self.machine.right()


@pytest.fixture
def world() -> World:
    return World()


def test_a_clock_that_is_right_counts(world: World) -> None:
    assert world.clock.now() == world.machine.now()  # before the server has sent its time
    assert world.off() == timedelta()
    world.machine.wrong = timedelta(seconds=90)
    assert world.off() == timedelta(seconds=90)
    assert (world.clock.trouble, world.clock.unknown) == ("", False)


@pytest.mark.parametrize("wrong", [DAYS, -DAYS, timedelta(minutes=10)])
def test_while_a_clock_has_jumped_what_is_expected_counts(world: World, wrong: timedelta) -> None:
    world.off()
    world.machine.wrong = wrong
    world.machine.advance(3600)
    # Before the server is heard again, too.
    assert world.clock.now() == world.machine.right()
    assert world.off() == timedelta()
    assert world.clock.trouble.startswith("the controller's clock is ")
    assert not world.clock.unknown
    world.machine.advance(100 * 24 * 3600)
    assert world.off() == timedelta()
    world.machine.wrong = timedelta()
    assert world.off() == timedelta()
    assert world.clock.trouble == ""


def test_where_the_server_jumps_too_what_is_expected_counts_until_both_stay_with_it(world: World) -> None:
    world.off()
    world.machine.wrong = world.server_wrong = DAYS
    assert abs(world.off()) < SECOND
    assert "600 days ahead of what it was and the seconds since" in world.clock.trouble
    world.machine.advance(599)
    assert abs(world.off()) < SECOND
    world.machine.advance(1)
    assert world.off() == DAYS
    assert world.clock.trouble == ""


def test_a_jump_that_goes_back_does_not_count_as_one_for_the_next(world: World) -> None:
    world.off()
    for _ in range(3):
        world.machine.wrong = world.server_wrong = DAYS
        assert abs(world.off()) < SECOND
        world.machine.wrong = world.server_wrong = timedelta()
        world.machine.advance(590)
        assert world.off() == timedelta()


def test_a_machine_that_was_suspended_has_the_right_time_at_once(world: World) -> None:
    world.off()
    for _ in range(2):
        # Monotonic time stands still meanwhile: the clock seems to jump, and the server's seems to have stopped.
        world.machine.suspended += 7200
        assert world.clock.now() == world.machine.right()
        assert world.clock.trouble == ""
        assert world.off() == timedelta()
        assert (world.clock.trouble, world.clock.unknown) == ("", False)


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="of Linux alone")
def test_the_machines_elapsed_seconds_are_those_since_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = {time.CLOCK_BOOTTIME: 7260.0, time.CLOCK_MONOTONIC: 60.0}
    monkeypatch.setattr(time, "clock_gettime", readings.__getitem__)
    assert SystemClock().elapsed() == 7260.0


def test_elsewhere_they_are_monotonic_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_BOOTTIME", None)
    monkeypatch.setattr(time, "monotonic", lambda: 60.0)
    assert SystemClock().elapsed() == 60.0


def test_a_server_that_jumps_alone_changes_nothing(world: World) -> None:
    world.off()
    world.server_wrong = DAYS
    world.machine.advance(3600)
    assert world.off() == timedelta()
    assert "600 days behind the host's API server" in world.clock.trouble


@pytest.mark.parametrize(("wrong", "unknown"), [(DAYS, True), (-DAYS, True), (timedelta(hours=20), False)])
def test_a_clock_that_was_never_right_is_the_servers_and_far_off_it_is_not_known(
    world: World, wrong: timedelta, unknown: bool
) -> None:
    world.machine.wrong = wrong
    assert world.off() == timedelta()
    assert world.clock.unknown == unknown
    world.machine.wrong = timedelta()
    assert world.off() == timedelta()
    assert (world.clock.unknown, world.clock.trouble) == (False, "")


@pytest.mark.parametrize("date", ["", "soon", "Mon, 99 Jan 2026 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "1" * 5000])
def test_a_malformed_date_is_ignored(world: World, date: str) -> None:
    world.off()
    world.clock.heard(date)
    world.machine.advance(60)
    assert world.clock.now() == world.machine.now()
    assert world.clock.trouble == ""


def test_a_date_without_a_zone_is_utc(world: World) -> None:
    world.clock.heard(datetime(2026, 1, 1, tzinfo=UTC).strftime("%a, %d %b %Y %H:%M:%S -0000"))
    assert world.clock.now() == world.machine.now()
    assert world.clock.trouble == ""


def test_what_is_wrong_is_logged_once_and_seldom(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    world.off()
    world.machine.wrong = DAYS
    for _ in range(10):
        world.off()
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert "the controller's clock is 600 days ahead of the host's API server" in caplog.text
    for wrong in (timedelta(), DAYS, timedelta()):
        world.machine.wrong = wrong
        world.off()
    assert len(caplog.records) == 1
    world.machine.advance(61)
    world.machine.wrong = DAYS
    world.off()
    world.machine.advance(61)
    world.machine.wrong = timedelta()
    world.off()
    assert [each.levelname for each in caplog.records][-1] == "WARNING"
