"""The supervisor with small real processes: order, restart, failed start, changed plan, stop."""

import asyncio
import errno
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostcluster.context import make_context
from workstation.hostcluster import health, pki, state, supervisor, upstream
from workstation.hostcluster.component import AliveHealth, CommandHealth, Component, HostContext

_DEADLINE = 60.0
ALIVE = AliveHealth(0.05)


def _shell(name: str, script: str, **more: object) -> Component:
    return Component(name, ("sh", "-c", script), **{"health": ALIVE, "grace": 2.0, "start_deadline": 10.0, **more})


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(_DEADLINE):
        while not true():  # noqa: ASYNC110 - what is waited for is the state of other processes
            await asyncio.sleep(0.02)


class House:
    """A board under test with a plan that can be changed."""

    def __init__(self, ctx: HostContext, monkeypatch: pytest.MonkeyPatch, *plan: Component) -> None:
        self.ctx, self.plan = ctx, plan
        monkeypatch.setattr(supervisor, "plan_of", lambda _: self.plan)
        monkeypatch.setattr(supervisor, "_BACKOFF", (0.01, 0.02))
        monkeypatch.setattr(supervisor, "_POLL_READY", 0.05)
        self.board = supervisor.Board(ctx, "one")
        self.task = asyncio.ensure_future(self.board.run())

    def line(self, name: str) -> state.ComponentState:
        return self.board.state_of(name)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task}, timeout=_DEADLINE)
        assert self.task.done(), "the supervisor does not end"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_component_starts_after_what_it_depends_on_is_healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flag = tmp_path / "flag"
    first = _shell("first", f"sleep 0.2; touch {flag}; exec sleep 60", health=CommandHealth(("test", "-e", str(flag))))
    second = _shell("second", f"test -e {flag} && exec sleep 60", depends_on=("first",))
    house = House(make_context(tmp_path), monkeypatch, second, first)
    await _until(lambda: house.board.state.phase == "running")
    assert house.line("second").restarts == 0
    pids = [house.line("first").pid, house.line("second").pid]
    await house.stop()
    assert not any(_alive(pid) for pid in pids)
    assert [item.phase for item in house.board.state.components] == ["stopped", "stopped"]


async def test_one_that_dies_is_started_again_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(make_context(tmp_path), monkeypatch, _shell("a", "exec sleep 60"), _shell("b", "exec sleep 60"))
    await _until(lambda: house.board.state.phase == "running")
    killed, kept = house.line("a").pid, house.line("b").pid
    os.kill(killed, signal.SIGKILL)
    await _until(lambda: house.line("a").phase == "ready" and house.line("a").restarts == 1)
    assert house.line("a").pid != killed
    assert house.line("b").pid == kept
    await house.stop()


async def test_one_that_stays_unhealthy_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sick = tmp_path / "sick"
    born = tmp_path / "born"
    health = CommandHealth(("sh", "-c", f"test -e {born} && ! test -e {sick}"))
    script = f"rm -f {sick}; touch {born}; exec sleep 60"
    house = House(make_context(tmp_path), monkeypatch, _shell("a", script, health=health))
    await _until(lambda: house.board.state.phase == "running")
    sick.touch()
    await _until(lambda: house.line("a").restarts == 1 and house.line("a").phase == "ready")
    await house.stop()


async def test_a_failed_start_names_the_component_and_shows_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = _shell("good", "exec sleep 60")
    bad = _shell("bad", "echo no such disk >&2; exit 3", health=AliveHealth(5))
    house = House(make_context(tmp_path), monkeypatch, good, bad)
    await asyncio.wait({house.task}, timeout=_DEADLINE)
    written = state.read(house.ctx.run_dir)
    assert written is not None
    assert written.phase == "failed"
    for part in ("bad", "status 3", "no such disk", str(house.ctx.log("bad"))):
        assert part in written.error
    assert house.line("good").pid == 0


async def test_a_program_that_is_not_there_fails_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(make_context(tmp_path), monkeypatch, Component("ghost", ("/nowhere/ghost",), ALIVE))
    await asyncio.wait({house.task}, timeout=_DEADLINE)
    assert "ghost cannot be started" in house.board.state.error


async def test_a_changed_plan_restarts_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same, old, gone = (_shell(name, "exec sleep 60") for name in ("same", "changed", "gone"))
    house = House(make_context(tmp_path), monkeypatch, same, old, gone)
    await _until(lambda: house.board.state.phase == "running")
    before = {name: house.line(name).pid for name in ("same", "changed", "gone")}
    house.plan = (same, _shell("changed", "exec sleep 61"), _shell("new", "exec sleep 60"))
    house.board.reload()
    values = {"options": state.options_to_json(house.ctx.options), "binaries": {}, "cache_dir": str(house.ctx.cache_dir)}
    (house.ctx.run_dir / "host.json").write_text(json.dumps(values))
    await _until(
        lambda: [item.name for item in house.board.state.components if item.phase == "ready"] == ["same", "changed", "new"]
    )
    assert house.line("same").pid == before["same"]
    assert house.line("changed").pid != before["changed"]
    assert not _alive(before["gone"])
    assert house.board.state.generation != "one"
    await house.stop()


async def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stubborn = Component(
        "stubborn",
        (sys.executable, "-c", "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"),
        AliveHealth(0.5),
        grace=0.1,
    )
    house = House(make_context(tmp_path), monkeypatch, stubborn)
    await _until(lambda: house.board.state.phase == "running")
    pid = house.line("stubborn").pid
    await house.stop()
    assert not _alive(pid)


def test_a_long_log_is_emptied_and_its_past_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_MAX_LOG", 10)
    log = tmp_path / "a.log"
    log.write_text("x" * 11)
    supervisor._rotate(log)
    assert (log.read_text(), (tmp_path / "a.log.1").read_text()) == ("", "x" * 11)


def test_neither_a_full_disk_nor_a_deleted_log_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, to: Path) -> None:
        to.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(supervisor, "_MAX_LOG", 10)
    monkeypatch.setattr(supervisor.shutil, "copyfile", full)
    supervisor._rotate(tmp_path / "deleted.log")
    log = tmp_path / "a.log"
    log.write_text("x" * 11)
    supervisor._rotate(log)
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]
    assert log.read_text() == ""


async def test_a_running_host_goes_on_while_one_component_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    house = House(make_context(tmp_path), monkeypatch, Component("a", (str(program),), ALIVE), _shell("b", "exec sleep 60"))
    await _until(lambda: house.board.state.phase == "running")
    kept = house.line("b").pid
    program.rename(tmp_path / "moved")
    os.kill(house.line("a").pid, signal.SIGKILL)
    await _until(lambda: "cannot be started" in house.line("a").detail or house.task.done())
    assert not house.task.done()
    (tmp_path / "moved").rename(program)
    await _until(lambda: house.line("a").phase == "ready")
    assert house.line("b").pid == kept
    await house.stop()


async def test_a_host_goes_on_while_its_state_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(make_context(tmp_path), monkeypatch, _shell("a", "exec sleep 60"), _shell("b", "exec sleep 60"))
    await _until(lambda: house.board.state.phase == "running")
    kept = house.line("b").pid

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as then:
        then.setattr(state, "write", full)
        os.kill(house.line("a").pid, signal.SIGKILL)
        await _until(lambda: house.task.done() or (house.line("a").restarts == 1 and house.line("a").phase == "ready"))
        assert not house.task.done()
    assert house.line("b").pid == kept
    await house.stop()


async def test_a_check_that_cannot_be_made_is_an_answer(tmp_path: Path) -> None:
    """A certificate whose key is another one, as while both are renewed; it ended the host."""
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    (ctx.pki_dir / "admin.key").write_bytes((ctx.pki_dir / "proxy.key").read_bytes())
    (api,) = [component for component in upstream.components(ctx) if component.name == "kube-apiserver"]
    assert "cannot be checked" in await health.ask(api, 0.0)
    gone = _shell("a", "", health=CommandHealth((str(tmp_path / "gone"),)))
    assert "cannot be checked" in await health.ask(gone, 0.0)


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("one\ntwo\nthree\n", "two\nthree")])
def test_tail_shows_the_last_lines(tmp_path: Path, text: str, shown: str) -> None:
    (tmp_path / "log").write_text(text)
    assert supervisor.tail(tmp_path / "log", 2) == shown


async def test_one_that_only_dies_fails_the_start_before_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(make_context(tmp_path), monkeypatch, _shell("bad", "exit 4", health=AliveHealth(5), start_deadline=3600))
    await asyncio.wait({house.task}, timeout=_DEADLINE)
    assert "bad: ended with status 4" in house.board.state.error


async def test_a_cancellation_counts_even_when_the_command_ends_at_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    asking: asyncio.Task[str]

    async def ends(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
        await process.wait()
        asking.cancel()  # the answer is there, and so is the cancellation: a supervisor that only saw the answer would go on
        return b"", b""

    monkeypatch.setattr(asyncio.subprocess.Process, "communicate", ends)
    asking = asyncio.ensure_future(health.ask(_shell("a", "", health=CommandHealth(("true",))), 0.0))
    await asyncio.wait({asking}, timeout=_DEADLINE)
    assert asking.cancelled()
