"""A credential plugin that hangs does not hold up the end of a command that runs for long, and does not outlive it."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import Process, finish, start_anew
from tests.kit.kubeconfigs import to_yaml
from tests.kit.syncerbed import until
from workstation.cli import execcredential
from workstation.cli.failures import CliError, Exit

# It takes two at most. The plugin itself has 30.
_END_SECONDS = 10.0
# It has ended already, so the plugin is asked again as soon as it may be.
_STATUS = {"token": "one", "expirationTimestamp": "2026-01-01T00:00:00Z"}
_TOKEN = json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "status": _STATUS})
# With a process of its own, as a login helper has a browser; `wait` ends with a signal, and the other process does not.
_HANGS = "sleep 1000 & echo $! $$ >> pids; wait"
_ANSWERS_ONCE = f"test -e asked && {{ {_HANGS}; }}; touch asked; echo '{_TOKEN}'"
# Deaf to all that can be ignored.
_DEAF = f"trap '' INT TERM HUP; {_HANGS}; wait"


class Plugin:
    """A kubeconfig whose plugin is a script of the shell, and the processes that hang."""

    def __init__(self, folder: Path, script: str) -> None:
        self.folder = folder
        document = yaml.safe_load(to_yaml(KubeConfig(server="https://127.0.0.1:1", ca=None)))
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", f"cd {folder}; {script}"]}
        document["users"][0]["user"] = {"exec": plugin | {"interactiveMode": "Never"}}
        self.path = folder / "kubeconfig"
        self.path.write_text(yaml.safe_dump(document))

    def processes(self) -> list[int]:
        path = self.folder / "pids"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    async def hangs(self) -> None:
        async def all_started() -> bool:
            return len(self.processes()) == 2

        await until(all_started, "the plugin to hang")

    async def is_gone(self) -> None:
        async def all_ended() -> bool:
            return not any(map(_runs, self.processes()))

        await until(all_ended, "the plugin's processes to end")


def _runs(pid: int) -> bool:
    """Whether a process runs; one that has ended and that its parent has not asked after does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def _prints(process: Process, text: str) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while text not in (line := await process.stdout.readline()).decode():
            assert line, "it has ended"


async def _ended(process: Process, number: int) -> tuple[int, str, str]:
    process.send_signal(number)
    try:
        async with asyncio.timeout(_END_SECONDS):
            done = await finish(process)
    except TimeoutError:
        process.send_signal(signal.SIGKILL)
        raise
    return done.code, done.out, done.err


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where plugins are; those of their processes that still run in the end are killed."""
    yield tmp_path
    path = tmp_path / "pids"
    for pid in path.read_text().split() if path.exists() else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("hangs", [_ANSWERS_ONCE, _ANSWERS_ONCE.replace(_HANGS, _DEAF)], ids=["hangs", "is deaf"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_console_ends_while_a_plugin_hangs(folder: Path, hangs: str, number: int) -> None:
    plugin = Plugin(folder, hangs)
    process = await start_anew("console", "--no-browser", "-f", str(plugin.path))
    await plugin.hangs()
    await _prints(process, "Ctrl-C ends the console")
    code, out, err = await _ended(process, number)
    assert (code, out.splitlines()[-1]) == (Exit.DONE, "console: ended")
    # Nothing but how far it was with its first lists.
    assert all("reading from the host's API" in line for line in err.splitlines()), err
    await plugin.is_gone()


async def test_a_console_ends_while_the_first_answer_is_waited_for(folder: Path) -> None:
    plugin = Plugin(folder, "echo $$ $$ >> pids; exec sleep 1000")
    process = await start_anew("console", "--no-browser", "-f", str(plugin.path))
    await plugin.hangs()
    assert await _ended(process, signal.SIGINT) == (Exit.INTERRUPTED, "", "interrupted\n")
    await plugin.is_gone()


async def test_a_plugin_that_does_not_answer_in_time_ends_with_all_that_it_started(folder: Path) -> None:
    plugin = Plugin(folder, _DEAF)
    with pytest.raises(CliError, match=r"gave no credentials within 0\.5 s"):
        await execcredential.ask_quietly(plugin.path.read_bytes(), folder, None, within=0.5)
    await plugin.is_gone()


async def test_what_a_plugin_leaves_running_on_purpose_runs_on(folder: Path) -> None:
    """Such as an agent that keeps what the user has typed."""
    plugin = Plugin(folder, f"sleep 1000 >&- & echo $! >> pids; echo '{_TOKEN}'")
    found = await execcredential.ask_quietly(plugin.path.read_bytes(), folder, None, within=30.0)
    assert found is not None
    assert b"token: one" in found.data
    assert list(map(_runs, plugin.processes())) == [True]


async def test_a_plugin_that_answers_without_an_end_is_refused(folder: Path) -> None:
    plugin = Plugin(folder, "exec yes")
    with pytest.raises(CliError, match="gave no ExecCredential: more than 1048576 bytes"):
        await execcredential.ask_quietly(plugin.path.read_bytes(), folder, None, within=30.0)
