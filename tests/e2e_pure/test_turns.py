"""Turns on one host: tests run beside each other, and who needs the host alone gets it, however many others come and go."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.scenarios.turns import Turns

LONG = 30.0  # what hangs fails here


class Taker:
    """Takes its turn in a thread, and says when it has it."""

    def __init__(self, folder: Path, name: str, *, alone: bool = False) -> None:
        self.told: list[str] = []
        self.waits, self.has = threading.Event(), threading.Event()
        self.turns = Turns(folder, self._note)
        self._thread = threading.Thread(target=self._take, args=(name, alone), daemon=True)
        self._thread.start()

    def _take(self, name: str, alone: bool) -> None:
        self.turns.take(name, alone=alone)
        self.has.set()

    def _note(self, text: str) -> None:
        self.told.append(text)
        self.waits.set()


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Taker]:
    taker = Taker(tmp_path, "first")
    assert taker.has.wait(LONG)
    yield taker
    taker.turns.give()


def test_what_changes_nothing_runs_beside_others(first: Taker, tmp_path: Path) -> None:
    second = Taker(tmp_path, "second")
    assert second.has.wait(LONG)
    assert second.told == []


def test_a_test_that_needs_the_host_alone_waits_for_all_says_so_and_goes_before_later_ones(
    first: Taker, tmp_path: Path
) -> None:
    alone = Taker(tmp_path, "power cut", alone=True)
    assert alone.waits.wait(LONG)
    assert "power cut: needs the host for itself" in alone.told[0]
    later = Taker(tmp_path, "later")
    assert later.waits.wait(LONG)
    assert not later.has.is_set()
    assert not alone.has.is_set()
    first.turns.give()
    assert alone.has.wait(LONG)
    assert "goes on after" in alone.told[-1]
    assert not later.has.is_set()
    alone.turns.give()
    assert later.has.wait(LONG)


def test_a_turn_is_kept_until_it_is_given(first: Taker, tmp_path: Path) -> None:
    first.turns.take("first again", alone=False)
    alone = Taker(tmp_path, "alone", alone=True)
    assert alone.waits.wait(LONG)
    first.turns.give()
    assert alone.has.wait(LONG)
    # No other test gets onto the floor.
    late = Taker(tmp_path, "late")
    assert late.waits.wait(LONG)
    assert "alone" in late.told[0]
    alone.turns.give()
    assert late.has.wait(LONG)


def test_what_a_process_that_died_said_is_forgotten(first: Taker, tmp_path: Path) -> None:
    (tmp_path / "held-by-999999999").write_text("a ghost")
    alone = Taker(tmp_path, "alone", alone=True)
    assert alone.waits.wait(LONG)
    assert "ghost" not in alone.told[0]
    first.turns.give()
    assert alone.has.wait(LONG)


def test_what_a_process_has_announced_begins_before_what_needs_the_host_alone(first: Taker, tmp_path: Path) -> None:
    first.turns.expect("the last group")
    alone = Taker(tmp_path, "power cut", alone=True)
    assert alone.waits.wait(LONG)
    assert alone.told == ["power cut: lets the last group begin first"]
    first.turns.give()
    begins = threading.Thread(target=lambda: first.turns.take("the last group", alone=False), daemon=True)
    begins.start()
    begins.join(LONG)
    assert not begins.is_alive(), "what needs the host alone has come before"
    assert not alone.has.is_set()
    first.turns.give()
    assert alone.has.wait(LONG)


def test_what_a_process_that_died_has_announced_holds_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "next-of-999999999-1").write_text("a ghost")
    alone = Taker(tmp_path, "power cut", alone=True)
    assert alone.has.wait(LONG)
    assert alone.told == []
