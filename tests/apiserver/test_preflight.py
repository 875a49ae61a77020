"""Preflight against a real API server, on which no pod ever runs: what it judges all the same, and that it leaves nothing."""

import asyncio
import json
import secrets
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import finish, start
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import Pair
from tests.kit.syncerbed import until
from workstation.preflight import run
from workstation.preflight.findings import Report, State
from workstation.preflight.probes import objects, space
from workstation.preflight.values import Values, merged, parse

pytestmark = pytest.mark.commands

_SHORT = run.Order(seconds=5.0)  # no probe ever runs here, and each is waited for as long as this
_KILLED, _OTHER = "bulkhead-preflight-killed", "somebody-elses"
_FREE = "10.200.0.0/16"  # no test makes a ServiceCIDR there; the servers are shared


def _values(**tree: Any) -> Values:
    return parse(merged([tree]))


def _states(report: Report) -> dict[str, State]:
    return {each.check: each.finding.state for each in report.checks}


def _text(report: Report, check: str) -> str:
    return next(" ".join((each.finding.cause, *each.finding.details)) for each in report.checks if each.check == check)


async def _spaces(client: Client) -> dict[str, bool]:
    """The namespaces of runs, with whether their deletion was asked for (no controller finishes it here)."""
    found = await client.list(kinds.NAMESPACES, label_selector=f"{objects.LABEL}=true")
    return {each["metadata"]["name"]: "deletionTimestamp" in each["metadata"] for each in found.items}


@dataclass(frozen=True, slots=True)
class Seen:
    """One run, its report, and the namespaces of runs afterwards."""

    report: Report
    said: list[str]
    spaces: dict[str, bool]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seen(apiservers: Pair) -> Seen:
    """All that the tests look at, from one run: each run would wait just as long for pods that never start."""
    place = f"pulls-{secrets.token_hex(4)}"
    secret = {"metadata": {"name": "opaque"}, "type": "Opaque", "stringData": {".dockerconfigjson": "{}"}}
    values = _values(services={"range": _FREE}, images={"pullSecrets": ["opaque", "absent"]})
    said: list[str] = []
    async with Client(apiservers.host.admin, user_agent="tests", field_manager="tests") as client:
        await client.create(kinds.NAMESPACES, {"metadata": {"name": place}})
        await client.create(kinds.SECRETS, secret, place)
        for name in (_KILLED, _OTHER):
            await client.create(kinds.NAMESPACES, objects.namespace(name))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(space, "_OLD", -space._OLD)
            report = await run.run(client, values, run.Order(namespace=place, seconds=_SHORT.seconds), said.append)
        spaces = await _spaces(client)
        await client.delete(kinds.NAMESPACES, _OTHER)
    return Seen(report, said, spaces)


def test_what_an_api_server_alone_shows(seen: Seen) -> None:
    states = _states(seen.report)
    assert {
        states[f"server.{name}"] for name in ("version", "servicecidrs", "admission", "podsecurity", "rights", "clock")
    } == {State.OK}
    assert states["ranges.overlap"] is State.OK
    unseen = "no scheduler has looked at it" in _text(seen.report, "network.pods")
    assert (states["network.pods"], unseen) == (State.FAILED, True)
    assert states["network.ingress"] is State.SKIPPED
    assert states["storage.class"] is State.FAILED
    assert seen.said[0] == "asking for the version"
    assert seen.spaces.keys() - {_KILLED, _OTHER}
    assert all(going for name, going in seen.spaces.items() if name != _OTHER)


def test_a_pull_secret_is_looked_for_and_its_form_judged(seen: Seen) -> None:
    text = _text(seen.report, "images.secrets")
    assert ("opaque: has type Opaque" in text, "absent: does not exist in pulls-" in text) == (True, True)


def test_what_a_killed_run_left_goes_with_the_next(seen: Seen) -> None:
    assert _KILLED in seen.report.swept
    assert (seen.spaces[_KILLED], seen.spaces[_OTHER]) == (True, False)


async def test_a_user_without_rights_is_told_so_in_every_check(apiservers: Pair, host_client: Client) -> None:
    before = await _spaces(host_client)
    config = apiservers.host.config_for("nobody-in-particular", "nothing")
    async with Client(config, user_agent="tests", field_manager="tests") as client:
        report = await run.run(client, _values(), _SHORT, lambda _: None)
    states = _states(report)
    assert (states["server.rights"], states["network.pods"]) == (State.FAILED, State.FAILED)
    assert "the namespace for probes was not created" in _text(report, "network.pods")
    assert "create clusterroles.rbac.authorization.k8s.io" in _text(report, "server.rights")
    assert states["storage.class"] is State.SKIPPED
    assert await _spaces(host_client) == before


@pytest.fixture
def host_file(host_config: KubeConfig, tmp_path: Path) -> Path:
    path = tmp_path / "host.kubeconfig"
    path.write_bytes(to_yaml(host_config))
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_run_removes_its_probes(number: signal.Signals, host_client: Client, host_file: Path) -> None:
    before = set(await _spaces(host_client))
    process = await start("preflight", "--kubeconfig", str(host_file))

    async def begun() -> str | None:
        for name in set(await _spaces(host_client)) - before:
            if (await host_client.list(kinds.PODS, name)).items:
                return name
        return None

    name = await until(begun, "probes")
    process.send_signal(number)
    done = await finish(process)
    assert (done.code, done.out) == (130, "")
    assert (await _spaces(host_client))[str(name)] is True
    assert (await host_client.list(kinds.PODS, str(name))).items == []


async def test_the_command_refuses_an_overlap_that_the_admin_names(host_file: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"services: {{range: {_FREE}}}\n")
    words = (
        "--kubeconfig",
        str(host_file),
        "--values",
        str(values),
        f"--range={_FREE}",
        f"--timeout={_SHORT.seconds:.0f}s",
        "--json",
    )
    done = await finish(await start("preflight", *words))
    report = json.loads(done.out)
    found = {each["check"]: each for each in report["checks"]}
    assert (done.code, report["state"]) == (1, "failed")
    assert (found["ranges.overlap"]["state"], found["ranges.overlap"]["details"]) == ("failed", [f"reserved ({_FREE})"])
    assert "choose another services.range" in found["ranges.overlap"]["cure"]


async def test_a_server_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(to_yaml(KubeConfig(server="https://127.0.0.1:1", token="x")))
    async with asyncio.timeout(180):
        done = await finish(await start("preflight", "--kubeconfig", str(path)))
    assert (done.code, "the host's API cannot be reached" in done.err, done.out) == (1, True, "")


@pytest.mark.parametrize(
    ("option", "content", "told"),
    [
        ("--timeout", "1h", "between"),
        ("--range", "everywhere", "--range must be a network"),
        ("--values", "[1, 2]", "must contain a mapping"),
        ("--values", "a: [", "--values"),
        ("--values", "x: " + "y" * (1 << 20), "larger than 1 MiB"),
        ("--registry-config", "not json", "is not JSON"),
        ("--registry-config", '{"credsStore": "desktop"}', "names no registries"),
        ("--registry-config", None, "No such file"),
    ],
)
async def test_options_that_are_none_are_refused_before_anything(
    option: str, content: str | None, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_text(content)
    given = str(content) if option in {"--timeout", "--range"} else str(path)
    done = await finish(await start("preflight", "--kubeconfig", "/nonexistent", option, given))
    assert (done.code, told in done.err) == (2, True), done.err
