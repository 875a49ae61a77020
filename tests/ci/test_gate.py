"""The order of a run of the gate, and what makes it red; suites are played, but where signals matter."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ci import catalogue, stage, table
from ci.change import Change
from ci.gate import Gate
from ci.record import Result
from ci.runner import Runner

ROOT = Path(__file__).parents[2]
OURS = catalogue.parse("""
suites:
  check: {title: t, command: make check, minutes: 1, fixed: true}
  test: {title: t, command: make test, minutes: 20, fixed: true}
  pure: {title: t, command: make pure, minutes: 5}
  slurm: {title: t, command: make slurm, minutes: 30, host: shared}
  nodes: {title: t, command: make nodes, minutes: 8, host: own}
  hours: {title: t, command: make hours, minutes: 100}
  bench: {title: t, command: make bench, minutes: 1, quiet: true}
folders:
  docs/**: []
  syncer/**: [pure, nodes]
  controller/**: [slurm, nodes, pure, hours]
""")
SYNCER = ("syncer/a.py",)
MUCH = ("controller/a.py",)


@dataclass
class Played:
    """In place of the processes that a run starts: each takes its time at once."""

    monkeypatch: pytest.MonkeyPatch
    results: dict[str, Result]
    minutes: dict[str, float]
    started: list[str] = field(default_factory=list)
    now: float = 0.0

    def run(self, command: tuple[str, ...], *, seconds: float | None = None, **_: object) -> stage.Ended:
        name = command[-1]
        self.started.append(name)
        takes = self.minutes.get(name, 1.0) * 60
        if seconds is not None and takes > seconds:
            self.now += seconds
            return stage.Ended(Result.STOPPED, seconds)
        self.now += takes
        return stage.Ended(self.results.get(name, Result.PASSED), takes)


def play(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: tuple[str, ...] | None = SYNCER,
    *,
    everything: bool = False,
    failed: tuple[str, ...] = (),
    **minutes: float,
) -> tuple[Gate, Played, bool]:
    played = Played(
        monkeypatch, dict.fromkeys(failed, Result.FAILED), {"test": 20, "pure": 5, "slurm": 30, "nodes": 8} | minutes
    )
    monkeypatch.setattr(stage, "run", played.run)
    monkeypatch.setattr("ci.runner.time.monotonic", lambda: played.now)
    gate = Gate(
        OURS, Change("c", dirty=False, files=files, why="w"), Runner("c", False, path / "suites.json", began=0.0), everything
    )
    return gate, played, gate.run()


def test_the_fixed_part_comes_first_and_then_what_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, played, green = play(tmp_path, monkeypatch)
    assert green
    assert played.started[:2] == ["check", "test"]
    assert {*played.started[2:]} == {"pure", "nodes", "down"}
    assert gate.reasons == {"slurm": "not touched", "hours": "not touched", "bench": "wants a quiet machine"}


def test_pages_alone_need_the_fixed_part_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, played, green = play(tmp_path, monkeypatch, ("docs/a.md",))
    assert (green, played.started) == (True, ["check", "test"])


def test_a_failure_of_the_fixed_part_ends_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gate, played, green = play(tmp_path, monkeypatch, failed=("check",))
    assert (green, played.started) == (False, ["check"])
    gate.runner.environment["BULKHEAD_FLAKES"] = str(tmp_path / "none")
    gate.report()
    _, _, left_out = capsys.readouterr().out.partition("not run:\n")
    assert [line.split()[0] for line in left_out.splitlines()] == ["test", "pure", "slurm", "nodes", "hours", "bench"]
    assert "check did not pass" in left_out


@pytest.mark.parametrize(("counted", "told"), [("", []), ("tests/a.py::test_b\n", ["tests/a.py::test_b"])])
def test_flaky_tests_are_named_where_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], counted: str, told: list[str]
) -> None:
    gate, _, _ = play(tmp_path, monkeypatch)
    (tmp_path / "flakes").write_text(counted)
    gate.runner.environment["BULKHEAD_FLAKES"] = str(tmp_path / "flakes")
    gate.report()
    lines = capsys.readouterr().out.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("FLAKY")]
    assert [lines[number + 1].strip() for number in heads] == told


def test_a_failure_of_a_touched_suite_is_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, green = play(tmp_path, monkeypatch, failed=("nodes",))
    assert not green


def test_what_does_not_fit_is_left_out_with_the_reason_and_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, played, green = play(tmp_path, monkeypatch, MUCH, test=28)
    assert green
    assert "hours" not in played.started
    assert gate.reasons["hours"].startswith("takes 100 min 00 s, ")
    assert len(gate.reasons) > 1 or "slurm" in played.started


def test_one_that_runs_at_the_hard_stop_is_ended_and_named_and_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, played, green = play(tmp_path, monkeypatch, pure=200, nodes=200)
    assert green
    assert played.now == 75 * 60
    (ended,) = (name for name, result in gate.runner.results.items() if result is Result.STOPPED)
    assert gate.reasons[ended] == "ended at the hard stop, after 75 minutes"


def test_a_fixed_part_that_is_not_over_at_the_hard_stop_is_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, _, green = play(tmp_path, monkeypatch, test=76)
    assert not green
    assert gate.runner.results["test"] is Result.STOPPED


def test_all_means_all_without_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, played, green = play(tmp_path, monkeypatch, everything=True, hours=100)
    assert green
    assert [name for name in played.started if name != "down"] == ["check", "test", "pure", "hours", "bench", "slurm", "nodes"]


def test_without_a_base_all_that_fits_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, played, green = play(tmp_path, monkeypatch, None, test=2)
    assert green
    assert {"pure", "slurm", "nodes"} <= set(played.started)
    assert set(gate.reasons) == {"hours", "bench"}


def test_what_was_not_run_is_printed_with_its_command() -> None:
    text = table.not_run([OURS.others[1]], {"slurm": "not touched"})
    assert text.splitlines() == ["not run:", "  slurm  not touched  make slurm"]


# The gate itself, with suites and a `make down` that leave traces.
WHOLE = """
import sys
from pathlib import Path
from ci import catalogue, gate, runner
gate.os.geteuid = lambda: 0
runner.DOWN = (sys.executable, "-c", "print('DOWN IS RUN')")
text = '''
suites:
  short: {title: t, command: "true", minutes: 1, fixed: true}
  long: {title: t, command: "SECOND", minutes: 1, fixed: true}
folders: {".": []}
'''
sys.exit(gate.main(catalogue.parse(text.replace("SECOND", sys.argv[1])), Path(sys.argv[2])))
"""


def whole(tmp_path: Path, second: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path), "CI": "true"}
    command = [sys.executable, "-u", "-c", WHOLE, second, str(ROOT)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize(("second", "status"), [("true", 0), ("false", 1)])
def test_the_host_goes_down_at_the_end(tmp_path: Path, second: str, status: int) -> None:
    with whole(tmp_path, second) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == status
    assert output.count("DOWN IS RUN") == 1
    assert f"with status {status}" in output.splitlines()[-1]


def test_what_was_flaky_in_any_suite_is_said_again_at_the_end(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    suite.write_text('#!/bin/sh\necho "tests/a.py::test_b[x y]" >> "$BULKHEAD_FLAKES"\n')
    suite.chmod(0o755)
    with whole(tmp_path, str(suite)) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "  tests/a.py::test_b[x y]\n" in output.partition("FLAKY")[2]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_and_the_host_goes_down_all_the_same(tmp_path: Path, number: signal.Signals, status: int) -> None:
    with whole(tmp_path, "sleep 60") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("=== long"):
                break
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == status
    assert output.count("DOWN IS RUN") == 1
    assert "long  the run was ended before  sleep 60" in output


def test_the_shell_makes_the_environment_and_gives_way_to_the_gate(tmp_path: Path) -> None:
    """`exec`: a signal to `.ci/run` reaches who can end what runs."""
    for name, text in {"make": 'echo "make $*"', "venv/bin/python": 'echo "python $* in $PWD, same process: $$"'}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "VENV": str(tmp_path / "venv")}
    with subprocess.Popen(["bash", ROOT / ".ci/run"], env=environment, stdout=subprocess.PIPE, text=True) as process:
        output, _ = process.communicate(timeout=60)
    assert output.splitlines() == [
        "make --no-print-directory venv",
        f"python -u -m ci gate in {ROOT}, same process: {process.pid}",
    ]
