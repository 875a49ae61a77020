"""What a pipeline reads of a run: a reader that has gone, and a disk that is full. No server."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.chaosrun.test_report import HELD, PLAN, outcome
from workstation.chaos.plan import Refused
from workstation.chaos.report import Report
from workstation.cli import main
from workstation.cli.chaos import running
from workstation.cli.output import Progress

VIOLATED: Final = Report(PLAN, (outcome("plane-deleted", missing="no pod"),), 1.0, left=("Tenant chaos-0a1b2c-1: no",))
GOOD: Final = Report(PLAN, (HELD,), 1.0)
# A command whose run says what it does, as a real one, and ends with one of the reports of this module.
_PROGRAM: Final = """
import sys
from tests.chaosrun import test_readers
from workstation.cli import main
from workstation.cli.chaos import running
from workstation.cli.output import Progress

async def run(request, begins):
    with Progress() as progress:
        for number in range(3):
            progress.show(f"step {number}")
    return getattr(test_readers, sys.argv[1])

running._run = run
sys.exit(main.main(["chaos", "run", "--experiment", "webhook-fails", "--yes", *sys.argv[2:]]))
"""


def command(*words: str, out: str = "", err: str = "") -> subprocess.CompletedProcess[str]:
    """Run it with stdout and stderr kept, or sent to what a shell would write after `>`, or to a pipe without a reader."""

    def stream(to: str) -> int:
        if to == "gone":
            reading, writing = os.pipe()
            os.close(reading)
            return writing
        return os.open(to, os.O_WRONLY) if to else subprocess.PIPE

    words = (sys.executable, "-c", _PROGRAM, *words)
    return subprocess.run(words, stdout=stream(out), stderr=stream(err), text=True, check=False, timeout=120)


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize(("report", "code"), [("VIOLATED", 1), ("GOOD", 0)])
def test_a_reader_that_has_gone_changes_no_exit_code(report: str, code: int, form: str) -> None:
    """`bulkhead chaos run … 2>&1 | head` in a shell with `pipefail`."""
    for streams in ({"out": "gone"}, {"err": "gone"}, {"out": "gone", "err": "gone"}):
        assert command(report, "-o", form, **streams).returncode == code, streams


def test_progress_that_no_process_reads_ends_no_run() -> None:
    """It would end what undoes the run, too."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        progress = Progress(stream)
        progress.show("heard")
        os.close(reading)
        for text in ("unheard", "unheard, too"):
            progress.show(text)


def test_what_is_left_is_said_when_the_result_has_no_reader() -> None:
    done = command("VIOLATED", out="gone")
    assert "warning: not undone: Tenant chaos-0a1b2c-1: no\nnext:  bulkhead chaos stop\n" in done.stderr


def test_a_report_for_a_full_disk_costs_the_report_alone() -> None:
    done = command("GOOD", "--junit", "/dev/full")
    assert (done.returncode, "1 held" in done.stdout) == (1, True), done
    assert done.stderr.endswith("error: --junit /dev/full: cannot be written: No space left on device\n")


def test_a_run_without_a_report_leaves_none_of_an_earlier_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline would publish the results of last month."""

    async def refused(*_: object) -> Report:
        raise Refused("an earlier run is not undone", "")

    monkeypatch.setattr(running, "_run", refused)
    path = tmp_path / "chaos.xml"
    path.write_text("<testsuite/>")
    words = ["chaos", "run", "--experiment", "webhook-fails", "--junit", str(path)]
    assert main.main([*words, "--yes"]) == 2
    assert path.read_text() == ""


def test_a_report_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_run", None)
    path = tmp_path / "chaos.xml"
    path.symlink_to(tmp_path / "absent" / "chaos.xml")
    assert main.main(["chaos", "run", "--experiment", "webhook-fails", "--yes", "--junit", str(path)]) == 1


_CLOSED: Final = """
import asyncio, os, signal, sys
from workstation.cli.chaos.running import _guarded

async def call():
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.2)
    except asyncio.CancelledError:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.2)
        print("undid")
        raise

# What started the tests may ignore the signal, and a child inherits that.
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1:] else signal.SIG_DFL)
try:
    asyncio.run(_guarded(call))
    print("went on")
except KeyboardInterrupt:
    print("ended")
"""


@pytest.mark.parametrize(("words", "printed"), [((), "undid\nended\n"), (("nohup",), "went on\n")])
def test_a_terminal_that_is_closed_ends_a_run_as_ctrl_c_does(words: tuple[str, ...], printed: str) -> None:
    """A lost ssh connection left the fault in place until `chaos stop`; what `nohup` started goes on."""
    done = subprocess.run([sys.executable, "-c", _CLOSED, *words], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


def test_the_pipeline_of_the_page_has_the_exit_code_of_its_run_and_stops_it(tmp_path: Path) -> None:
    """With `chaos stop` as its last line, a run that was VIOLATED passed, and in a shell with `-e` nothing was stopped."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "chaos.md").read_text()
    (script,) = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "--junit" in block]
    command = tmp_path / "bulkhead"
    command.write_text(f'#!/bin/sh\necho "$2" >> {tmp_path}/called\ntest "$2" = stop\n')
    command.chmod(0o755)
    for shell in (["sh", "-c"], ["sh", "-ec"], ["bash", "-eo", "pipefail", "-c"]):
        done = subprocess.run([*shell, script], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False, timeout=60)
        assert done.returncode == 1
    assert (tmp_path / "called").read_text().split() == ["run", "stop"] * 3
