"""The controller as the process that it is in a pod: it leads, hands its lease over on SIGTERM, and outlives kopf."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kopf
import pytest

from bulkhead.api import names
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import LEASES, NAMESPACES
from controller import handlers
from controller.__main__ import LEASE
from tests.kit.crds import install
from tests.kit.kubeconfigs import to_yaml
from tests.kit.ports import free_port
from tests.kit.servers import ApiServer, running
from tests.kit.syncerbed import until

pytestmark = pytest.mark.apiserver
IDENTITY = "the-one"


async def _holder(client: Client) -> str:
    try:
        lease = await client.get(LEASES, LEASE, names.SYSTEM_NAMESPACE)
    except NotFound:
        return ""
    return str(lease["spec"].get("holderIdentity") or "")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A host of this file's own, on which no other controller leads."""
    with running("led", tmp_path_factory.mktemp("led")) as made:
        yield made


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_and_the_next_one_need_not_wait(
    server: ApiServer, tmp_path: Path, number: signal.Signals
) -> None:
    config, log = tmp_path / "kubeconfig", tmp_path / "log"
    config.write_bytes(to_yaml(server.admin))
    given = {"KUBECONFIG": str(config), "BULKHEAD_HTTP_PORT": str(free_port()), "BULKHEAD_IDENTITY": IDENTITY}
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        await install(client)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SYSTEM_NAMESPACE}}
        await client.apply(NAMESPACES, space)
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "controller", stderr=out, env=os.environ | given
            )
        try:

            async def leads() -> bool:
                assert process.returncode is None, log.read_text()
                return await _holder(client) == IDENTITY

            await until(leads, "the lease")
            process.send_signal(number)
            async with asyncio.timeout(60):
                assert await process.wait() == 0, log.read_text()
            assert await _holder(client) == "", log.read_text()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def test_the_end_of_kopf_ends_nothing_else(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    real, started = kopf.operator, asyncio.Event()
    ours = asyncio.get_running_loop()

    async def ends_by_itself(**given: Any) -> None:
        ours.call_soon_threadsafe(started.set)
        await real(**given | {"stop_flag": asyncio.ensure_future(asyncio.sleep(1))})

    monkeypatch.setattr(kopf, "operator", ends_by_itself)
    watching = asyncio.create_task(handlers.run(handlers.Events(str), server.admin))
    await started.wait()
    bystander = asyncio.create_task(asyncio.Event().wait())
    async with asyncio.timeout(120):
        with pytest.raises(RuntimeError, match="kopf ended by itself"):
            await watching
    assert not bystander.cancelled()
    assert not bystander.cancelling()
    bystander.cancel()
