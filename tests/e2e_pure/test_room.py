"""How long a span without a fault is measured, and when it ends early."""

import time

import pytest

from e2e import machine
from e2e.chaos import room
from e2e.machine import CoreSeconds


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The spans that were slept, on a machine of one core that is idle for half of each, and for none of the third."""
    slept: list[float] = []
    clock = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    def now(_: object = None) -> CoreSeconds:
        return CoreSeconds(clock[0], sum(0.0 if number == 2 else span / 2 for number, span in enumerate(slept)), 0.0)

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(machine.CoreSeconds, "now", now)
    return slept


def test_a_baseline_is_of_spans_without_a_pause_that_each_begin_with_pods(spans: list[float]) -> None:
    begun: list[int] = []
    found = room.measure(10.0, 4, lambda: begun.append(len(spans)))
    assert (spans, begun) == ([10.0] * 4, [0, 1, 2, 3])
    assert (found.begin, found.end, found.busy, found.idle_cores) == (0.0, 40.0, 0.625, 0.375)


def test_a_baseline_of_a_machine_without_room_ends_after_the_span_that_shows_it(spans: list[float]) -> None:
    """Ten tenants were measured for two and three minutes before the load became slower."""
    found = room.measure(10.0, 5, goes_on=lambda busy: room.enough(busy, 2))
    assert (len(spans), found.busy > room.MOST_BUSY) == (3, True)
    spans.clear()
    assert room.measure(10.0, 5, goes_on=lambda busy: room.enough(busy, room.MOST_SLOWER)).busy > 0
    assert len(spans) == 5, "as slow as it may become: nothing else can be tried"
