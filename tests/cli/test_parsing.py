"""What words become: a frozen request of the command, or an error that says what is wrong, which value, and what to do."""

import argparse
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bulkhead
from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import Cli, finish, start_anew
from tests.kit.kubeconfigs import to_yaml
from workstation.chaos.judge import Limits
from workstation.chaos.plan import Order
from workstation.cli import commands, main, values
from workstation.cli.arguments import Host, Target, Wait
from workstation.cli.audit import AuditRequest
from workstation.cli.chaos import actions as chaos
from workstation.cli.chaos.running import RunRequest, StopRequest
from workstation.cli.connect import ConnectRequest
from workstation.cli.credentials.arguments import SignIn
from workstation.cli.credentials.choice import Wanted
from workstation.cli.credentials.plugin import CertificateRequest, TokenRequest
from workstation.cli.credentials.provider import Issuer
from workstation.cli.kubeconfig import KubeconfigRequest
from workstation.cli.login import LoginRequest
from workstation.cli.logout import LogoutRequest
from workstation.cli.parsing import Command, Parser, asks_json
from workstation.cli.quotas.cohort import CohortRequest
from workstation.cli.quotas.trial import TryRequest
from workstation.cli.quotas.usage import UsageRequest
from workstation.cli.quotas.why import WhyRequest
from workstation.cli.revoke import RevokeRequest
from workstation.cli.slurm import SlurmRequest
from workstation.cli.slurmtoken import SlurmTokenRequest
from workstation.cli.ssh.command import SshRequest
from workstation.cli.ssh.plane import Way
from workstation.cli.tenant.create import CreateRequest
from workstation.cli.tenant.delete import DeleteRequest
from workstation.cli.tenant.describe import DescribeRequest
from workstation.cli.tenant.listing import ListRequest
from workstation.cli.top import TopRequest
from workstation.cli.version import VersionRequest

HOST = Host("k", "c")


def request_of(line: str) -> Any:
    """The request that the words of a line become."""
    words, command = main.split(line.split())
    options = main.build_parser(words).parse_args(words)
    if command:
        options.command = command
    return options.handler.request(options)


REQUESTS: dict[str, Any] = {
    "--kubeconfig k --context c tenant list": ListRequest(HOST, "table"),
    "tenant ls --kubeconfig k --context c -o wide": ListRequest(HOST, "wide"),
    "tenant create red --gpus 8 --quota cpu=4 --admin group:ml --no-wait": CreateRequest(
        Host(), "red", None, None, None, {"nvidia.com/gpu": 8, "cpu": "4"}, ("group:ml",), Wait(False, 300.0)
    ),
    "tenant describe red -o yaml": DescribeRequest(Host(), "red", "yaml"),
    "tenant delete red -y --timeout 90s": DeleteRequest(Host(), "red", True, Wait(True, 90.0)),
    "login red --device --redirect-port 8000 --scope a": LoginRequest(
        Host(), "red", None, Wanted(None, False, ("a",)), None, None, SignIn(False, True, 8000), Target()
    ),
    "logout --all": LogoutRequest(None),
    "revoke red --lift bulkhead:host:eve": RevokeRequest(Host(), "red", ("eve",), True, Wait()),
    "kubeconfig red --issuer corp --write x": KubeconfigRequest(Host(), "red", False, True, "corp", Target("x")),
    "connect red -- kubectl get pods -o json": ConnectRequest(
        Host(), "red", None, SignIn(), "auto", ("kubectl", "get", "pods", "-o", "json")
    ),
    "slurm red --user alice -- sinfo -o x": SlurmRequest(Host(), "red", "alice", ("sinfo", "-o", "x")),
    "slurm token red --user alice --lifetime 1h": SlurmTokenRequest(Host(), "red", "alice", 3600.0),
    "ssh red --renew --certificate": SshRequest(Way(Host(), "red", None, Wanted(None, True)), None, "renew", ()),
    "top --watch --interval 5 --resource x/y": TopRequest(Host(), True, 5.0, "x/y", "table"),
    "why red train-0 -n ml -o json": WhyRequest(Host(), "red", "train-0", "ml", "json"),
    "cohort research -o text": CohortRequest(Host(), "research", "table"),
    "quota try red cpu=4 memory=1Gi": TryRequest(Host(), "red", {"cpu": "4", "memory": "1Gi"}, "table"),
    "usage --since 30d --by owner -o csv": UsageRequest(Host(), None, 30 * 86400.0, "owner", "bulkhead-system", "csv"),
    "audit red --since 1h --user eve --limit 7": AuditRequest(Host(), "red", 3600.0, "eve", "", 7, "table"),
    "chaos run --experiment webhook-fails --target red --confirm red --yes --p99-allowance 80 --junit x.xml": RunRequest(
        Host(), Order(("webhook-fails",), "red", "red"), Limits(1.25, 0.08), True, "auto", "bulkhead-system", "x.xml", "table"
    ),
    "chaos run --experiment cpu-hog --experiment plane-deleted --tenants 5 --class gold --duration 1m -o json": RunRequest(
        Host(),
        Order(("cpu-hog", "plane-deleted"), tenants=5, class_name="gold", fault_seconds=60.0, acts=False),
        Limits(),
        False,
        "auto",
        "bulkhead-system",
        None,
        "json",
    ),
    "chaos list -o yaml": chaos.ListRequest("yaml"),
    "chaos stop --now --kubeconfig k --context c": StopRequest(HOST, True, "auto", "bulkhead-system", "table"),
    "credential certificate red --kubeconfig k --context c": CertificateRequest(HOST, "red"),
    "credential token red --issuer-url https://x --client-id y --scope z": TokenRequest(
        "red", Issuer("https://x", "y", "", "", ("z",)), SignIn()
    ),
    "version --client -o json": VersionRequest(Host(), True, "json"),
}


@pytest.mark.parametrize("line", REQUESTS)
def test_words_become_a_request(line: str) -> None:
    found = request_of(line)
    assert found == REQUESTS[line]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(found, dataclasses.fields(found)[0].name, None)


def leaves(parser: Parser) -> list[Parser]:
    below = [leaf for made, _ in parser.subcommands().values() for leaf in leaves(made)]
    return below or [parser]


@pytest.mark.parametrize("entry", [*commands.TABLE, commands.Entry("slurm", "slurmtoken")], ids=lambda entry: entry.module)
def test_each_command_of_the_table_has_a_parser_beside_it(entry: commands.Entry) -> None:
    parser = Parser(prog=entry.name)
    commands.fill(parser, entry.module)
    for leaf in leaves(parser):
        assert isinstance(leaf.get_default("handler"), Command)


def test_only_the_file_of_the_command_that_is_named_is_imported() -> None:
    code = (
        "import sys; from workstation.cli import main; main.build_parser(sys.argv[1:]);"
        "print(*sorted(name for name in sys.modules if name.startswith('workstation.')))"
    )

    def loaded(*words: str) -> set[str]:
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, timeout=60)
        return {name.removeprefix("workstation.cli.") for name in done.stdout.split()}

    light = {"main", "commands", "arguments", "parsing", "values", "failures"}
    assert loaded("--help") - {"workstation", "workstation.cli"} == light
    assert loaded("version") - {"workstation", "workstation.cli"} == light | {"version", "hostfile", "homefolder"}
    plugin = loaded("credential", "token")
    assert {"credentials.plugin"} <= plugin
    assert not {"connection", "login", "credentials.token", "credentials.certificate"} & plugin


WRONG = {
    "login red --redirect-port 80": "--redirect-port must be a port between 1024 and 65535, not '80'",
    "login red --redirect-port x": "--redirect-port must be a port between 1024 and 65535, not 'x'",
    "tenant create red --gpus 1.5": "--gpus must be a number of GPUs, not '1.5'",
    "tenant create red --quota cpu": "--quota must be a quota such as memory=512Gi, not 'cpu'",
    "tenant create Red": "NAME must be the name of a tenant: 'Red' must be lower-case letters",
    "tenant describe kube-x": "NAME must be the name of a tenant: 'kube-x' is reserved",
    "tenant delete red --timeout 25h": "--timeout must be a duration such as 90s, 5m or 1h, at most 24h, not '25h'",
    "tenant list -o xml": "--output must be one of table, wide, json, yaml, not 'xml'",
    "top --interval 0": "--interval must be a number of seconds between 0.5 and 3600, not '0'",
    "top --interval nan": "--interval must be a number of seconds between 0.5 and 3600, not 'nan'",
    "audit red --limit 0": "--limit must be a number of events between 1 and 10000, not '0'",
    "audit red --since x": "--since must be how long ago, such as 30m, 36h, 7d or 2w, not 'x'",
    "chaos run": "the following arguments are required: --experiment",
    "chaos run --experiment plane-delete": "not 'plane-delete'; did you mean plane-deleted?",
    "chaos run --experiment cpu-hog --tenants 1": "--tenants must be a number of tenants between 2 and 10, not '1'",
    "chaos run --experiment cpu-hog --tenants 99999999999999999999": "--tenants must be a number of tenants between 2 and 10",
    "chaos run --experiment cpu-hog --duration 1e9": "--duration must be between 5s and 300s, not '1e9'",
    "chaos run --experiment cpu-hog --duration nan": "--duration must be between 5s and 300s, not 'nan'",
    "chaos run --experiment cpu-hog --baseline=-5s": "--baseline must be between 5s and 600s, not '-5s'",
    "chaos run --experiment cpu-hog --p99-factor inf": "--p99-factor must be a factor between 1 and 100, not 'inf'",
    "chaos run --experiment cpu-hog --p99-allowance 1.5": "--p99-allowance must be a number of milliseconds between 0 and",
    "chaos run --experiment cpu-hog --target ../red": "--target must be the name of a tenant",
    "chaos run --experiment cpu-hog --namespace a/b": "--namespace must be an object's name",
    "chaos run --experiment cpu-hog --yes --dry-run": "not allowed with argument",
    "preflight --timeout 61": "--timeout must be between 5s and 60s, not '61'",
    "preflight --range 10": "--range must be a network such as 10.0.0.0/8, not '10'",
    "images push x.example.org --pull-secret A": "--pull-secret must be the name of a Secret, not 'A'",
    "host up --nodes 0": "--nodes must be a whole number between 1 and",
    "host up --data-dir here": "--data-dir must be the absolute path of a folder, not 'here'",
    "tenat list": "unknown command 'tenat'; did you mean tenant?",
    "tenant creat": "unknown command 'creat'; did you mean create?",
    "zzz": "unknown command 'zzz'",
    "tenant list --outptu json": "unrecognized arguments: --outptu json (did you mean --output?)",
    "tenant list -o jsn": "not 'jsn'; did you mean json?",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_said_with_the_value_and_what_to_do(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(line.split())
    first, second = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert first.startswith("error: ")
    assert WRONG[line] in first
    assert second.startswith("next:  see its options: bulkhead ")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("login", "the tenant is missing"),
        ("connect", "the tenant is missing"),
        ("logout", "nothing to log out of"),
        ("revoke red", "one of USER, --all and --lift is required"),
        ("revoke red eve --all", "one of USER, --all and --lift is required"),
        ("login red --issuer-url https://x", "--issuer-url and --client-id go together"),
        ("login red --client-id x", "--issuer-url and --client-id go together"),
        ("login red --server https://x", "--server, --server-ca and --issuer-url go together"),
        ("login red --tls-server-name x", "--server, --server-ca and --issuer-url go together"),
        ("credential token red", "--issuer-url and --client-id are missing"),
        ("images push x.example.org --username ci", "--username and --password-stdin go together"),
        ("tenant create red --gpus 4 --quota nvidia.com/gpu=5", "nvidia.com/gpu is given twice, as 4 and as 5"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(line.split()) == 2
    assert f"error: {says}" in capsys.readouterr().err


# -- where a kubeconfig goes, and its form


@pytest.mark.parametrize("command", ["login", "kubeconfig"])
@pytest.mark.parametrize(
    ("words", "target", "says"),
    [
        ("", Target(), ""),
        ("--write x.yaml", Target("x.yaml"), ""),
        ("-o json", Target(None, "json"), ""),
        ("--output yaml --write x", Target("x", "yaml"), ""),
        ("-o x.yaml", Target("x.yaml"), "deprecated: -o must be a format, json or yaml; write a file with --write x.yaml\n"),
        ("-o x --write y", Target("y"), "deprecated: -o must be a format, json or yaml; write a file with --write x\n"),
    ],
)
def test_a_path_after_o_still_works_and_names_what_to_write_instead(
    command: str, words: str, target: Target, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert request_of(f"{command} red {words}").target == target
    assert capsys.readouterr().err == says


# -- errors as JSON


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("top -o json", True),
        ("top -ojson", True),
        ("top --output json", True),
        ("top --output=json", True),
        ("preflight --json", True),
        ("top -o yaml", False),
        ("connect red -- kubectl get pods -o json", False),
        ("", False),
    ],
)
def test_whether_json_is_asked_for(line: str, expected: bool) -> None:
    assert asks_json(line.split()) is expected


def error_of(text: str) -> dict[str, Any]:
    (line,) = text.splitlines()
    found = json.loads(line)
    assert list(found) == ["error"]
    assert list(found["error"]) == ["message", "nextStep", "exitCode"]
    return dict(found["error"])


async def test_errors_are_json_where_the_output_is(cli: Cli, name: str) -> None:
    missing = await cli("tenant", "describe", name, "-o", "json")
    assert (missing.code, missing.out) == (3, "")
    assert error_of(missing.err) == {
        "message": f"tenant {name}: not found",
        "nextStep": "list the tenants: bulkhead tenant list",
        "exitCode": 3,
    }
    usage = await cli("tenant", "list", "-o", "json", "--nonsense")
    assert (usage.code, error_of(usage.err)["exitCode"]) == (2, 2)
    text = await cli("tenant", "describe", name)
    assert text.err == f"error: tenant {name}: not found\nnext:  list the tenants: bulkhead tenant list\n"


# -- versions, interruption, closed pipes


async def test_the_version_as_an_option_and_as_json() -> None:
    assert (await finish(await start_anew("--version"))).out == f"bulkhead {bulkhead.__version__}\n"
    done = await finish(await start_anew("version", "--client", "-o", "json"))
    assert json.loads(done.out) == {"client": {"version": bulkhead.__version__}, "host": None}


@pytest.fixture
def silent_host(tmp_path: Path) -> Any:
    """A kubeconfig of a host that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        path = tmp_path / "silent"
        path.write_bytes(to_yaml(KubeConfig(server=f"https://127.0.0.1:{server.getsockname()[1]}", token="x")))
        yield path, server


async def test_a_host_that_says_nothing_takes_no_version_away(silent_host: Any) -> None:
    path, _ = silent_host
    done = await finish(await start_anew("version", "--kubeconfig", str(path)))
    assert (done.code, done.out, done.err) == (0, f"bulkhead {bulkhead.__version__}\n", "")


@pytest.mark.parametrize("form", [(), ("-o", "json")])
async def test_ctrl_c_is_one_line_and_130(silent_host: Any, form: tuple[str, ...]) -> None:
    path, server = silent_host
    process = await start_anew("tenant", "list", *form, "--kubeconfig", str(path))
    server.settimeout(60)
    connection, _ = server.accept()  # it waits for an answer now, for as long as this is open
    with connection:
        process.send_signal(signal.SIGINT)
        done = await finish(process)
    assert done.code == 130
    if form:
        assert error_of(done.err) == {"message": "interrupted", "nextStep": "", "exitCode": 130}
    else:
        assert done.err == "interrupted\n"


@pytest.mark.parametrize("words", ["version --client", "--help", "--version", "completion bash", "images list"])
def test_a_reader_that_went_away_is_not_an_error(words: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as out:
        line = [sys.executable, "-m", "workstation.cli.main", *words.split()]
        # What is buffered is written only when the command ends.
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run(line, stdout=out, stderr=subprocess.PIPE, env=buffered, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("command", ["restore red --from one --key FILE", "snapshot red", "recover red", "accept-data red"])
def test_help_says_how_long_a_command_waits(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tenant", *command.split()]
    seconds = main.build_parser(words).parse_args(words).timeout
    with pytest.raises(SystemExit):
        main.build_parser(words).parse_args([*words, "--help"])
    assert f"default {seconds / 60:.0f}m" in capsys.readouterr().out


STORED = "5b0c6f5e-1d3a-4c57-9b1e-0d6f2a7c9e41"


@pytest.mark.parametrize("text", ["a", "a" * 253, f"{STORED}/a", f"{STORED}/{'a' * 253}"])
def test_a_snapshot_has_the_name_of_its_object_or_of_where_it_is_stored(text: str) -> None:
    assert values.snapshot_name(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "a b",
        "a" * 254,
        "../a",
        "a/b",
        "/a",
        "a/",
        f"{STORED}/",
        f"{STORED}/..",
        f"{STORED}/a/b",
        f"{STORED}/a..b",
        "a\n",
    ],
)
def test_a_name_that_no_snapshot_can_have_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be the name of a TenantSnapshot, or IDENTITY/SNAPSHOT"):
        values.snapshot_name(text)


@pytest.mark.parametrize("text", ["", "1", "1023", "65536", "1e4", "٨٠٨٠", "99999999999999"])
def test_a_malformed_port_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be a port between 1024 and 65535"):
        values.port(text)
