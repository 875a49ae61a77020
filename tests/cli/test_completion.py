"""Completion: by a real bash, by a real kubectl, and of tenants by a real API server."""

import contextlib
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import Cli, Controller
from tests.kit.kubeconfigs import to_yaml
from workstation.cli import completion
from workstation.hostcluster import binaries

pytestmark = pytest.mark.commands

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """An environment in which the command is installed, as a plugin of kubectl too, and there is no host."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, code in (
        ("bulkhead", 'exec {0} -m workstation.cli.main "$@"'),
        ("kubectl-bulkhead", 'exec {0} -m workstation.cli.main "$@"'),
        ("kubectl_complete-bulkhead", 'exec {0} -c "from workstation.cli.complete import kubectl; kubectl()" "$@"'),
    ):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{code.format(sys.executable)}\n")
        path.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    search = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": search, "HOME": str(home), "PYTHONPATH": str(ROOT), "KUBECONFIG": str(tmp_path / "none")}


def by_bash(programs: dict[str, str], *words: str) -> list[str]:
    """What a real bash offers for these words, the last of which is typed still; bash makes `=` a word of its own."""
    quoted = " ".join(f"'{word}'" for word in ("bulkhead", *words))
    script = (
        f"source <(bulkhead completion bash); complete -p bulkhead > /dev/null; COMP_WORDS=({quoted}); "
        f'COMP_CWORD={len(words)}; _bulkhead; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=programs, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["tena"], ["tenant"]),
        (["log"], ["login", "logout"]),
        (
            ["tenant", ""],
            [
                "create",
                "list",
                "describe",
                "why",
                "accept-data",
                "recover",
                "snapshot",
                "verify-snapshot",
                "restore",
                "delete",
                "retained",
                "export",
            ],
        ),
        (["tenant", "list", "--out"], ["--output"]),
        (["tenant", "list", "-o", ""], ["table", "wide", "json", "yaml"]),
        (["usage", "--by", "o"], ["owner"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["--kubeconfig", "x", "hos"], ["host"]),
        (["host", "node", "lose", "a", "--how", "p"], ["paused"]),
        (["tenant", "describe", "x", ""], []),
        (["nonsense", ""], []),
        (["cred"], []),
        (["slurm", "to"], ["token"]),
        (["connect", "red", "--", "ku"], []),
    ],
)
def test_bash_completes_commands_options_and_choices(programs: dict[str, str], words: list[str], found: list[str]) -> None:
    assert by_bash(programs, *words) == found


def test_bash_completes_what_follows_an_equals_sign(programs: dict[str, str]) -> None:
    assert by_bash(programs, "tenant", "list", "--output", "=", "ya") == ["yaml"]
    assert by_bash(programs, "usage", "--by", "=") == ["tenant", "namespace", "owner"]


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("bulkhead tenant list --output=ya", "bulkhead tenant list --output=yaml "),
        ("bulkhead tenant desc", "bulkhead tenant describe "),
        ("bulkhead connect x -- /etc/host.co", "bulkhead connect x -- /etc/host.conf "),
    ],
)
def test_tab_completes_the_word(programs: dict[str, str], typed: str, shown: str) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], programs | {"TERM": "dumb", "PS1": "> "})  # noqa: S606
    try:
        os.write(terminal, b"source <(bulkhead completion bash); echo rea''dy\n")
        _read_until(terminal, "\nready")
        os.write(terminal, f"{typed}\t".encode())
        _read_until(terminal, shown)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def _read_until(terminal: int, text: str) -> None:
    said = ""
    while text not in said.replace("\r", ""):
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, said
        said += os.read(terminal, 4096).decode(errors="replace")


def test_tenants_of_a_login_stand_in_where_there_is_no_host(programs: dict[str, str]) -> None:
    folder = Path(programs["HOME"]) / ".kube" / "bulkhead"
    folder.mkdir(parents=True)
    for name in ("red", "blue"):
        (folder / f"{name}.yaml").touch()
    assert by_bash(programs, "connect", "") == ["blue", "red"]


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """Found before a test gets a cache of its own, where there is none."""
    return binaries.ensure("kubernetes")["kubectl"]


def test_kubectl_completes_its_plugin(kubectl: Path, programs: dict[str, str]) -> None:
    words = [str(kubectl), "__complete", "bulkhead", "tenant", "cr"]
    done = subprocess.run(words, env=programs, capture_output=True, text=True, check=True, timeout=120)
    first, *_, last = done.stdout.splitlines()
    assert (first.split("\t")[0], last) == ("create", ":4")


async def test_tenants_are_completed_by_the_hosts_api(cli: Cli, controller: Controller, name: str) -> None:
    await controller.tenant(name)
    for words in (("tenant", "describe"), ("connect",), ("why",), ("slurm",), ("ssh",), ("login",), ("audit",), ("usage",)):
        done = await cli("__complete", "--", *words, name[:4])
        assert name in done.out.split(), words
        assert (done.code, done.err, done.out.splitlines()[-1]) == (0, "", ":4")
    other = await cli("__complete", "--", "tenant", "describe", "x")
    assert other.out == ":4\n"


@contextlib.contextmanager
def silent(tmp_path: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        path = tmp_path / "silent"
        path.write_bytes(to_yaml(KubeConfig(server=f"https://127.0.0.1:{server.getsockname()[1]}", token="x")))
        yield str(path)


async def test_a_host_that_says_nothing_is_waited_for_a_second(cli: Cli, tmp_path: Path) -> None:
    with silent(tmp_path) as path:
        begin = time.monotonic()
        done = await cli("--kubeconfig", path, "__complete", "--", "--kubeconfig", path, "tenant", "describe", "")
        took = time.monotonic() - begin
    assert (done.code, done.out, done.err) == (0, ":4\n", "")
    assert took < 10  # a second, and what a busy machine takes to start it


async def test_a_plugin_for_credentials_asks_no_questions(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        '{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "clusters": [{"name":'
        ' "x", "cluster": {"server": "https://127.0.0.1:1"}}], "users": [{"name": "x", "user": {"exec": {"apiVersion":'
        ' "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", "echo open a browser >&2; sleep 100"]}}}]}'
    )
    done = await cli("__complete", "--", "--kubeconfig", str(path), "tenant", "describe", "")
    assert (done.code, done.out, done.err) == (0, ":4\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_reads_its_script(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(completion.SCRIPTS[shell])
    done = subprocess.run([program, "-n", str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
