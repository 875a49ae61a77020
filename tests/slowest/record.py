"""A pytest plugin that writes what each test, fixture and started process cost, one line each, as the run goes on."""

import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, TextIO

import pytest

from tests.slowest import memory, speed
from tests.slowest.memory import Watch
from tests.slowest.processes import Seen, children_seconds, look
from tests.slowest.table import MAIN

FOLDER: Final = Path("build/results/tests")
# Where the record goes. A run that is not told keeps none, so that the run of another suite leaves that of the tests alone.
_TOLD_BY: Final = "BULKHEAD_TEST_RECORD"
# What started processes have cost is read from /proc, which takes longer than most tests: what was just read still counts.
_FRESH_SECONDS: Final = 0.005
_RECORDER = pytest.StashKey["Recorder"]()
_WATCH = pytest.StashKey[Watch]()
_LOOKS = pytest.StashKey[speed.Looks]()


class Recorder:
    """The open file of one process, and what has been spent so far."""

    def __init__(self, file: TextIO, worker: str) -> None:
        self.file = file
        self.worker = worker
        self.processes: dict[int, Seen] = {}
        self.phases: dict[str, tuple[float, float, float]] = {}
        self._children = (0.0, 0.0)  # when they were read, and their seconds
        self._inner: list[float] = []  # seconds of fixtures that were set up within the one that is being set up

    def write(self, **line: Any) -> None:
        """One line; written whole or not at all, for readers of a run that was killed."""
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def now(self) -> tuple[float, float, float]:
        """Seconds of the wall, of this process, and of all that it started."""
        wall = time.perf_counter()
        if wall - self._children[0] > _FRESH_SECONDS:
            self._children = (wall, children_seconds())
        return wall, time.process_time(), self._children[1]

    def phase(self, when: str, since: tuple[float, float, float]) -> None:
        """Keep what a phase of the present test has cost."""
        self.phases[when] = tuple(b - a for a, b in zip(since, self.now(), strict=True))  # type: ignore[assignment]

    def test(self, nodeid: str) -> None:
        """Write what the present test has cost, and look at what it left running."""
        if sum(wall for wall, _, _ in self.phases.values()) > _FRESH_SECONDS:
            self.processes = look(self.processes, nodeid)
        cost = {when: [round(part, 4) for part in parts] for when, parts in self.phases.items()}
        self.write(test=nodeid, at=round(time.time(), 2), **cost)
        self.phases = {}

    def begin_fixture(self) -> float:
        """Remember when a fixture's set-up began."""
        self._inner.append(0.0)
        return time.perf_counter()

    def end_fixture(self, name: str, scope: str, since: float) -> None:
        """Write what the set-up of a fixture has cost, without those within."""
        whole = time.perf_counter() - since
        own = whole - self._inner.pop()
        if self._inner:
            self._inner[-1] += whole
        if own > 0.001:
            self.write(fixture=name, scope=scope, seconds=round(own, 4))

    def begin(self) -> None:
        """Write when this process began."""
        self.write(begun=time.time(), worker=self.worker)

    def close(self) -> None:
        """Write when this process ended, and what the processes that it started have cost; close the file."""
        self.write(ended=time.time(), worker=self.worker)
        self.processes = look(self.processes, "")
        for seen in self.processes.values():
            self.write(process=seen.name, cpu=round(seen.seconds, 2), peak_mib=seen.peak_mib, first=seen.first)
        self.file.close()


def pytest_configure(config: pytest.Config) -> None:
    """Begin the record of a process; the one that hands out tests to others clears the former run's."""
    told = os.environ.get(_TOLD_BY, "")
    if not told or config.option.collectonly or config.option.help:
        return
    folder = Path(told)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    folder.mkdir(parents=True, exist_ok=True)
    if not worker:
        for path in folder.glob("*.jsonl"):
            path.unlink()
    name = worker or MAIN
    config.stash[_RECORDER] = Recorder((folder / f"{name}.jsonl").open("w"), name)
    config.stash[_RECORDER].begin()
    # Only beside workers: a process that runs tests starts others, and has no thread when it forks.
    if config.getoption("numprocesses", None) and not worker:
        config.stash[_WATCH] = Watch().start()
        config.stash[_LOOKS] = speed.Looks().start()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say and write how much memory the run has held, and how fast the machine was."""
    if _WATCH in config.stash:
        most, looked = config.stash[_WATCH].stop(), config.stash[_LOOKS].stop()
        config.stash[_RECORDER].write(memory=most.programs)
        config.stash[_RECORDER].write(speed=looked.looks)
        terminalreporter.write_line(memory.sentence(most))
        terminalreporter.write_line(speed.sentence(looked))


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the record."""
    recorder = config.stash.get(_RECORDER, None)
    if recorder is not None:
        recorder.close()


def _timed(item: pytest.Item, when: str) -> Generator[None, Any, Any]:
    recorder = item.config.stash.get(_RECORDER, None)
    if recorder is None:
        return (yield)
    since = recorder.now()
    try:
        return (yield)
    finally:
        recorder.phase(when, since)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Time the set-up."""
    return (yield from _timed(item, "setup"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Time the test itself."""
    return (yield from _timed(item, "call"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Time the teardown."""
    return (yield from _timed(item, "teardown"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Write the test's line at its end."""
    try:
        return (yield)
    finally:
        recorder = item.config.stash.get(_RECORDER, None)
        if recorder is not None:
            recorder.test(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
    """Time what each fixture adds."""
    recorder = request.config.stash.get(_RECORDER, None)
    if recorder is None:
        return (yield)
    since = recorder.begin_fixture()
    try:
        return (yield)
    finally:
        recorder.end_fixture(fixturedef.argname, fixturedef.scope, since)
