"""The plugin in whole runs of pytest, beside xdist and without: a race is forgiven, and nothing else is."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.gate
ROOT = Path(__file__).parents[2]
XDIST = ("-p", "xdist.plugin", "-n", "1", "--dist", "loadfile")
TWO = ("-p", "xdist.plugin", "-n", "2", "--dist", "loadfile")  # xdist waits for ever where the only worker dies

GOOD = "def test_good(): pass\n"
BUG = "def test_bug(): assert 1 == 2\n"
# It loses its race once: what it meets the second time is what it would have met without others beside it.
RACE = """
import pathlib, pytest
@pytest.mark.parametrize("number", range({count}))
def test_race(number):
    raced = pathlib.Path(f"raced-{{number}}")
    if not raced.exists():
        raced.touch()
        raise AssertionError("the first of two lost")
    print("nobody was in the way")
"""
MANY = """
import pytest
@pytest.mark.parametrize("number", range(11))
def test_bug(number): assert 1 == 2
"""
SLOW_FIXTURE = """
import pathlib, pytest
@pytest.fixture
def prepared():
    raced = pathlib.Path("raced")
    if not raced.exists():
        raced.touch()
        raise RuntimeError("not yet there")
def test_prepared(prepared): pass
"""
SESSION = """
import pathlib, pytest
@pytest.fixture(scope="session")
def server():
    yield
    assert pathlib.Path("gone").exists()
def test_last(server): pass
"""
DIES = """
import os, pathlib
def test_dies():
    raced = pathlib.Path("raced")
    if not raced.exists():
        raced.touch()
        os._exit(3)
"""
SKIPS = """
import pathlib, pytest
def test_skips():
    raced = pathlib.Path("raced")
    if raced.exists():
        pytest.skip("not here")
    raced.touch()
    raise AssertionError("once")
"""


@dataclass(frozen=True)
class Ran:
    status: int
    output: str

    @property
    def closing(self) -> str:
        return self.output.rstrip().splitlines()[-1]


def ran(folder: Path, *options: str, listed: str = "", counted: Path | None = None, **files: str) -> Ran:
    """One run of pytest over these files."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "tests").mkdir()
    (folder / "tests/flaky.yaml").write_text(listed)
    for name, text in files.items():
        (folder / f"tests/{name}.py").write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "BULKHEAD_FLAKES"))}
    environment |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment |= {"BULKHEAD_FLAKES": str(counted)} if counted else {}
    # Two runs of pytest may be one second's, and a cached file of the first would be taken for the second's.
    command = [sys.executable, "-B", "-m", "pytest", "-p", "ci.flakes", *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)
    return Ran(done.returncode, done.stdout + done.stderr)


@pytest.fixture(params=[(), XDIST], ids=["in one process", "with xdist"])
def beside(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return request.param


def test_a_race_is_green_and_flaky(tmp_path: Path, beside: tuple[str, ...]) -> None:
    run = ran(tmp_path, *beside, test_a=GOOD, test_b=RACE.format(count=1))
    assert run.status == 0, run.output
    assert "FLAKY tests/test_b.py::test_race[0]" in run.output
    assert "the first of two lost" in run.output
    assert "1 passed in" in run.output.partition("alone it passed")[2]
    assert "1 passed, 1 flaky in" in run.closing
    (line,) = (line for line in run.output.splitlines() if line.startswith("- {"))
    (entry,) = yaml.safe_load(line)
    assert entry["test"] == "tests/test_b.py::test_race"
    assert set(entry) == {"date", "test", "cause"}


def test_a_race_of_a_fixture_is_one_too(tmp_path: Path) -> None:
    run = ran(tmp_path, test_a=SLOW_FIXTURE)
    assert run.status == 0, run.output
    assert "1 flaky in" in run.closing


def test_a_bug_is_red(tmp_path: Path, beside: tuple[str, ...]) -> None:
    run = ran(tmp_path, *beside, test_a=GOOD, test_b=BUG, test_c=RACE.format(count=1))
    assert run.status == 1
    assert "FAILED TWICE tests/test_b.py::test_bug" in run.output
    assert "1 failed, 1 passed, 1 flaky in" in run.closing


def test_two_flakes_are_forgiven_and_three_are_not(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    assert ran(tmp_path / "two", test_a=RACE.format(count=2)).status == 0
    (tmp_path / "three").mkdir()
    run = ran(tmp_path / "three", test_a=RACE.format(count=3))
    assert run.status == 1
    assert "RED: 3 flaky tests in one run" in run.output
    assert "3 failed in" in run.closing


def test_flakes_of_the_gates_other_suites_count_too(tmp_path: Path) -> None:
    counted = tmp_path / "flakes"
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
    runs = [ran(folder, counted=counted, test_a=RACE.format(count=1)) for folder in folders]
    assert [run.status for run in runs] == [0, 0, 1]


def test_one_that_is_listed_is_red(tmp_path: Path) -> None:
    listed = "- {date: 2026-01-01, test: 'tests/test_a.py::test_race', cause: two of one name}\n"
    run = ran(tmp_path, listed=listed, test_a=RACE.format(count=1))
    assert run.status == 1
    assert "is in the list of flaky tests already" in run.output
    assert "1 failed in" in run.closing


def test_a_second_run_that_skips_it_shows_nothing(tmp_path: Path) -> None:
    run = ran(tmp_path, test_a=SKIPS)
    assert run.status == 1
    assert "FAILED TWICE" in run.output


NOTHING_ELSE = {
    "a worker that died": ({"test_a": DIES}, TWO, "its process died in tests/test_a.py::test_dies"),
    "the end of a session": ({"test_a": SESSION}, (), "fixtures of the session could not be removed"),
    "the end of a worker's session": ({"test_a": SESSION}, XDIST, "fixtures of the session could not be removed"),
    "a collection": (
        {"test_a": "import nothing_of_this_name\n"},
        ("--continue-on-collection-errors",),
        "tests/test_a.py could not be collected",
    ),
    "a run that was cut short": ({}, ("-x",), "the run ended before its end"),
    "very many": ({"test_a": MANY}, (), "12 tests failed, more than 10"),
}


@pytest.mark.parametrize(("files", "options", "why"), NOTHING_ELSE.values(), ids=NOTHING_ELSE)
def test_nothing_else_is_forgiven(tmp_path: Path, files: dict[str, str], options: tuple[str, ...], why: str) -> None:
    run = ran(tmp_path, *options, **files, test_z=RACE.format(count=1))
    assert run.status == 1, run.output
    assert why in run.output
    assert "runs again" not in run.output
    assert "FLAKY" not in run.output


def test_without_the_plugin_a_race_is_red(tmp_path: Path) -> None:
    assert ran(tmp_path, "-p", "no:ci.flakes", test_a=RACE.format(count=1)).status == 1
