"""The console on a host whose API answers 429, or nothing, for some kinds: the picture comes, and says what is not in it."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bulkhead.api import names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit import sickserver
from tests.kit.background import background
from tests.kit.crds import install
from tests.kit.syncerbed import until
from workstation.cli.console import watched
from workstation.cli.console.live import Live
from workstation.console.board import Board

pytestmark = pytest.mark.apiserver


@pytest.mark.parametrize("how", ["throttled", "hanging"])
async def test_a_kind_that_is_not_answered_keeps_no_picture_back(
    host_client: Client, host_config: KubeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(watched, "PATIENCE_SECONDS", 1.0)
    await install(host_client)
    name = f"t-{secrets.token_hex(4)}"
    tenant = {"apiVersion": names.API_VERSION, "kind": "Tenant", "metadata": {"name": name}, "spec": {"class": "standard"}}
    await host_client.create(kinds.TENANTS, tenant)
    async with sickserver.before(host_config, tmp_path) as sick:
        setattr(sick, how, {"deployments", "resourceclaims"})
        async with Client(sick.config, user_agent="tests", field_manager="tests", timeout=3.0) as client:
            live = Live(client, "tests", Board())
            async with background(live.run()):
                async with asyncio.timeout(60):
                    await live.first.wait()
                await until(_whole(live), "the map and the queue")
                picture = live.picture
                assert picture is not None
                assert [what.partition(":")[0] for what in picture.unread if "certificates" not in what] == [
                    "whether the controller runs",
                    "claims for devices",
                ]
                (row,) = [row for row in picture.tenants if row.name == name]
                assert row.reason == "ControllerUnknown", "what was not read is not down"
                setattr(sick, how, set())
                await until(_unread(live, "whether the controller runs"), "the controller to be in the picture", seconds=120)
    await host_client.delete(kinds.TENANTS, name)


def _whole(live: Live) -> Callable[[], Awaitable[bool]]:
    async def whole() -> bool:
        return live.picture is not None and not live.picture.reading

    return whole


def _unread(live: Live, what: str) -> Callable[[], Awaitable[bool]]:
    async def read() -> bool:
        return live.picture is not None and not any(item.startswith(what) for item in live.picture.unread)

    return read
