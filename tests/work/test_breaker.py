"""The breaker's states under a fake clock."""

import pytest

from bulkhead.work.breaker import BreakerOpen, CircuitBreaker
from bulkhead.work.clock import FakeClock


def breaker(clock: FakeClock) -> CircuitBreaker:
    return CircuitBreaker("plane", failures=3, cooldown=5, max_cooldown=15, clock=clock)


def fail(target: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        assert target.allow()
        target.failure()


def test_it_opens_after_failures_in_a_row() -> None:
    target = breaker(FakeClock())
    fail(target, 2)
    target.success()
    fail(target, 3)
    assert (target.state, target.allow(), target.retry_after()) == ("open", False, 5)


def test_one_probe_closes_it() -> None:
    clock = FakeClock()
    target = breaker(clock)
    fail(target, 3)
    clock.advance(5)
    assert target.state == "half-open"
    assert [target.allow(), target.allow()] == [True, False]
    target.success()
    assert (target.state, target.allow()) == ("closed", True)


def test_a_failed_probe_waits_longer_each_time() -> None:
    clock = FakeClock()
    target = breaker(clock)
    fail(target, 3)
    for wait in (5, 10, 15, 15):
        assert target.retry_after() == wait
        clock.advance(wait)
        fail(target, 1)
    clock.advance(15)
    assert target.allow()
    target.success()
    fail(target, 3)
    assert target.retry_after() == 5


def test_a_probe_that_never_reports_blocks_for_one_cooldown() -> None:
    clock = FakeClock()
    target = breaker(clock)
    fail(target, 3)
    clock.advance(5)
    assert [target.allow(), target.allow()] == [True, False]
    clock.advance(5)
    assert target.allow()


def test_late_failures_of_calls_that_were_under_way_do_not_prolong() -> None:
    clock = FakeClock()
    target = breaker(clock)
    fail(target, 3)
    clock.advance(4)
    target.failure()
    assert target.retry_after() == 1


def test_guard_counts_only_what_it_is_told() -> None:
    target = breaker(FakeClock())
    for _ in range(5):
        with pytest.raises(KeyError), target.guard(OSError):
            raise KeyError
    assert target.state == "closed"
    for _ in range(3):
        with pytest.raises(OSError), target.guard(OSError):  # noqa: PT011 -- any OSError counts
            raise OSError
    with pytest.raises(BreakerOpen) as caught, target.guard(OSError):
        pytest.fail("not called")
    assert caught.value.retry_after == 5
