"""The ledger notes on a tenant's quota which places its waiting pods have: own pods alone, and gone when none waits."""

from bulkhead.api import ledger, names
from bulkhead.api.ledger import Place
from bulkhead.kube.resources import RESOURCE_QUOTAS
from controller.dispatch.loop import Ledger
from tests.kit.leading import leading
from tests.kit.ledgerhost import LedgerHost, leads
from tests.kit.syncerbed import until


async def test_each_tenant_is_noted_the_places_of_its_own_pods(ledger_host: LedgerHost) -> None:
    host = ledger_host
    await host.node("n0")
    cohort = await host.cohort("research")
    owner = await host.tenant("owner", 4, cohort, ceiling=8)
    user = await host.tenant("user", 4, cohort, ceiling=8)

    async def places(tenant: str) -> dict[str, Place]:
        quota = await host.client.get(RESOURCE_QUOTAS, names.POD_QUOTA, names.work_namespace(tenant))
        return ledger.read_queue(quota["metadata"].get("annotations") or {})

    async with leading(Ledger(host.client, leads)):
        await host.run(owner, "full", 4)
        await host.run(user, "also", 4)
        await host.admitted(owner, 1)
        await host.admitted(user, 1)
        waits = {tenant: await host.run(tenant, "waits", 2) for tenant in (owner, user)}
        uids = {tenant: pod["metadata"]["uid"] for tenant, pod in waits.items()}

        async def noted() -> bool:
            found = {tenant: await places(tenant) for tenant in (owner, user)}
            return all(set(found[tenant]) == {uids[tenant]} for tenant in found)

        await until(noted, "the places of both")
        assert {place.number for tenant in (owner, user) for place in (await places(tenant)).values()} == {1, 2}
        for tenant in (owner, user):
            await host.end(tenant, "waits")

        async def none() -> bool:
            return not await places(owner) and not await places(user)

        await until(none, "no place once none waits")
