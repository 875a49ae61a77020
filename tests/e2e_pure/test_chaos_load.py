"""The load's writer records what was acknowledged and what was not; a run's exit codes say how it ended."""

import threading
import time
from typing import Any, cast

import pytest

from e2e.api import Api, ApiError, UnreachableError
from e2e.chaos import __main__ as command
from e2e.chaos import runner
from e2e.chaos.history import MISSING, Read, Record, Write
from e2e.chaos.load import KEYS, Load
from e2e.chaos.population import Member
from e2e.tenants import Tenant
from tests.e2e_pure.chaosruns import good_run
from tests.e2e_pure.test_chaos_held import of, without


class Plane:
    """ConfigMaps in memory; `broken` makes every request fail, after the write if `applies`."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.broken = self.applies = False

    def _fail(self) -> None:
        if self.broken:
            raise UnreachableError("no answer")

    def patch(self, _kind: str, name: str, body: dict[str, Any], _space: str) -> None:
        if self.broken and not self.applies:
            self._fail()
        if name not in self.values:
            raise ApiError(404, "NotFound", name)
        self.values[name] = body["data"]["value"]
        self._fail()

    def create(self, obj: dict[str, Any]) -> None:
        self._fail()
        self.values[obj["metadata"]["name"]] = obj["data"]["value"]

    def list(self, _kind: str, _space: str) -> list[dict[str, Any]]:
        self._fail()
        return [{"metadata": {"name": name}, "data": {"value": value}} for name, value in self.values.items()]


def load() -> tuple[Load, Plane]:
    plane = Plane()
    return Load(Tenant("red", cast("Api", plane)), Member("red", "plain")), plane


def writes(made: Load) -> list[tuple[str, int, bool]]:
    return [(item.key, item.value, item.acknowledged) for item in made.records if isinstance(item, Write)]


def test_the_writer_records_each_write_and_whether_it_was_acknowledged() -> None:
    made, plane = load()
    for _ in range(KEYS):
        made.write()
    plane.broken = plane.applies = True
    made.write()
    assert writes(made) == [
        ("chaos-kept-1", 1, True),
        ("chaos-kept-2", 2, True),
        ("chaos-kept-3", 3, True),
        ("chaos-kept-0", 4, True),
        ("chaos-kept-1", 5, False),
    ]
    # A write without an answer may have happened.
    assert plane.values["chaos-kept-1"] == "5"


def test_all_keys_are_read_after_an_experiment_also_those_that_are_gone() -> None:
    made, plane = load()
    for _ in range(KEYS):
        made.write()
    del plane.values["chaos-kept-2"]
    made.read_back("flood")
    found = {item.key: (item.value, item.experiment) for item in made.records if isinstance(item, Read)}
    assert found == {
        "chaos-kept-0": (4, "flood"),
        "chaos-kept-1": (1, "flood"),
        "chaos-kept-2": (MISSING, "flood"),
        "chaos-kept-3": (3, "flood"),
    }
    plane.broken = True
    with pytest.raises(UnreachableError):
        made.read_back("flood")


def test_a_pause_waits_for_work_that_is_under_way_and_lets_none_begin() -> None:
    made, _ = load()
    done, lock = [], threading.Lock()
    made._locks.append(lock)

    def work() -> None:
        time.sleep(0.02)
        done.append(time.monotonic())

    thread = threading.Thread(target=made._repeat, args=(work, 0.0, lock), daemon=True)
    thread.start()
    with made.paused():
        before = len(done)
        time.sleep(0.4)
        assert len(done) == before
    while len(done) <= before:
        time.sleep(0.01)
    made.stop()
    thread.join(timeout=5)
    assert not thread.is_alive()


def ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, records: list[Record] | Exception, *, interrupted: bool = False
) -> int:
    """The exit code of a run that ends so."""

    def run(self: runner.Runner, _plan: runner.Plan) -> list[Record]:
        self.interrupted = interrupted
        if isinstance(records, Exception):
            raise records
        return records

    monkeypatch.setattr("sys.argv", ["chaos", "--short"])
    monkeypatch.setattr(command.install, "ensure_installed", lambda *_: None)
    for name in ("stand", "host_api"):
        monkeypatch.setattr(command, name, lambda *_: None)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr(runner.Runner, "run", run)
    monkeypatch.chdir(tmp_path)
    return command.main()


def test_the_exit_code_says_how_a_run_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    assert ended(monkeypatch, tmp_path, good_run()) == 0
    assert ended(monkeypatch, tmp_path, without(Write, of("b"))(good_run())) == 1
    assert ended(monkeypatch, tmp_path, runner.RecorderError("observer ended")) == 3
    assert ended(monkeypatch, tmp_path, good_run(), interrupted=True) == 130
    assert (tmp_path / "build" / "results" / "chaos-history.jsonl.gz").exists()
    monkeypatch.setattr("sys.argv", ["chaos", "--tenants", "1"])
    with pytest.raises(SystemExit) as wrong:
        command.main()
    assert wrong.value.code == 2
