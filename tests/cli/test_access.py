"""`bulkhead kubeconfig` and `bulkhead connect` against two real API servers."""

import asyncio
import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import Cli, Controller, finish, start
from workstation.cli import access

pytestmark = pytest.mark.commands

SHOW = "import os, json; p = os.environ['KUBECONFIG']; print(json.dumps([p, os.stat(p).st_mode & 0o777, open(p).read()]))"


def there(path: str | Path) -> bool:
    return Path(path).exists()


async def test_the_kubeconfig_is_printed_or_written_for_its_owner_only(
    cli: Cli, controller: Controller, plane_config: KubeConfig, name: str, tmp_path: Path
) -> None:
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    printed = await cli("kubeconfig", name)
    assert (printed.code, printed.err) == (0, "")
    found = json.loads(printed.out)
    assert "-data" not in json.dumps(found["users"])
    assert found["clusters"][0]["cluster"]["server"] == plane_config.server
    target = tmp_path / "red.yaml"
    written = await cli("kubeconfig", name, "--write", str(target))
    assert (written.code, written.out) == (0, "")
    assert json.loads(target.read_text()) == found
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


async def test_what_is_not_there_is_not_found(cli: Cli, controller: Controller, name: str) -> None:
    missing = await cli("kubeconfig", name)
    assert (missing.code, f"tenant {name}: not found" in missing.err) == (3, True)
    await controller.tenant(name)
    early = await cli("kubeconfig", name)
    assert (early.code, "does not exist yet" in early.err) == (3, True)


async def test_connect_runs_a_command_and_passes_on_its_code(
    cli: Cli, controller: Controller, plane_config: KubeConfig, name: str
) -> None:
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    shown = await cli("connect", name, "--", sys.executable, "-c", SHOW)
    path, mode, content = json.loads(shown.out)
    assert (mode, json.loads(content)) == (0o600, json.loads((await cli("kubeconfig", name)).out))
    assert not there(Path(path).parent)
    assert (await cli("connect", name, "--", "sh", "-c", "exit 7")).code == 7
    assert (await cli("connect", name, "sh", "-c", "exit 8")).code == 8
    assert (await cli("connect", name, "--", "sh", "-c", "kill -9 $$")).code == 137
    unknown = await cli("connect", name, "--", "no-such-program")
    assert (unknown.code, "no such program" in unknown.err) == (1, True)


async def test_connect_without_a_command_opens_the_shell(
    cli: Cli, controller: Controller, plane_config: KubeConfig, name: str, tmp_path: Path
) -> None:
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\necho "$BULKHEAD_TENANT"\n')
    shell.chmod(0o755)
    opened = await cli("connect", name, SHELL=str(shell))
    assert (opened.code, opened.out) == (0, f"{name}\n")
    assert f"tenant {name}" in opened.err


async def test_a_terminated_connect_leaves_no_kubeconfig(
    cli: Cli, controller: Controller, host_file: Path, plane_config: KubeConfig, name: str
) -> None:
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    process = await start(
        "connect", name, "--", "sh", "-c", 'echo "$KUBECONFIG"; exec sleep 60', environment={"KUBECONFIG": str(host_file)}
    )
    assert process.stdout is not None
    path = (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()
    assert there(path)
    process.send_signal(signal.SIGTERM)
    assert (await finish(process)).code == 143
    assert not there(Path(path).parent)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_while_the_command_is_being_started_reaches_it(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    class Started(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            os.kill(os.getpid(), number)

    monkeypatch.setattr(access.subprocess, "Popen", Started)
    before = signal.getsignal(number)
    with contextlib.ExitStack() as stack:
        assert access.run_program(["sleep", "60"], dict(os.environ), stack) == 128 + number
    assert signal.getsignal(number) is before
