"""The controller as the process that it is in a pod: it leads, hands its lease over on SIGTERM, and outlives kopf."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bulkhead.api import names
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, NotFound
from bulkhead.kube.resources import LEASES, NAMESPACES, TENANTS
from controller import handlers
from controller.__main__ import LEASE
from tests.kit.crds import install
from tests.kit.kubeconfigs import to_yaml
from tests.kit.ports import free_port
from tests.kit.servers import ApiServer, running
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
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


async def _scraped(port: int) -> dict[tuple[str, str], float]:
    """The metrics of the process that have a tenant, or say whether it leads."""
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        text = await answer.text()
    return {
        (sample.name, sample.labels.get("tenant", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("tenant") or sample.name == "bulkhead_controller_leading"
    }


async def test_a_leader_that_loses_its_lease_takes_its_gauges_along(server: ApiServer, tmp_path: Path) -> None:
    config, log, port = tmp_path / "kubeconfig", tmp_path / "log", free_port()
    config.write_bytes(to_yaml(server.admin))
    given = {"KUBECONFIG": str(config), "BULKHEAD_HTTP_PORT": str(port), "BULKHEAD_IDENTITY": IDENTITY}
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        await install(client)
        await client.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SYSTEM_NAMESPACE}})
        # Of no class that there is: it is refused, which is reported as well.
        await client.apply(TENANTS, {"metadata": {"name": "gauged"}, "spec": {"class": "none"}})
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "controller", stderr=out, env=os.environ | given
            )
        try:

            async def reports() -> bool:
                assert process.returncode is None, log.read_text()
                try:
                    found = await _scraped(port)
                except aiohttp.ClientConnectionError:
                    return False
                leading = found[("bulkhead_controller_leading", "")] == 1
                return leading and ("bulkhead_tenant_ready", "gauged") in found

            await until(reports, "the leader reports the tenant")

            async def stands_down() -> bool:
                if await _holder(client) == IDENTITY:
                    taken = await client.get(LEASES, LEASE, names.SYSTEM_NAMESPACE)
                    taken["spec"] |= {"holderIdentity": "another", "leaseDurationSeconds": 3600}
                    with contextlib.suppress(Conflict):
                        await client.replace(LEASES, taken)
                return await _scraped(port) == {("bulkhead_controller_leading", ""): 0.0}

            await until(stands_down, "the process that no longer leads says nothing of tenants")
            assert process.returncode is None, log.read_text()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await client.delete(LEASES, LEASE, names.SYSTEM_NAMESPACE)


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
