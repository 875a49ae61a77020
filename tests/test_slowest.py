"""The cost of a run is added up from its record, divided into computing and waiting."""

from pathlib import Path

import pytest

from tests.slowest.__main__ import lines
from tests.slowest.table import printed, spent

pytest_plugins = ["pytester"]

RECORD = [
    {"begun": 100.0},
    {"test": "tests/a/test_x.py::test_one", "setup": [2.0, 0.5, 1.0], "call": [1.0, 0.5, 0.0], "teardown": [0.0, 0.0, 0.0]},
    {"test": "tests/a/test_x.py::test_two", "setup": [0.0, 0.0, 0.0], "call": [4.0, 4.5, 0.0]},
    {"test": "tests/b/test_y.py::test_three", "call": [0.5, 0.1, 0.1]},
    {"fixture": "server", "scope": "session", "seconds": 1.5},
    {"fixture": "server", "scope": "session", "seconds": 0.5},
    {"process": "etcd", "cpu": 4.0, "peak_mib": 60, "first": "tests/a/test_x.py::test_one"},
    {"process": "etcd", "cpu": 2.0, "peak_mib": 80, "first": "tests/b/test_y.py::test_three"},
    {"of a later version": True},
    {"ended": 110.0},
]


def test_seconds_are_added_up_by_test_file_and_folder() -> None:
    run = spent(RECORD)
    assert (run.tests["tests/a/test_x.py::test_one"].wall, run.files["tests/a/test_x.py"].wall) == (3.0, 7.0)
    assert {name: cost.count for name, cost in run.folders.items()} == {"tests/a": 2, "tests/b": 1}
    assert (run.fixtures["server (session)"].wall, run.fixtures["server (session)"].count) == (2.0, 2)


def test_what_was_neither_computed_here_nor_by_what_was_started_was_waited_for() -> None:
    run = spent(RECORD)
    assert run.tests["tests/a/test_x.py::test_one"].waited == 1.0
    assert run.tests["tests/a/test_x.py::test_two"].waited == 0.0, "several threads compute more than a wall second each"


def test_the_widest_stand_first_and_each_kind_of_process_once() -> None:
    text = printed(spent(RECORD), rows=1)
    assert text[0].startswith("3 tests in 10 s; test-seconds 8")
    assert not any("test_one" in line for line in text), "only the slowest test is asked for"
    assert [line.split() for line in text if line.endswith("etcd")] == [["6.0", "3.0", "80", "2", "etcd"]]


def test_a_run_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / "gw0.jsonl").write_text('{"test": "tests/a.py::one", "call": [1.0, 0, 0]}\n{"test": "tests/a.py::tw')
    assert list(spent(lines(tmp_path)).tests) == ["tests/a.py::one"]


def test_a_real_run_is_recorded_with_its_fixtures_and_what_it_started(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sleeping child counts as waiting, a computing one does not; a fixture is timed without the fixture that it needs."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    monkeypatch.setenv("BULKHEAD_TEST_RECORD", "record")
    pytester.makepyfile(
        """
        import subprocess, sys, time
        import pytest

        @pytest.fixture
        def inner():
            time.sleep(0.3)

        @pytest.fixture
        def outer(inner):
            time.sleep(0.1)

        def test_sleeps(outer): subprocess.run(["sleep", "0.3"], check=True)
        def test_computes(): subprocess.run([sys.executable, "-c", "for _ in range(8_000_000): pass"], check=True)
        """
    )
    pytester.runpytest_subprocess("-p", "tests.slowest.record", "-p", "no:cacheprovider").assert_outcomes(passed=2)
    run = spent(lines(pytester.path / "record"))
    sleeps, computes = (next(cost for name, cost in run.tests.items() if name.endswith(end)) for end in ("sleeps", "computes"))
    assert sleeps.waited > 0.6
    assert computes.started > 0.1 > sleeps.started
    assert run.fixtures["inner (function)"].wall >= 0.3 > run.fixtures["outer (function)"].wall >= 0.1
