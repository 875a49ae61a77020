"""What is lent comes back: budgets hold until the deadline, notes stand there for everyone, and quotas say who has what."""

import pytest

from bulkhead.api import ledger, names
from bulkhead.api.objects import Obj
from bulkhead.kube.resources import POD_DISRUPTION_BUDGETS, PODS, RESOURCE_QUOTAS, TENANTS
from controller.dispatch.loop import Ledger
from tests.kit.background import background
from tests.kit.leading import leading
from tests.kit.ledgerhost import LedgerHost, Watched, gated, leads
from tests.kit.syncerbed import until

pytestmark = pytest.mark.ledgers


async def runs(host: LedgerHost, tenant: str, name: str) -> Obj:
    async def so() -> Obj | None:
        pod = await host.get(tenant, name)
        return pod if pod is not None and pod.get("status", {}).get("phase") == "Running" else None

    found: Obj = await until(so, f"{name} of {tenant} runs")
    return found


async def budget(host: LedgerHost, tenant: str) -> None:
    """A disruption budget for the pods of `held`. No controller counts for it here, so it allows nothing."""
    spec = {"minAvailable": "100%", "selector": {"matchLabels": {"keep": "yes"}}}
    await host.client.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "keep"}, "spec": spec}, names.work_namespace(tenant))


async def held(host: LedgerHost, tenant: str, name: str) -> None:
    """A pod of two GPUs that runs, and that the budget does not let go."""
    pod = host.pod(tenant, name, 2)
    pod["metadata"]["labels"]["keep"] = "yes"
    await host.client.create(PODS, pod, names.work_namespace(tenant))
    await runs(host, tenant, name)


def disrupted(pod: Obj) -> str | None:
    """The status of its condition DisruptionTarget; None without one."""
    return next((each["status"] for each in pod["status"].get("conditions") or [] if each["type"] == "DisruptionTarget"), None)


async def test_a_budget_holds_until_the_deadline_and_no_longer(ledger_host: LedgerHost) -> None:
    host = ledger_host
    room = {await host.node("n0", 4): 4}
    cohort = await host.cohort("lending", reclaim={"minRuntime": "0s", "within": "10s"})
    owner, borrower = [await host.tenant(name, 2, cohort, ceiling=4) for name in ("owner", "borrower")]
    await budget(host, borrower)
    async with leading(Ledger(host.client, leads)), Watched(host.client, room=room).watching():
        for number in range(2):
            await held(host, borrower, f"lent-{number}")
        standing = {"nominal": 2, "used": 4, "borrowed": 2}

        async def noted() -> bool:
            return standing.items() <= (await host.standing(borrower)).items() and (await host.standing(owner))["lent"] == 2

        await until(noted, "the quotas say what is borrowed and lent")
        await host.run(owner, "mine", 2)
        message = await host.told(owner, "mine", "WaitingForReclaim")
        assert "are reclaimed within 10 s" in message

        async def marked() -> Obj | None:
            found = [pod for pod in await host.pods(borrower) if ledger.RECLAIM in pod["metadata"]["annotations"]]
            return found[0] if found and disrupted(found[0]) else None

        victim = await until(marked, "one of them is told")
        note = ledger.read_reclaim(victim["metadata"]["annotations"])
        assert note is not None
        assert note.cause == "ReclaimedBorrowed"
        mine = await runs(host, owner, "mine")
        # The last to be asked is the deadline: the budget was honoured as long as that.
        assert (ledger.seconds(mine["status"]["startTime"]) or 0) >= int(note.by)
        assert [pod["metadata"]["uid"] for pod in await host.pods(borrower)] != [victim["metadata"]["uid"]]


async def test_a_pod_that_a_budget_holds_stays_once_no_pod_waits_for_its_quota(ledger_host: LedgerHost) -> None:
    host = ledger_host
    await host.node("n0", 2)
    cohort = await host.cohort("lending", reclaim={"minRuntime": "0s", "within": "1h"})
    # Nothing here takes what the owner's first pod asked for off its quota again.
    owner = await host.tenant("owner", 2, cohort, ceiling=4)
    borrower = await host.tenant("borrower", 0, cohort, ceiling=2)
    await budget(host, borrower)

    async def told(status: str) -> Obj | None:
        (pod,) = await host.pods(borrower)
        marked = ledger.RECLAIM in pod["metadata"]["annotations"]
        return pod if marked == (status == "True") and disrupted(pod) == status else None

    async with leading(Ledger(host.client, leads)):
        await held(host, borrower, "lent")
        for number in range(2):
            await host.run(owner, f"mine-{number}", 2)
            await until(lambda: told("True"), "it is told that it ends")
            await host.client.delete(PODS, f"mine-{number}", names.work_namespace(owner), grace_seconds=0)
            pod = await until(lambda: told("False"), "it is told that it stays")
            assert "deletionTimestamp" not in pod["metadata"]


async def test_over_a_lowered_quota_it_is_noted_since_when_and_taken_back_after_the_grace(ledger_host: LedgerHost) -> None:
    host = ledger_host
    await host.node("n0", 4)
    cohort = await host.cohort(
        "strict", overQuota={"policy": "Reclaim", "grace": "1s"}, reclaim={"minRuntime": "0s", "within": "10s"}
    )
    team = await host.tenant("team", 4, cohort, borrowing=0)
    async with leading(Ledger(host.client, leads)):
        for number in range(2):
            await host.run(team, f"p-{number}", 2)
            await runs(host, team, f"p-{number}")
        await host.give(team, 2, cohort, borrowing=0)

        async def lowered() -> bool:
            return len(await host.pods(team)) == 1

        await until(lowered, "one goes")

        async def forgotten() -> bool:
            quota = await host.client.get(RESOURCE_QUOTAS, names.POD_QUOTA, names.work_namespace(team))
            return ledger.OVER_SINCE not in quota["metadata"]["annotations"]

        await until(forgotten, "the ledger to remove its note of the excess")


async def test_since_when_it_is_over_is_forgotten_once_no_tenant_needs_the_ledger(ledger_host: LedgerHost) -> None:
    host = ledger_host
    await host.node("n0", 4)
    cohort = await host.cohort("strict", overQuota={"policy": "Reclaim", "grace": "1h"})
    team = await host.tenant("team", 2, cohort, borrowing=0)

    async def notes() -> Obj:
        quota = await host.client.get(RESOURCE_QUOTAS, names.POD_QUOTA, names.work_namespace(team))
        found: Obj = quota["metadata"]["annotations"]
        return found

    async def noted() -> bool:
        return ledger.OVER_SINCE in await notes()

    async def forgotten() -> bool:
        return ledger.OVER_SINCE not in await notes()

    async with leading(Ledger(host.client, leads)):
        await host.run(team, "p", 2)
        await runs(host, team, "p")
        await host.give(team, 1, cohort, borrowing=0)
        await until(noted, "it is noted")
        for member in host.tenants:
            await host.client.delete(TENANTS, member)
        await until(forgotten, "the ledger to remove its note of the excess")


async def test_a_pod_over_a_lowered_quota_reads_what_becomes_of_it_as_long_as_that_holds(
    ledger_host: LedgerHost,
) -> None:
    host = ledger_host
    await host.node("n0", 4)
    stays = await host.cohort("stays", overQuota={"policy": "Keep"})
    goes = await host.cohort("goes", overQuota={"policy": "Reclaim", "grace": "1h"})
    team, other = await host.tenant("team", 2, stays, borrowing=0), await host.tenant("other", 2, goes, borrowing=0)
    async with leading(Ledger(host.client, leads)):
        for each in (team, other):
            await host.run(each, "old", 1)
            await runs(host, each, "old")
            await host.run(each, "new", 1)
            await runs(host, each, "new")
        await host.give(team, 1, stays, borrowing=0)
        await host.give(other, 1, goes, borrowing=0)
        await host.told(team, "new", "OverQuota", "runs until it ends")
        await host.told(other, "new", "OverQuota", "evicted after 20")
        for each in (team, other):
            assert ledger.VERDICT not in (await host.get(each, "old") or {})["metadata"]["annotations"]
        await host.give(other, 2, goes, borrowing=0)

        async def silent() -> bool:
            return ledger.VERDICT not in (await host.get(other, "new") or {})["metadata"]["annotations"]

        await until(silent, "the report to end")
        # The control: where it still holds, it still stands.
        await host.told(team, "new", "OverQuota")
        assert len(await host.pods(team)) == len(await host.pods(other)) == 2


async def test_without_a_tenant_in_a_cohort_no_pod_is_watched_until_there_is_one(ledger_host: LedgerHost) -> None:
    host = ledger_host
    await host.node("n0", 4)
    team = await host.tenant("team", 2, ceiling=4)
    (member,) = host.tenants
    await host.client.delete(TENANTS, member)
    idle = Ledger(host.client, leads)
    async with background(idle.run()):
        await until(lambda: _looked(idle), "it has looked")
        await host.run(team, "early", 1)
        await host.member()
        await host.admitted(team, 1)
        # No tenant is in the cohort now, but a pod with the gate is still there.
        await host.run(team, "big", 2)
        await host.told(team, "big", "QuotaExceeded")
        await host.client.delete(TENANTS, member)
        # A kubelet that has not started it yet would say afterwards that it runs.
        await runs(host, team, "early")
        await host.end(team, "early")
        await host.admitted(team, 2)
        assert not any(map(gated, await host.pods(team)))


async def test_pods_with_the_gate_that_a_dead_controller_left_are_found(ledger_host: LedgerHost) -> None:
    host = ledger_host
    await host.node("n0", 4)
    team = await host.tenant("team", 2)
    (member,) = host.tenants
    await host.client.delete(TENANTS, member)
    await host.run(team, "early", 1)
    async with leading(Ledger(host.client, leads)):
        await host.admitted(team, 1)


async def _looked(idle: Ledger) -> bool:
    return idle.resting
