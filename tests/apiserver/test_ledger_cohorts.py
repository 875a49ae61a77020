"""The status of a Cohort on a real API server: the sum of its tenants, and which of its rules cannot work."""

from typing import Any

from bulkhead.kube.resources import COHORTS, TENANTS
from controller.dispatch.loop import Ledger
from tests.kit.leading import leading
from tests.kit.ledgerhost import GPU, LedgerHost, leads
from tests.kit.syncerbed import until


async def said(host: LedgerHost, name: str, **wanted: Any) -> dict[str, Any]:
    """Wait until the status says this, and what its reason is."""

    async def so() -> dict[str, Any] | None:
        found: dict[str, Any] = (await host.client.get(COHORTS, name)).get("status") or {}
        reason = next((each["reason"] for each in found.get("conditions", ())), "")
        return found if all((found | {"reason": reason}).get(key) == value for key, value in wanted.items()) else None

    status: dict[str, Any] = await until(so, f"{name} says {wanted}")
    return status


async def test_it_says_what_runs_and_what_waits(ledger_host: LedgerHost) -> None:
    host = ledger_host
    await host.node("n0")
    cohort = await host.cohort("research")
    owner = await host.tenant("owner", 4, cohort, ceiling=8)
    user = await host.tenant("user", 4, cohort, ceiling=8)
    async with leading(Ledger(host.client, leads)):
        found = await said(host, cohort, tenants=2, devices="0/8", waiting=0, borrowed=0, reason="RulesWork")
        assert found["tenantNames"] == sorted([owner, user])
        generation = (await host.client.get(COHORTS, cohort))["metadata"]["generation"]
        assert found["observedGeneration"] == found["conditions"][0]["observedGeneration"] == generation
        for name in ("one", "two"):
            await host.run(user, name, 3)
        await host.run(user, "three", 1, gang=("halves", 2))
        found = await said(host, cohort, devices="6/8", waiting=1, borrowed=2)
        line = {"name": GPU, "nominal": 8, "used": 6, "borrowed": 2, "lent": 2, "waiting": 1}
        assert found["resources"] == [line]
        # Another client's change of the status does not stay.
        await host.client.patch(COHORTS, cohort, {"status": {"waiting": 77, "tenantNames": ["forged"]}}, subresource="status")
        await host.run(owner, "mine", 1)
        found = await said(host, cohort, waiting=1, devices="7/8")
        assert found["tenantNames"] == sorted([owner, user])
        # The rules change, and what was counted speaks of them.
        flavors = [{"name": "fast", "resource": GPU, "nodeLabels": {"kind": "fast"}}]
        await host.client.patch(COHORTS, cohort, {"spec": {"flavors": flavors}})
        found = await said(host, cohort, reason="NoNodes", observedGeneration=generation + 1)
        assert found["conditions"][0]["message"] == f"no node carries the labels of flavor fast of {GPU}"


async def test_a_cohort_without_an_object_gets_none_and_one_without_tenants_says_so(ledger_host: LedgerHost) -> None:
    host = ledger_host
    cohort = await host.cohort("idle")
    await host.tenant("alone", 4, f"bare-{host.mark}")
    async with leading(Ledger(host.client, leads)):
        await said(host, cohort, tenants=0, reason="NoTenants")
        names = {each["metadata"]["name"] for each in (await host.client.list(COHORTS)).items}
        assert f"bare-{host.mark}" not in names
        assert cohort in names


async def test_a_ledger_at_rest_says_so_too(ledger_host: LedgerHost) -> None:
    host = ledger_host
    for name in host.tenants:
        await host.client.delete(TENANTS, name)
    ledger = Ledger(host.client, leads)
    async with leading(ledger):

        async def rests() -> bool:
            return ledger.resting

        await until(rests, "no tenant to need the ledger")
        cohort = await host.cohort("later")
        await said(host, cohort, tenants=0, devices="0/0", reason="NoTenants")
