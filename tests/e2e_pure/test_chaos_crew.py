"""Many requests of one fault: all made, or an end in time; after Ctrl-C none begins."""

import threading
import time

import pytest

from e2e.chaos.faults.crew import crew, each_of


def test_what_was_made_of_each_comes_in_their_order() -> None:
    assert each_of(range(100), lambda number: number * 2, threads=4, seconds=30) == [number * 2 for number in range(100)]


def test_what_does_not_end_in_time_is_an_error_and_what_waits_does_not_begin() -> None:
    begun: list[int] = []
    go_on = threading.Event()

    def work(number: int) -> None:
        begun.append(number)
        go_on.wait(30)

    threading.Timer(0.5, go_on.set).start()
    with pytest.raises(TimeoutError):
        each_of(range(1000), work, threads=4, seconds=0.05)
    assert len(begun) <= 8


def test_after_an_interrupt_nothing_begins() -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        time.sleep(0.05)

    def interrupted() -> None:
        with crew(2) as pool:
            pool.map(work, range(1000))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(begun) <= 4
