"""The parser, exit codes and errors that need no tenant."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import bulkhead
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit import crds
from tests.kit.commandline import Cli, finish, start_anew
from tests.kit.kubeconfigs import to_yaml
from workstation.cli import execcredential, hostfile, main, values
from workstation.cli.failures import CliError


async def test_help_teaches_by_examples() -> None:
    done = await finish(await start_anew("--help"))
    assert done.code == 0
    for text in ("bulkhead tenant create red --gpus 8", "exit codes:", "4 timed out", "kubectl bulkhead"):
        assert text in done.out


async def test_the_version() -> None:
    done = await finish(await start_anew("version", environment={"KUBECONFIG": "/nonexistent"}))
    assert done.out == f"bulkhead {bulkhead.__version__}\n"


def test_the_name_that_older_kubeconfigs_call_still_works() -> None:
    words = [sys.executable, "-m", "bulkhead.cli.main", "credential", "certificate", "red"]
    nowhere = os.environ | {"KUBECONFIG": "/nonexistent"}
    done = subprocess.run(words, env=nowhere, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: $KUBECONFIG: /nonexistent does not exist\n")


@pytest.mark.parametrize("arguments", [[], ["tenant"], ["nonsense"], ["tenant", "list", "-o", "xml"]])
async def test_wrong_usage_is_code_2(arguments: list[str]) -> None:
    assert (await finish(await start_anew(*arguments))).code == 2


@pytest.mark.parametrize(("closed", "shows"), [("", True), ("2>&-", True), (">&-", False), (">&- 2>&-", False)])
def test_closed_outputs_are_not_an_error(closed: str, shows: bool) -> None:
    line = f"{sys.executable} -m workstation.cli.main images list {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr, "proxy" in done.stdout) == (0, "", shows)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("36h", 129_600.0), ("7d", 604_800.0), ("2w", 1_209_600.0)])
def test_how_long_ago_may_be_more_than_a_day(text: str, seconds: float) -> None:
    assert values.since(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "0s", "-5m", "nan", "infd", "3651d", "1e9w", "tomorrow", "2026-11-01"])
def test_a_malformed_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="such as 30m, 36h, 7d or 2w"):
        values.since(text)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a?b=c", "A", "a-", "a" * 254, "a\nb"])
@pytest.mark.parametrize("words", [("why", "red"), ("why", "red", "pod", "-n"), ("usage", "-n"), ("preflight", "-n")])
def test_what_can_be_no_objects_name_is_wrong_usage(
    words: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main.main([*words, name])
    assert caught.value.code == 2
    assert "must be an object's name" in capsys.readouterr().err


def test_help_and_version_load_nothing_heavy() -> None:
    code = "import sys; from workstation.cli.main import main; main(['version']); print(*sorted(sys.modules))"
    # The machine may have a host, which the command would otherwise ask.
    nowhere = os.environ | {"KUBECONFIG": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", code], env=nowhere, capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.split()
    assert not {"aiohttp", "asyncio", "httpx", "pydantic", "rich", "yaml", "msgspec"} & set(loaded)


def test_a_command_without_identity_provider_loads_no_client_for_one() -> None:
    code = "import sys; from workstation.cli import access, connect, login; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert not {"aiohttp", "httpx", "pydantic", "rich"} & set(loaded)


def test_as_a_plugin_of_kubectl_it_calls_itself_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-bulkhead"])
    assert main.build_parser([]).prog == "kubectl bulkhead"


async def test_a_cluster_without_bulkhead_is_named_as_such(
    plane_config: KubeConfig, plane_client: Client, tmp_path: Path
) -> None:
    await crds.remove(plane_client)  # tests of another file may have installed them there
    path = tmp_path / "config"
    path.write_bytes(to_yaml(plane_config))
    done = await finish(await start_anew("tenant", "list", "--kubeconfig", str(path)))
    assert (done.code, "Bulkhead is not installed" in done.err) == (1, True)


async def test_a_host_that_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(to_yaml(KubeConfig(server="https://127.0.0.1:1", token="x")))
    done = await finish(await start_anew("--kubeconfig", str(path), "tenant", "list"))
    assert (done.code, done.err.count("\n")) == (1, 2)
    assert "error: the host's API cannot be reached" in done.err
    assert "bulkhead host status" in done.err
    proxied = {"HTTPS_PROXY": "http://127.0.0.1:2"}
    done = await finish(await start_anew("--kubeconfig", str(path), "tenant", "list", environment=proxied))
    assert (done.code, "connects to the host directly" in done.err) == (1, True)


async def test_unknown_credentials(cli: Cli, host_config: KubeConfig, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(to_yaml(KubeConfig(server=host_config.server, ca=host_config.ca, token="wrong")))
    done = await cli("tenant", "list", "--kubeconfig", str(path))
    assert (done.code, "rejects these credentials" in done.err) == (1, True)


async def test_a_broken_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("{")
    done = await finish(await start_anew("tenant", "list", "--kubeconfig", str(path)))
    assert (done.code, f"kubeconfig {path}" in done.err) == (1, True)


def test_the_order_in_which_kubeconfigs_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("option", "variable", "embedded")}
    home = tmp_path / "home" / ".kube" / "config"
    home.parent.mkdir(parents=True)
    for path in (*paths.values(), home):
        path.touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "missing"), str(paths["variable"])]))
    monkeypatch.setattr(hostfile, "EMBEDDED", paths["embedded"])
    assert hostfile.find_kubeconfig(str(paths["option"])) == paths["option"]
    assert hostfile.find_kubeconfig(None) == paths["variable"]
    monkeypatch.delenv("KUBECONFIG")
    assert hostfile.find_kubeconfig(None) == home
    home.unlink()
    assert hostfile.find_kubeconfig(None) == paths["embedded"]
    paths["embedded"].unlink()
    with pytest.raises(CliError, match="no kubeconfig of the host cluster in --kubeconfig"):
        hostfile.find_kubeconfig(None)


def with_plugin(config: KubeConfig, command: str, script: str) -> str:
    """A kubeconfig whose user runs a script for its credentials."""
    document = yaml.safe_load(to_yaml(config))
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": ["-c", script]}
    document["users"][0]["user"] = {"exec": plugin | {"interactiveMode": "Never", "installHint": "get it from the shop"}}
    return yaml.safe_dump(document)


async def test_credentials_from_a_plugin(cli: Cli, host_config: KubeConfig, tmp_path: Path) -> None:
    assert host_config.client_cert is not None
    assert host_config.client_key is not None
    status = {"clientCertificateData": host_config.client_cert.decode(), "clientKeyData": host_config.client_key.decode()}
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
    path = tmp_path / "config"
    path.write_text(with_plugin(host_config, "sh", f'test -n "$KUBERNETES_EXEC_INFO" && cat {answer}'))
    done = await cli("tenant", "list", "--kubeconfig", str(path))
    assert done.code == 0, done.err


def test_a_plugins_variable_without_a_value_is_empty(tmp_path: Path) -> None:
    """As kubectl reads it; it was a traceback."""
    script = 'echo "{\\"status\\": {\\"token\\": \\"<$A$B$C>\\"}}"'
    document = yaml.safe_load(with_plugin(KubeConfig(server="https://127.0.0.1:1", token="x"), "sh", script))
    document["users"][0]["user"]["exec"]["env"] = [{"name": "A"}, {"name": "B", "value": None}, {"name": "C", "value": 7}, {}]
    found = execcredential.ask(yaml.safe_dump(document).encode(), tmp_path, None, within=10.0)
    assert found is not None
    assert yaml.safe_load(found.data)["users"][0]["user"] == {"token": "<7>"}


@pytest.mark.parametrize(
    ("command", "script", "text"),
    [
        ("no-such-plugin", "", "get it from the shop"),
        ("sh", "exit 3", "failed with exit code 3"),
        ("sh", "echo hello", "gave no ExecCredential"),
        ("sh", "echo '{\"status\": {}}'", "neither a token nor a certificate"),
    ],
)
async def test_a_plugin_that_fails_is_named(tmp_path: Path, command: str, script: str, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(with_plugin(KubeConfig(server="https://127.0.0.1:1", token="x"), command, script))
    done = await finish(await start_anew("tenant", "list", "--kubeconfig", str(path)))
    assert (done.code, text in done.err, command in done.err) == (1, True, True)
