"""What is remembered of suites on a machine."""

from pathlib import Path

import pytest

from ci import record, table
from ci.catalogue import Suite
from ci.record import Result, Run

PASSED = Run(Result.PASSED, "abc", changed=False, seconds=61.0, ended="2026-01-01T00:00:00+00:00")
STOPPED = Run(Result.STOPPED, "def", changed=True, seconds=600.0, ended="2026-01-02T00:00:00+00:00")


def test_what_is_noted_is_read_and_the_last_that_passed_stays(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "suites.json"
    record.add(path, "slurm", PASSED)
    written = record.add(path, "slurm", STOPPED)
    assert record.load(path) == written
    assert (written["slurm"].last, written["slurm"].passed) == (STOPPED, PASSED)
    assert written["slurm"].finished == PASSED.ended


@pytest.mark.parametrize("text", ["", "{", "[]", '{"slurm": {"last": {}}}', '{"slurm": 3}'])
def test_what_cannot_be_read_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "suites.json"
    path.write_text(text)
    assert record.load(path) == {}
    assert set(record.add(path, "slurm", PASSED)) == {"slurm"}


def test_the_table_has_a_line_a_suite() -> None:
    suites = [Suite(name, "t", ("make", name), 1) for name in ("slurm", "nodes")]
    head, slurm, nodes = table.summary(suites, {"slurm": record.Past(STOPPED, PASSED)}, {"nodes": "needs root"}).splitlines()
    assert head.split() == ["suite", "last", "result", "commit", "ended", "(UTC)", "took"]
    assert slurm.split() == ["slurm", "stopped", "def+", "2026-01-02T00:00", "10", "min", "00", "s"]
    assert nodes.split() == ["nodes", "never", "run", "needs", "root"]
