"""The load's writer records what was acknowledged and what was not; a run's exit codes say how it ended."""

import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from e2e.api import Api, ApiError, UnreachableError
from e2e.chaos import __main__ as command
from e2e.chaos import kept, runner
from e2e.chaos.history import MISSING, Read, Record, Run, Write
from e2e.chaos.load import KEYS, STAYERS, Load
from e2e.chaos.population import Member
from e2e.tenants import Tenant
from tests.e2e_pure.chaosruns import good_run
from tests.e2e_pure.test_chaos_held import of, without

READY = {"type": "Ready", "status": "True"}


class Plane:
    """ConfigMaps in memory; `broken` makes every request fail, after the write if `applies`."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.broken = self.applies = False

    def apply(self, _secret: dict[str, Any]) -> None:
        """The canary."""

    def find(self, _kind: str, name: str, _space: str) -> dict[str, Any] | None:
        return self.pods.get(name)

    def get(self, _kind: str, name: str, _space: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": self.pods[name], "status": {"phase": "Running", "conditions": [READY]}}

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
        if obj["kind"] == "Pod":
            self.pods[obj["metadata"]["name"]] = obj["spec"]
        else:
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

    thread = threading.Thread(target=made._repeat, args=(work, 0.0, lock, made._rest), daemon=True)
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


def test_no_pod_that_stays_ends_by_itself() -> None:
    """A later run keeps the tenants of an earlier one, with their pods: one of them ended an hour later, amid an experiment."""
    made, plane = load()
    made.prepare()
    commands = {name: " ".join(spec["containers"][0]["command"]) for name, spec in plane.pods.items()}
    assert commands.keys() == set(STAYERS)
    assert all(int(text.rpartition("sleep ")[2]) > 30 * 24 * 3600 for text in commands.values())


class Ending:
    """`python -m e2e.chaos` with a run that ends as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._patch = monkeypatch
        self.folder = folder
        monkeypatch.setattr("sys.argv", ["chaos", "--short"])
        monkeypatch.setattr("e2e.install.ensure_installed", lambda *_: None)
        monkeypatch.setattr("signal.signal", lambda *_: None)
        for name in ("stand", "host_api"):
            monkeypatch.setattr(command, name, lambda *_: None)
        monkeypatch.setattr(runner.Runner, "take_down", lambda *_: None)
        monkeypatch.chdir(folder)

    def code(self, records: list[Record], error: Exception | None = None, **state: object) -> int:
        """The exit code; `state` is what the runner says of itself."""

        def run(made: runner.Runner, _plan: runner.Plan) -> list[Record]:
            if error is not None:
                raise error
            for name, value in state.items():
                setattr(made, name, value)
            return records

        self._patch.setattr(runner.Runner, "run", run)
        return command.main()


def test_the_exit_code_says_how_a_run_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ending = Ending(monkeypatch, tmp_path)
    assert ending.code(good_run()) == 0
    assert ending.code(without(Write, of("b"))(good_run())) == 1
    assert ending.code([], UnreachableError("no host")) == 3
    assert ending.code(without(Run)(good_run())) == 3
    assert ending.code([], KeyError("a mistake of ours")) == 3


def test_what_was_observed_until_the_end_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ending = Ending(monkeypatch, tmp_path)
    history = tmp_path / "build" / "results" / "chaos-history.jsonl.gz"
    for state, code in (({"interrupted": True}, 130), ({"failed": "observer ended"}, 3)):
        assert ending.code(good_run(), None, **state) == code
        assert len(kept.read(history)) == len(good_run())
        history.unlink()


def test_a_wrong_argument_ends_before_anything_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["chaos", "--tenants", "1"])
    with pytest.raises(SystemExit) as wrong:
        command.main()
    assert wrong.value.code == 2


def test_a_pod_comes_when_an_experiment_asks_for_one_however_long_the_period() -> None:
    turned = threading.Semaphore(0)

    class Turning(Load):
        def _turn(self) -> None:
            turned.release()

        def _watch(self) -> None:
            self._stop.wait(1)

    made = Turning(Tenant("red", cast("Api", Plane())), Member("red", "plain"), period=3600.0)
    made.start()
    try:
        assert turned.acquire(timeout=30)
        assert not turned.acquire(timeout=0.2)
        for _ in range(3):
            made.turn_within(0.05)
            assert turned.acquire(timeout=30)
        assert not turned.acquire(timeout=0.2)
    finally:
        made.stop()
        made.join()
