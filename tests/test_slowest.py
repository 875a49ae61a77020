"""The cost of a run is added up from its record, divided into computing and waiting."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.order import LONGEST_FIRST
from tests.slowest.__main__ import lines
from tests.slowest.memory import Held, Watch, held, resident_bytes, tree
from tests.slowest.speed import Looks
from tests.slowest.table import printed, spent

pytest_plugins = ["pytester"]

RECORD: list[dict[str, Any]] = [
    {"begun": 100.0, "worker": "main"},
    {"test": "tests/a/test_x.py::test_one", "setup": [2.0, 0.5, 1.0], "call": [1.0, 0.5, 0.0], "teardown": [0.0, 0.0, 0.0]},
    {"test": "tests/a/test_x.py::test_two", "setup": [0.0, 0.0, 0.0], "call": [4.0, 4.5, 0.0]},
    {"test": "tests/b/test_y.py::test_three", "call": [0.5, 0.1, 0.1]},
    {"fixture": "server", "scope": "session", "seconds": 1.5},
    {"fixture": "server", "scope": "session", "seconds": 0.5},
    {"process": "etcd", "cpu": 4.0, "peak_mib": 60, "first": "tests/a/test_x.py::test_one"},
    {"process": "etcd", "cpu": 2.0, "peak_mib": 80, "first": "tests/b/test_y.py::test_three"},
    {"memory": {"etcd": [2, 90], "kube-apiserver": [2, 934]}},
    {"speed": [90.0, 240.4, 130.2]},
    {"of a later version": True},
    {"ended": 110.0, "worker": "main"},
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


def test_a_run_that_was_cut_off_took_as_long_as_its_last_test_says() -> None:
    cut = [line | {"at": 107.0} if "test" in line else line for line in RECORD if "ended" not in line]
    assert printed(spent(cut))[0].startswith("3 tests in 7 s, cut off: no end of main; test-seconds 8")


def test_a_record_that_says_no_time_but_its_begin_has_no_negative_seconds() -> None:
    cut = [line for line in RECORD if "ended" not in line]
    assert printed(spent(cut))[0].startswith("3 tests in 0 s, cut off")
    assert printed(spent(RECORD[1:-1]))[0].startswith("3 tests in 0 s; test-seconds")


def test_what_ended_says_for_which_process_the_others_waited() -> None:
    workers: list[dict[str, Any]] = [
        {"begun": 102.0, "worker": "gw0"}, {"ended": 109.0, "worker": "gw0"}, {"begun": 101.0, "worker": "gw1"},
        {"ended": 104.0, "worker": "gw1"},
    ]  # fmt: skip
    assert "processes ended after 4 s (gw1), 9 s (gw0)" in printed(spent([*RECORD, *workers]))
    assert not any(line.startswith("processes ended") for line in printed(spent(RECORD))), "one process waits for no other"
    long = [{"test": f"{file}::test_long", "call": [16.0, 1.0, 1.0]} for file in ("tests/b/test_y.py", LONGEST_FIRST[1])]
    told = [line for line in printed(spent([*RECORD, *workers, *long])) if line.startswith("not among")]
    assert told == ["not among those that begin first (tests/kit/order.py): tests/b/test_y.py 16 s"]


def test_the_most_memory_stands_above_with_whose_it_was() -> None:
    assert printed(spent(RECORD))[1] == "memory at the most 1.0 GiB: 2 kube-apiserver 934 MiB, 2 etcd 90 MiB"


def test_the_speed_of_the_machine_stands_with_it() -> None:
    expected = "speed of the machine: 130 ms of CPU for a million additions in Python (3 looks, 90 to 240)"
    assert printed(spent(RECORD))[2] == expected
    looks = iter([4.0, 5.0])
    ended = Looks(lambda: next(looks)).start()
    assert ended.stop().looks == (4.0,), "one look at the least, and no second one before its time"


def test_pages_are_walked_for_a_new_most_alone() -> None:
    watch = Watch()
    sizes = {1000: 10, 1005: 99, 900: 99, 2000: 8, 3000: 30}
    walked = []

    def closely(pids: list[int]) -> Held:
        walked.append(pids[0])
        return Held({"x": (1, sizes[pids[0]])})

    for size in sizes:
        watch.look([size], resident=lambda pids: pids[0], closely=closely)
    assert (walked, watch.stop().mib) == ([1000, 2000, 3000], 30)


def test_what_children_of_children_hold_counts() -> None:
    line = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    inner = "held = bytearray(64 << 20); print('ready', flush=True); input()"
    command = [sys.executable, "-c", line, inner]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        pids = tree(process.pid)
        found = held(pids)
        assert (len(pids), sum(count for count, _ in found.programs.values())) == (2, 2)
        assert 64 <= found.mib < resident_bytes(pids) / (1 << 20) + 1
        process.communicate(b"\n")
    assert held(pids) == Held()


def test_a_run_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / "gw0.jsonl").write_text('{"test": "tests/a.py::one", "call": [1.0, 0, 0]}\n{"test": "tests/a.py::tw')
    assert list(spent(lines(tmp_path)).tests) == ["tests/a.py::one"]


def test_a_real_run_is_recorded_with_its_fixtures_and_what_it_started(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sleeping child counts as waiting, a computing one does not; a fixture is timed without the fixture that it needs."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # that run is no worker of this one
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
    ended = pytester.runpytest_subprocess("-p", "tests.slowest.record", "-p", "no:cacheprovider", "-n", "1")
    ended.assert_outcomes(passed=2)
    ended.stdout.fnmatch_lines(["memory at the most *", "speed of the machine: *"])
    run = spent(lines(pytester.path / "record"))
    assert (set(run.begun), run.cut) == ({"main", "gw0"}, [])
    assert run.seconds >= sum(cost.wall for cost in run.tests.values())
    cut = spent(line for line in lines(pytester.path / "record") if "ended" not in line)
    assert run.seconds > cut.seconds > 0
    sleeps, computes = (next(cost for name, cost in run.tests.items() if name.endswith(end)) for end in ("sleeps", "computes"))
    assert sleeps.waited > 0.6
    assert computes.started > 0.1 > sleeps.started
    assert run.fixtures["inner (function)"].wall >= 0.3 > run.fixtures["outer (function)"].wall >= 0.1
