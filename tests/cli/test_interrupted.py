"""Ctrl-C ends a command at once where it waits in a call that blocks its event loop: at a prompt, for a plugin, for a lock."""

import asyncio
import contextlib
import os
import pty
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit import tlsserver
from tests.kit.commandline import Outcome, finish, start_anew
from tests.kit.kubeconfigs import to_yaml
from tests.kit.syncerbed import until
from workstation.cli import interruption
from workstation.cli.credentials import cache
from workstation.cli.failures import Exit

# Far below what each of them would wait for otherwise, and above what a busy machine needs.
_END_SECONDS = 60.0
_RED = {
    "apiVersion": "bulkhead.dev/v1alpha1",
    "kind": "Tenant",
    "metadata": {"name": "red", "uid": "1"},
    "spec": {"class": "a"},
}
# Deaf to all that can be ignored, and alone, as a plugin that waits for its user.
_DEAF = "trap '' INT TERM HUP; echo $$ > pid; while :; do sleep 0.2; done"


@dataclass
class Host:
    """A host with one Tenant, and what else it was asked for."""

    file: Path
    changes: list[str]


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    changes: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        if request.method != "GET":
            changes.append(f"{request.method} {request.path}")
        return web.json_response(_RED)

    async with tlsserver.serving(serve, tmp_path, token="one") as config:
        file = tmp_path / "host.kubeconfig"
        file.write_bytes(to_yaml(config))
        yield Host(file, changes)


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, *words: str) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's children in the background, and theirs, ignore it
            os.execvpe(sys.executable, [sys.executable, "-m", "workstation.cli.main", *words], dict(os.environ))  # noqa: S606
        self.shown = ""
        self.code: int | None = None

    async def shows(self, text: str) -> None:
        async with asyncio.timeout(180):
            while text not in self.shown:
                assert await self._read(), self.shown

    def types(self, text: str) -> None:
        os.write(self._fd, text.encode())

    async def ends(self) -> int:
        """Its exit code."""
        async with asyncio.timeout(_END_SECONDS):
            while await self._read():
                pass
        _, status = await asyncio.to_thread(os.waitpid, self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code

    async def _read(self) -> bool:
        """Read some output; False at its end."""
        os.set_blocking(self._fd, False)
        ready = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._fd, ready.set)
        try:
            await ready.wait()
            data = os.read(self._fd, 4096)
        except OSError:
            return False
        finally:
            asyncio.get_running_loop().remove_reader(self._fd)
        self.shown += data.decode(errors="replace")
        return bool(data)

    def close(self) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)


# -- at the prompt


async def test_ctrl_c_at_the_prompt_ends_the_command_and_nothing_is_done(host: Host) -> None:
    terminal = Terminal("--kubeconfig", str(host.file), "tenant", "delete", "red")
    with contextlib.closing(terminal):
        await terminal.shows("Type its name to continue: ")
        terminal.types("\x03")
        assert await terminal.ends() == Exit.INTERRUPTED, terminal.shown
    assert terminal.shown.splitlines()[-1] == "interrupted: not deleted"
    assert "background" not in terminal.shown
    assert host.changes == []


async def test_the_prompt_takes_the_name_and_refuses_another(host: Host) -> None:
    for answer, code in (("blue", Exit.FAILED), ("red", Exit.DONE)):
        terminal = Terminal("--kubeconfig", str(host.file), "tenant", "delete", "red", "--no-wait")
        with contextlib.closing(terminal):
            await terminal.shows("Type its name to continue: ")
            terminal.types(f"{answer}\n")
            assert await terminal.ends() == code, terminal.shown
    assert host.changes == ["DELETE /apis/bulkhead.dev/v1alpha1/tenants/red"]


# -- during a sign-in


def _kubeconfig(folder: Path, script: str) -> Path:
    """A kubeconfig whose plugin is a script of the shell."""
    document = yaml.safe_load(to_yaml(KubeConfig(server="https://127.0.0.1:1", ca=None)))
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", f"cd {folder}; {script}"]}
    document["users"][0]["user"] = {"exec": plugin | {"interactiveMode": "IfAvailable"}}
    path = folder / "plugin.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig whose plugin is deaf; it is killed in the end."""
    yield _kubeconfig(tmp_path, _DEAF)
    if (pid := _pid(tmp_path)) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _pid(folder: Path) -> int | None:
    path = folder / "pid"
    return int(text) if path.exists() and (text := path.read_text().strip()) else None


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def _ctrl_c(process: asyncio.subprocess.Process) -> Outcome:
    """What a process has printed when Ctrl-C has ended it."""
    process.send_signal(signal.SIGINT)
    try:
        async with asyncio.timeout(_END_SECONDS):
            return await finish(process)
    except TimeoutError:
        process.kill()
        raise


async def _interrupted(process: asyncio.subprocess.Process, folder: Path) -> tuple[int, str]:
    """Ctrl-C once the plugin runs: the exit code, and the errors. The plugin has ended by then."""

    async def runs() -> int | None:
        return _pid(folder)

    pid = await until(runs, "the plugin to be started")
    done = await _ctrl_c(process)
    assert _is_gone(pid)
    return done.code, done.err


@pytest.mark.parametrize("words", ["tenant list", "tenant delete red", "tenant create red", "tenant snapshot red"])
async def test_ctrl_c_during_a_sign_in_ends_the_command_and_its_plugin(plugin: Path, words: str) -> None:
    process = await start_anew("--kubeconfig", str(plugin), *words.split())
    # Nothing goes on in the background: nothing has begun.
    assert await _interrupted(process, plugin.parent) == (Exit.INTERRUPTED, "interrupted\n")


async def test_ctrl_c_in_a_terminal_reaches_the_plugin_too(tmp_path: Path) -> None:
    path = _kubeconfig(tmp_path, "echo waits for you >&2; exec sleep 1000")
    terminal = Terminal("--kubeconfig", str(path), "tenant", "list")
    with contextlib.closing(terminal):
        await terminal.shows("waits for you")
        terminal.types("\x03")
        assert await terminal.ends() == Exit.INTERRUPTED, terminal.shown
    assert terminal.shown.splitlines()[-1] == "interrupted"


_SSH = """
import pathlib, sys
from workstation.cli import main
from workstation.cli.ssh import plane
async def of_host(way):
    return pathlib.Path(sys.argv[1]).read_bytes()
plane._of_host = of_host
sys.exit(main.main(["ssh", "red", "--proxy"]))
"""


async def test_ctrl_c_during_the_sign_in_of_ssh_ends_it_too(plugin: Path) -> None:
    process = await _python(_SSH, str(plugin))
    assert await _interrupted(process, plugin.parent) == (Exit.INTERRUPTED, "interrupted\n")


async def _python(program: str, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(os.environ) | {"HOME": "/nonexistent"},
    )


# -- for another process that signs in

_LOCKS = """
import sys
from workstation.cli import eventloop
from workstation.cli.credentials import cache
async def work():
    with cache.entry("test", "a").locked():
        print("has it")
def plain():
    with cache.entry("test", "a").locked():
        print("has it")
try:
    eventloop.run(work()) if sys.argv[1] == "loop" else plain()
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("where", ["loop", "plain"])
async def test_a_wait_for_another_sign_in_is_told_and_ctrl_c_ends_it(where: str) -> None:
    with cache.entry("test", "a").locked():
        process = await _python(_LOCKS, where)
        assert process.stderr is not None
        line = await asyncio.wait_for(process.stderr.readline(), 180)
        assert "waiting for another process of yours that is signing in" in line.decode()
        done = await _ctrl_c(process)
    assert (done.code, done.out, done.err) == (Exit.INTERRUPTED, "", "")


async def test_a_wait_that_ends_soon_is_not_told(capfd: pytest.CaptureFixture[str]) -> None:
    entry, held = cache.entry("test", "a"), contextlib.ExitStack()
    held.enter_context(entry.locked())
    timer = threading.Timer(0.2, held.close)
    timer.start()
    with entry.locked():
        timer.join()
    assert capfd.readouterr().err == ""


# -- the handler


def test_the_former_handler_is_there_again() -> None:
    def former(_number: int, _frame: object) -> None: ...

    before = signal.signal(signal.SIGINT, former)
    try:
        with pytest.raises(KeyboardInterrupt), interruption.at_once():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is former
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with interruption.at_once():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_thread_changes_no_handler() -> None:
    seen: list[object] = []

    def work() -> None:
        with interruption.at_once():
            seen.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


async def test_a_run_that_survives_the_error_of_one_step_is_ended() -> None:
    """As chaos takes a plane that it cannot open for unreached, and lifts its fault after Ctrl-C."""
    program = """
import asyncio, signal, sys
from workstation.cli import eventloop, interruption
from workstation.cli.failures import CliError
async def work():
    try:
        try:
            with interruption.at_once():
                signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise interruption.passed_on() from None
    except CliError:
        print("unreached")
    try:
        await asyncio.sleep(60)
    finally:
        print("lifted")
try:
    eventloop.run(work())
except KeyboardInterrupt:
    sys.exit(130)
"""
    done = await finish(await _python(program))
    assert (done.code, done.out, done.err) == (Exit.INTERRUPTED, "unreached\nlifted\n", "")
