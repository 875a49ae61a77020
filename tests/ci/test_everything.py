"""`make all`: every suite once, in one table, and what is done on this commit not again."""

from pathlib import Path

import pytest

from ci import catalogue, change, everything, record, stage
from ci.change import Change
from ci.record import Result

OURS = catalogue.parse("""
suites:
  check: {title: t, command: make check, minutes: 1, fixed: true}
  some: {title: t, command: make some, minutes: 1, fixed: true, part of: whole}
  slurm: {title: t, command: make slurm, minutes: 15, host: shared}
  whole: {title: t, command: make whole, minutes: 15, quiet: true}
folders: {}
""")


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is run on a clean tree by root, `whole` failing; nothing is."""
    names: list[str] = []

    def run(command: tuple[str, ...], **_: object) -> stage.Ended:
        names.append(command[-1])
        return stage.Ended(Result.FAILED if command[-1] == "whole" else Result.PASSED, 1.0)

    monkeypatch.setattr(stage, "run", run)
    monkeypatch.setattr(change, "look", lambda _root: Change("c", dirty=False, files=None, why=""))
    monkeypatch.setattr(record, "default_path", lambda: tmp_path / "suites.json")
    monkeypatch.setattr("ci.everything.os.geteuid", lambda: 0)
    return names


def test_one_that_fails_keeps_no_other_from_its_turn(
    started: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert everything.main(OURS, tmp_path, again=False) == 1
    assert started == ["check", "whole", "slurm", "down"]
    table = [line.split()[:2] for line in capsys.readouterr().out.rpartition("suite  last result")[2].splitlines()[1:]]
    assert table == [["check", "passed"], ["whole", "failed"], ["slurm", "passed"]]


@pytest.mark.parametrize(("again", "second"), [(False, ["whole", "down"]), (True, ["check", "whole", "slurm", "down"])])
def test_a_second_run_goes_on_where_the_first_was(started: list[str], tmp_path: Path, again: bool, second: list[str]) -> None:
    everything.main(OURS, tmp_path, again=False)
    started.clear()
    everything.main(OURS, tmp_path, again=again)
    assert started == second


def test_what_needs_root_is_said_to(
    started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ci.everything.os.geteuid", lambda: 1000)
    everything.main(OURS, tmp_path, again=False)
    assert started == ["check", "whole"]
    assert capsys.readouterr().out.rstrip().endswith("not run: needs root")
