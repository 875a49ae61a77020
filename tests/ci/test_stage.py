"""How a command is ended: so that it can tidy up, and surely."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ci import stage
from ci.record import Result

# Says that it is there, and what it got: a command that removes what it made.
TIDY = """
import pathlib, time
pathlib.Path("there").touch()
try:
    time.sleep(60)
finally:
    pathlib.Path("tidied").touch()
"""
DEAF = """
import pathlib, signal, time
for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, signal.SIG_IGN)
pathlib.Path("there").touch()
time.sleep(60)
"""


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


@pytest.mark.parametrize(("text", "result"), [("", Result.PASSED), ("raise SystemExit(2)", Result.FAILED)])
def test_a_command_that_ends_by_itself(text: str, result: Result) -> None:
    assert stage.run(python(text), seconds=60).result is result


def test_the_environment_is_ours_and_what_is_added() -> None:
    text = "import os; raise SystemExit(not (os.environ['ADDED'] == 'yes' and 'PATH' in os.environ))"
    assert stage.run(python(text), environment={"ADDED": "yes"}).result is Result.PASSED


def signal_when_there(folder: Path) -> None:
    while not (folder / "there").exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("text", [TIDY, f'import subprocess, sys; subprocess.run([sys.executable, "-c", """{TIDY}"""])'])
def test_a_signal_ends_the_whole_group_gently_and_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    threading.Thread(target=signal_when_there, args=(tmp_path,)).start()
    with stage.signals_end(), pytest.raises(stage.Signalled) as told:
        stage.run(python(text))
    assert told.value.number == signal.SIGTERM
    assert (tmp_path / "tidied").exists()


def test_the_deadline_ends_it_and_says_nothing_of_what_it_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = stage.run(python(TIDY), seconds=1)
    assert ended.result is Result.STOPPED
    assert (tmp_path / "tidied").exists() is (tmp_path / "there").exists()


def test_one_that_is_deaf_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_LAST_PATIENCE", 0.1)
    with subprocess.Popen(python(DEAF), cwd=tmp_path, process_group=0) as process:
        while not (tmp_path / "there").exists():
            time.sleep(0.01)
        stage.end(process, 0.1)
        assert process.returncode == -signal.SIGKILL
