"""The processes of a run come from one that has imported its tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate
ROOT = Path(__file__).parent.parent
HOOK = """
from tests.kit.workers import fork_workers
def pytest_xdist_setupnodes(config, specs): fork_workers(config, specs)
"""
WRITES = """
import os, pathlib, pytest
IMPORTED_IN = os.getpid()
@pytest.mark.parametrize("number", (each for each in range(3)))
def test_where(number):
    worker = os.environ["PYTEST_XDIST_WORKER"]
    pathlib.Path(f"{__name__}-{number}").write_text(f"{IMPORTED_IN} {os.getppid()} {os.getpid()} {worker}")
"""
DIES = """
import os, signal
def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
"""


def run(folder: Path, *options: str, **files: str) -> tuple[int, str]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider"]
    command += ["-c", os.devnull, "--rootdir", ".", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(ROOT)
    ran = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=120)
    return ran.returncode, ran.stdout + ran.stderr


def test_modules_are_imported_once_and_run_in_several_processes(tmp_path: Path) -> None:
    code, output = run(tmp_path, conftest=HOOK, test_a=WRITES, test_b=WRITES)
    assert code == 0, output
    told = [path.read_text().split() for path in tmp_path.glob("test_?-*")]
    assert len(told) == 6  # the parameters of a generator, which each worker draws for itself
    assert {imported for imported, *_ in told} == {parent for _, parent, *_ in told}
    assert len({imported for imported, *_ in told}) == 1
    assert {worker for *_, worker in told} == {"gw0", "gw1"}
    assert len({pid for _, _, pid, _ in told}) == 2


def test_a_module_that_cannot_be_imported_is_reported(tmp_path: Path) -> None:
    code, output = run(tmp_path, conftest=HOOK, test_a=WRITES, test_b="raise RuntimeError('broken here')")
    assert code != 0
    assert "broken here" in output
    assert "ERROR test_b.py" in output


def test_a_worker_that_dies_is_reported(tmp_path: Path) -> None:
    # Without a restart: xdist waits for ever where nothing is left for the new worker.
    code, output = run(tmp_path, "--max-worker-restart=0", conftest=HOOK, test_a=DIES)
    assert code == 1, output
    assert re.search(r"worker 'gw\d' crashed while running 'test_a.py::test_dies'", output)


LESS = """
from tests.kit.reports import report_less
def pytest_sessionstart(session): report_less(session.config)
def pytest_runtest_logreport(report): print(f"REPORT {report.nodeid} {report.when} {report.outcome}")
"""
KINDS = """
import pytest
@pytest.fixture
def breaks(): raise RuntimeError("in a set-up")
@pytest.fixture
def leaves():
    yield
    raise RuntimeError("in a teardown")
def test_passes(): pass
def test_fails(): assert not "as it should"
def test_skips(): pytest.skip("for a reason")
def test_breaks(breaks): pass
def test_leaves(leaves): pass
@pytest.mark.xfail(strict=True)
def test_known(): assert False
"""


def test_of_what_passes_a_worker_reports_the_test_alone_and_all_of_what_does_not(tmp_path: Path) -> None:
    code, output = run(tmp_path, "-s", conftest=LESS, test_a=KINDS)
    assert code == 1
    assert "1 failed, 2 passed, 1 skipped, 1 xfailed, 2 errors" in output
    # What a worker prints is not seen: these are the reports that came.
    told = sorted(re.findall(r"REPORT test_a.py::(\w+ \w+ \w+)", output))
    assert told == [
        "test_breaks setup failed",
        "test_fails call failed",
        "test_known call skipped",
        "test_leaves call passed",
        "test_leaves teardown failed",
        "test_passes call passed",
        "test_skips call skipped",
    ]  # fmt: skip
