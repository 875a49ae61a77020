"""Admissions on a real API server with a real scheduler: no more than a quota, gangs whole, and every refusal says why."""

import asyncio
import os

from bulkhead.api import names
from bulkhead.kube.errors import Forbidden
from bulkhead.kube.resources import PODS
from controller.dispatch.loop import Ledger
from tests.kit.leading import leading
from tests.kit.ledgerhost import GPU, LedgerHost, Watched, gated, leads, verdict
from tests.kit.syncerbed import until

_AT_ONCE = 10  # tenants
_ROUNDS = int(os.environ.get("LEDGER_ROUNDS", "2"))  # `make hunt` goes twenty, for two hundred tenants


async def test_of_ten_at_once_exactly_five_are_admitted(ledger_host: LedgerHost) -> None:
    """Half of the tenants have a ceiling above their quota: the ledger refuses; half do not: the host's quota does."""
    host = ledger_host
    for number in range(10):
        await host.node(f"n{number}")
    async with leading(Ledger(host.client, leads)):
        for number in range(_ROUNDS):
            wide = number % 2 == 0
            tenants = [
                await host.tenant(f"r{number}x{index}y", 5, ceiling=10 if wide else None, borrowing=0)
                for index in range(_AT_ONCE)
            ]
            watched = Watched(host.client, most={names.work_namespace(tenant): 5 for tenant in tenants})
            async with watched.watching():
                await asyncio.gather(*(_ten(host, tenant, wide=wide) for tenant in tenants))


async def _ten(host: LedgerHost, tenant: str, *, wide: bool) -> None:
    made = await asyncio.gather(*(host.run(tenant, f"p{number}") for number in range(10)), return_exceptions=True)
    refused = [each for each in made if isinstance(each, BaseException)]
    assert len(refused) == (0 if wide else 5)
    for each in refused:
        assert isinstance(each, Forbidden)
        assert f"exceeded quota: tenant-quota, requested: requests.{GPU}=1" in str(each)
    await host.admitted(tenant, 5)
    waiting = [pod["metadata"]["name"] for pod in await host.pods(tenant) if gated(pod)]
    assert len(waiting) == (5 if wide else 0)
    if wide:
        await until(lambda: _answered(host, tenant), f"every pod of {tenant} that waits says why")
    assert len([pod for pod in await host.pods(tenant) if not gated(pod)]) == 5
    for pod in await host.pods(tenant):
        await host.client.delete(PODS, pod["metadata"]["name"], names.work_namespace(tenant), grace_seconds=0)


async def _answered(host: LedgerHost, tenant: str) -> bool:
    """The first that waits reads what is free of its quota, and those behind it read the quota that they wait for."""
    said = [verdict(pod) for pod in await host.pods(tenant) if gated(pod)]
    first = [each for each in said if each == ("QuotaExceeded", f"requests 1 {GPU}; 0 of your quota of 5 are free")]
    queued = f"requests 1 {GPU}; waits behind other workloads in its queue for your quota of 5 {GPU}"
    return (len(first), sum(each is not None and each[1].startswith(queued) for each in said)) == (1, 4)
