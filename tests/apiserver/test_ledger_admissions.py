"""Admissions on a real API server with a real scheduler: no more than a quota, gangs whole, and every refusal says why."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from bulkhead.api import names
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden
from bulkhead.kube.resources import PODS
from controller.ledger.loop import Ledger
from tests.apiserver.ledgering import GPU, Host, Watched, gated
from tests.apiserver.servers import ApiServer, running, with_pod_groups
from tests.controller.leading import leading
from tests.controller.ledger.stub import decide

_AT_ONCE = 10
_ROUNDS = 20


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One for this file, with a scheduler, and kwok for kubelets."""
    with running("ledger", tmp_path_factory.mktemp("ledger"), with_pod_groups("10.96.0.0/16")) as server:
        server.start_scheduler()
        server.start_kwok()
        yield server


@pytest.fixture
async def host(own_server: ApiServer) -> AsyncIterator[Host]:
    async with Client(own_server.admin, user_agent="tests", field_manager="tests") as client, Host.open(client) as made:
        yield made


async def test_item_18_of_ten_at_once_exactly_five_are_admitted_two_hundred_times(host: Host) -> None:
    """Half of the tenants have a ceiling above their quota: the ledger refuses; half do not: the host's quota does."""
    for number in range(10):
        await host.node(f"n{number}")
    async with leading(Ledger(host.client, decide)):
        for number in range(_ROUNDS):
            wide = number % 2 == 0
            tenants = [
                await host.tenant(f"r{number}x{index}y", 5, ceiling=10 if wide else None, borrowing=0)
                for index in range(_AT_ONCE)
            ]
            watched = Watched(host.client, most={names.work_namespace(tenant): 5 for tenant in tenants})
            async with watched.watching():
                await asyncio.gather(*(_ten(host, tenant, wide=wide) for tenant in tenants))


async def _ten(host: Host, tenant: str, *, wide: bool) -> None:
    made = await asyncio.gather(*(host.run(tenant, f"p{number}") for number in range(10)), return_exceptions=True)
    refused = [each for each in made if isinstance(each, BaseException)]
    assert len(refused) == (0 if wide else 5)
    for each in refused:
        assert isinstance(each, Forbidden)
        assert f"exceeded quota: tenant-quota, requested: requests.{GPU}=1" in str(each)
    await host.admitted(tenant, 5, 60)
    waiting = [pod["metadata"]["name"] for pod in await host.pods(tenant) if gated(pod)]
    assert len(waiting) == (5 if wide else 0)
    for name in waiting:
        await host.told(tenant, name, "QuotaExceeded", "asks 1, 0 of 5 free in your quota", 60)
    assert len([pod for pod in await host.pods(tenant) if not gated(pod)]) == 5
    for pod in await host.pods(tenant):
        await host.client.delete(PODS, pod["metadata"]["name"], names.work_namespace(tenant), grace_seconds=0)
