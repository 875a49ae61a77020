"""How long a chaos run is observed: as long as its runner lives, and a run without an observer is not judged."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from e2e import poll
from e2e.chaos import room, runner, speed
from e2e.chaos.__main__ import parser, plan_of
from e2e.chaos.history import Quiet, Speed, from_lines
from e2e.chaos.pace import SHORT_PACE, Pace, probe_period
from e2e.chaos.recorder import Recorder
from e2e.chaos.schedule import Turn

RECORD = Quiet(1.0, "red", "flood", 2.0, 5.0, ())
# A runner that says the process ID of its recorder, and waits.
RUNNER = """
import os, subprocess, sys
child = "import os, sys; from e2e.chaos.recorder import *; Recorder(Path(sys.argv[1])).write(os.getppid())"
print(subprocess.Popen([sys.executable, "-c", child, sys.argv[1]]).pid, flush=True)
sys.stdin.readline()
"""


def test_a_recorder_writes_what_it_has_and_ends_when_it_is_stopped(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "records")
    recorder.add(RECORD)
    recorder.stop.set()
    recorder.write(os.getppid())
    assert list(from_lines((tmp_path / "records").open())) == [RECORD]


def test_a_recorder_ends_with_its_runner_however_long_that_lives(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUNNER, str(tmp_path / "records")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        recorder = Path("/proc", made.stdout.readline().strip())
        _until("the recorder to record", (tmp_path / "records").exists)
        assert _runs(recorder)
        made.kill()
    _until("the recorder to end", lambda: not _runs(recorder))


def _until(what: str, is_so: Callable[[], bool]) -> None:
    def probe() -> None:
        if not is_so():
            raise poll.NotYetError(what)

    poll.until(what, probe, seconds=30)


def _runs(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("code", [0, 1])
def test_a_run_whose_recorder_has_ended_is_not_judged(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """What was not observed has not held."""

    class Ended:
        def poll(self) -> int:
            return code

    plan = plan_of(parser().parse_args(["flood"]), "it", lambda _: None)
    begun: list[Turn] = []
    made = runner.Runner(cast("Any", None), lambda _: None)
    made._recorders = {"observer": cast("Any", Ended())}
    made._all(plan, {}, begun)
    assert begun == []
    assert made.failed == "ended before flood began: observer"


def rhythm(
    monkeypatch: pytest.MonkeyPatch,
    looks: Iterator[float],
    pace: Pace = Pace(settle=0.0, baseline=25.0),  # noqa: B008 -- frozen
    loads: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[list[str], runner.Runner]:
    """How the recorders of a run were started on a machine that is so busy at each look."""
    started: list[str] = []

    def start(command: list[str]) -> Any:
        started.append(command[command.index("--period") + 1])

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(runner, "_end", lambda _: 0)
    monkeypatch.setattr(speed, "cpu_seconds", lambda: 0.04)

    # The machine is calm at first. Whether a baseline follows a look, and how busy the machine is in it, `busy` says in turn.
    def measure(
        _: float, times: int = 1, begin_one: Callable[[], None] = lambda: None, goes_on: Callable[[float], bool] | None = None
    ) -> room.Baseline:
        for _number in range(times):
            begin_one()
        return room.Baseline("", 0.0, 1.0, 1.0, next(looks))

    monkeypatch.setattr(room, "measure", measure)
    made = runner.Runner(cast("Any", None), lambda _: None, pace)
    made._loads = dict(loads)
    made._with_room({"red": cast("Any", SimpleNamespace(kubeconfig="red"))})
    return started, made


@pytest.mark.parametrize(
    ("busy", "periods", "slower"),
    [
        ([0.1, 0.3, 0.3], ["0.1"], 1),
        ([0.1, 0.6, 0.6], ["0.1"], 1),
        ([0.1, 0.7, 0.4, 0.4], ["0.1", "0.2"], 2),
        ([0.1, 0.5, 0.7, 0.4, 0.4], ["0.1", "0.2"], 2),  # the look saw less than the baseline
        ([0.1, 0.7, 0.65, 0.5, 0.5], ["0.1", "0.2", "0.3"], 3),
        ([0.1, *[0.9] * 7], ["0.1", "0.2", "0.3", "0.4", "0.5", "0.5"], 8),
    ],
)
def test_load_and_probes_are_as_slow_as_the_machine_needs_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, busy: list[float], periods: list[str], slower: int
) -> None:
    monkeypatch.chdir(tmp_path)
    left = iter(busy)
    started, made = rhythm(monkeypatch, left)
    assert started[::2] == periods
    assert made._slower == slower
    assert list(left) == []
    looks = [record.experiment for record in made.records if isinstance(record, Speed)]
    assert looks
    assert not any(looks), "they are of the baseline"


def test_pods_come_and_go_in_the_baseline_as_in_an_experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ten pods in eight seconds, by limits of a minute in which none started, made 23 of 63 experiments fail."""
    monkeypatch.chdir(tmp_path)
    asked: list[list[float]] = []

    @dataclass
    class Noting:
        slower: int = 1

        def start(self) -> None:
            asked.append([])

        def turn_within(self, seconds: float) -> None:
            asked[-1].append(seconds)

    pace = Pace(settle=0.0, baseline=12.0, least_span=11.0)
    _, made = rhythm(monkeypatch, iter([0.1, 0.7, 0.4, 0.4]), pace, {"red": Noting(), "blue": Noting()})
    # Twice as slow: eleven seconds became twenty-two, of which the last three are for the last pod.
    once = [0.0, 9.5]
    rounds = pace.rounds(2, 2)
    assert asked == [[], once * rounds]
    made._turns()
    assert asked == [[], once * (rounds + 1)]
    assert [pace.stretched(pace.least_span, slower) for slower in (1, 2, 8)] == [11.0, 22.0, 44.0]


@pytest.mark.parametrize("pace", [Pace(), SHORT_PACE])
@pytest.mark.parametrize("tenants", [2, 4, 5, 10])
@pytest.mark.parametrize("slower", [1, 2, 3, 4, 6, 8])
def test_the_p99_of_a_baseline_is_not_the_slowest_of_a_hundred_requests(pace: Pace, tenants: int, slower: int) -> None:
    seconds = pace.rounds(tenants, slower) * pace.stretched(pace.baseline, slower)
    assert 300 <= seconds / probe_period(tenants, slower) <= 600
    assert seconds <= 200
