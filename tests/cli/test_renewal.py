"""Commands that run for long ask the kubeconfig's plugin for new credentials before the former ones end, or once refused."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from bulkhead.kube import portforward
from bulkhead.kube.client import Client
from bulkhead.kube.connection import Answer
from bulkhead.kube.errors import Unauthorized
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import PODS
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import Pair
from tests.kit.syncerbed import until
from workstation.cli import connection, renewal, tunnel
from workstation.cli.arguments import Host
from workstation.cli.failures import CliError

_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


class Plugin:
    """A plugin that answers what a file says, and its kubeconfig."""

    def __init__(self, folder: Path, config: KubeConfig) -> None:
        self.folder = folder
        (folder / "plugin").write_text(f"#!/bin/sh\ncd {folder} && echo >> asked && exec cat answer.json\n")
        (folder / "plugin").chmod(0o755)
        document = yaml.safe_load(to_yaml(config))
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never"}
        document["users"][0]["user"] = {"exec": plugin}
        (folder / "kubeconfig").write_text(yaml.safe_dump(document))
        self.host = Host(str(folder / "kubeconfig"), None)

    def asked(self) -> int:
        return (self.folder / "asked").read_text().count("\n")

    def says(self, *, left: float | None = None, **status: str) -> None:
        if left is not None:
            status["expirationTimestamp"] = f"{datetime.now(UTC) + timedelta(seconds=left):%Y-%m-%dT%H:%M:%SZ}"
        answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        new = self.folder / "new"
        new.write_text(json.dumps(answer))
        new.replace(self.folder / "answer.json")


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugin:
    monkeypatch.setattr(renewal, "_LEAST_SECONDS", 0.1)
    return Plugin(tmp_path, KubeConfig(server="https://127.0.0.1:1", ca=None))


def bearer(client: Client) -> str:
    return client.transport.headers()["Authorization"]


async def becomes(client: Client, token: str) -> None:
    async def changed() -> bool:
        return bearer(client) == f"Bearer {token}"

    await until(changed, f"the token to be {token}")


async def test_a_token_is_renewed_before_it_ends(plugin: Plugin) -> None:
    plugin.says(token="one", left=62)
    async with connection.host_client(plugin.host) as client:
        assert bearer(client) == "Bearer one"
        plugin.says(token="two", left=3600)
        await becomes(client, "two")
        # Once to begin, and once because the first answer came to its end.
        assert plugin.asked() == 2


async def test_a_token_that_is_good_for_long_is_asked_for_once(plugin: Plugin) -> None:
    plugin.says(token="one", left=3600)
    async with connection.host_client(plugin.host) as client:
        plugin.says(token="two", left=3600)
        await asyncio.sleep(0)
        assert (bearer(client), plugin.asked()) == ("Bearer one", 1)


async def test_a_token_without_an_end_is_renewed_once_it_is_refused_and_a_plugin_that_fails_changes_nothing(
    plugin: Plugin,
) -> None:
    plugin.says(token="one")
    async with connection.host_client(plugin.host) as client:
        (plugin.folder / "answer.json").write_text("{")
        client.refused()

        async def asked() -> bool:
            return plugin.asked() == 2

        await until(asked, "the plugin to be asked")
        assert bearer(client) == "Bearer one"
        plugin.says(token="two")
        client.refused()
        await becomes(client, "two")


class Server:
    """A server that knows one token, in place of the connections of a client."""

    def __init__(self, token: str) -> None:
        self.token = token

    async def ask(self, _: str, __: str, headers: dict[str, str], *___: object) -> Answer:
        if headers["Authorization"] == f"Bearer {self.token}":
            return Answer(200, b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}', {})
        return Answer(401, b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"m"}', {})


@pytest.mark.parametrize("left", [None, 3600])
async def test_a_refusal_renews_whatever_end_the_plugin_names(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch, left: float | None
) -> None:
    """It may name none, this machine may have slept, and its clock may be behind."""
    plugin.says(token="one", left=left)
    async with connection.host_client(plugin.host) as client:
        assert client.transport._calls is not None
        monkeypatch.setattr(client.transport._calls, "ask", Server("two").ask)
        plugin.says(token="two", left=left)
        with pytest.raises(Unauthorized):
            await client.get(PODS, "p", "n")
        await becomes(client, "two")
        assert (await client.get(PODS, "p", "n"))["metadata"]["name"] == "p"
        assert plugin.asked() == 2
        # What starts from now on, such as the prober of a chaos run, starts with these.
        assert client.config.token == "two"
        assert renewal.is_renewed(client)


async def test_a_kubeconfig_without_a_plugin_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(to_yaml(KubeConfig(server="https://127.0.0.1:1", token="one")))
    host = Host(str(path), None)
    async with connection.host_client(host) as client:
        client.refused()
        assert not client.renews
        assert not renewal.is_renewed(client)
        assert client._renewing is None
        assert bearer(client) == "Bearer one"


@pytest.mark.apiserver
async def test_a_new_certificate_is_shown_on_the_next_call(
    apiservers: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "_LEAST_SECONDS", 0.1)
    server = apiservers.host
    plugin = Plugin(tmp_path, server.admin)

    def shows(user: str) -> None:
        config = server.config_for(user)
        assert config.client_cert is not None
        assert config.client_key is not None
        plugin.says(clientCertificateData=config.client_cert.decode(), clientKeyData=config.client_key.decode())

    async def name(client: Client) -> str:
        found: dict[str, Any] = await client.create(_REVIEWS, {"kind": "SelfSubjectReview"})
        return str(found["status"]["userInfo"]["username"])

    shows("one")
    async with connection.host_client(plugin.host) as client:
        assert await name(client) == "one"
        shows("two")
        client.refused()

        async def other() -> bool:
            return await name(client) == "two"

        await until(other, "the new certificate to be shown")


async def test_a_tunnel_asks_for_others_once_its_credentials_are_refused(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It carries a user's commands for hours, and each of their connections is a request to the host."""
    plugin.says(token="one")
    made = tunnel.Tunnel(plugin.host, "red")

    async def ready(client: Client, _: str) -> list[str]:
        if bearer(client) != "Bearer two":
            raise Unauthorized(401, "Unauthorized", "the token has ended")
        return ["plane-0"]

    async def opened(*_: object) -> str:
        return "a connection"

    monkeypatch.setattr(tunnel, "_ready", ready)
    monkeypatch.setattr(tunnel, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(portforward, "open_port", opened)
    async with made._client:
        with pytest.raises(CliError, match="the token has ended"):
            await made._open(looking=0)
        plugin.says(token="two")
        assert str(await made._open()) == "a connection"


async def test_a_tunnel_without_a_plugin_says_at_once_that_its_credentials_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> list[str]:
        raise Unauthorized(401, "Unauthorized", "the token has ended")

    path = tmp_path / "kubeconfig"
    path.write_bytes(to_yaml(KubeConfig(server="https://127.0.0.1:1", token="one")))
    made = tunnel.Tunnel(Host(str(path), None), "red")
    monkeypatch.setattr(tunnel, "_ready", refused)
    async with asyncio.timeout(10), made._client:
        with pytest.raises(CliError, match="the token has ended"):
            await made._open()
