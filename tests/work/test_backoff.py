"""Delays by their laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.work.backoff import Backoff, PerKeyBackoff, delay_after


@given(st.floats(0.001, 10), st.floats(10, 100), st.floats(1, 4), st.integers(0, 10_000))
def test_delays_grow_to_the_maximum_and_stay(initial: float, maximum: float, factor: float, failures: int) -> None:
    delay = delay_after(failures, initial, maximum, factor)
    assert initial <= delay <= maximum
    assert delay <= delay_after(failures + 1, initial, maximum, factor)


@given(st.floats(0, 1), st.integers(1, 50))
def test_jitter_only_takes_off(jitter: float, count: int) -> None:
    backoff = Backoff(1, 8, jitter=jitter)
    for number in range(count):
        full = delay_after(number, 1, 8, 2)
        assert full * (1 - jitter) - 1e-9 <= backoff.next() <= full + 1e-9


def test_success_starts_over() -> None:
    backoff = Backoff(1, 8, jitter=0)
    assert [backoff.next() for _ in range(5)] == [1, 2, 4, 8, 8]
    backoff.reset()
    assert backoff.next() == 1


def test_keys_fail_on_their_own() -> None:
    backoff: PerKeyBackoff[str] = PerKeyBackoff(1, 8, jitter=0)
    assert [backoff.next("a"), backoff.next("a"), backoff.next("b")] == [1, 2, 1]
    backoff.forget("a")
    assert (backoff.next("a"), backoff.failures("b"), backoff.failures("c")) == (1, 1, 0)


def test_those_that_fail_are_known() -> None:
    backoff: PerKeyBackoff[str] = PerKeyBackoff()
    for key in ("a", "b", "c"):
        backoff.next(key)
    backoff.forget("b")
    assert backoff.failing() == ("a", "c")


def test_memory_is_bounded() -> None:
    backoff: PerKeyBackoff[int] = PerKeyBackoff(1, 8, jitter=0, max_keys=3)
    for key in (1, 2, 3, 1, 4):
        backoff.next(key)
    assert len(backoff) == 3
    assert [backoff.failures(key) for key in (1, 2, 3, 4)] == [2, 0, 1, 1]


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="backoff"):
        Backoff(10, 1)
