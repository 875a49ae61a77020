"""Gangs on a real API server with a scheduler: whole or not at all, in one domain, taken back whole if they cannot start."""

import pytest

from bulkhead.api import ledger, names
from bulkhead.kube.resources import COHORTS, NODES
from controller.dispatch.loop import Ledger
from tests.kit.leading import leading
from tests.kit.ledgerhost import LedgerHost, Watched, gated, leads
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until

pytestmark = pytest.mark.ledgers

RACK = "bulkhead.dev/rack"


async def bound(host: LedgerHost, tenant: str, number: int) -> set[str]:
    """Wait until so many pods run; returns their nodes."""

    async def so() -> set[str] | None:
        found = [pod for pod in await host.pods(tenant) if pod.get("status", {}).get("phase") == "Running"]
        return {pod["spec"]["nodeName"] for pod in found} if len(found) == number else None

    found: set[str] = await until(so, f"{number} pods of {tenant} run")
    return found


async def test_a_gang_starts_whole_or_waits_whole(ledger_host: LedgerHost) -> None:
    host = ledger_host
    first = await host.node("n0")
    team = await host.tenant("team", 32)
    space = names.work_namespace(team)
    watched = Watched(host.client, most={space: 32}, room={first: 8})
    async with leading(Ledger(host.client, leads)), watched.watching():
        for number in range(3):
            await host.run(team, f"train-{number}", 4, gang=("train", 3))
        for number in range(3):
            await host.told(team, f"train-{number}", "NeverFits")
        assert all(gated(pod) for pod in await host.pods(team))
        # One more pod fits beside none of them, and takes no place of the gang's.
        second = await host.node("n1")
        assert await bound(host, team, 3) == {first, second}
        for pod in await host.pods(team):
            notes = pod["metadata"]["annotations"]
            assert ledger.VERDICT not in notes
            noted = ledger.read_admitted(notes)
            assert noted is not None
            assert noted.pinned
            assert noted.node == pod["spec"]["nodeName"] == pod["spec"]["nodeSelector"]["kubernetes.io/hostname"]


async def test_a_gang_that_has_not_come_whole_waits_and_says_so(ledger_host: LedgerHost) -> None:
    host = ledger_host
    await host.node("n0")
    team = await host.tenant("team", 8)
    async with leading(Ledger(host.client, leads)):
        await host.run(team, "train-0", 1, gang=("train", 2))
        await host.told(team, "train-0", "GangIncomplete")
        await host.run(team, "train-1", 1, gang=("train", 2))
        await bound(host, team, 2)


async def test_all_of_a_gang_are_in_one_domain(ledger_host: LedgerHost) -> None:
    host = ledger_host
    for number, gpus in enumerate((8, 4, 8, 8)):
        await host.node(f"n{number}", gpus, **{RACK.replace("/", "__"): f"rack-{number // 2}"})
    team = await host.tenant("team", 64)
    async with leading(Ledger(host.client, leads)):
        for number in range(2):
            await host.run(team, f"train-{number}", 8, gang=("train", 2), topology=f"required:{RACK}")
        assert await bound(host, team, 2) == set(host.nodes[2:])


async def test_a_gang_that_is_not_bound_is_taken_back_whole_and_goes_elsewhere(
    ledger_host: LedgerHost, scheduled_server: ApiServer
) -> None:
    """Between admission and binding its node is closed."""
    host = ledger_host
    bad, good = await host.node("n0"), await host.node("n1")
    await host.client.patch(NODES, good, {"spec": {"unschedulable": True}})
    cohort = await host.cohort("quick", gangs={"bindWithin": "10m"})
    team = await host.tenant("team", 16, cohort)
    scheduled_server.kill("kube-scheduler")
    watched = Watched(host.client, most={names.work_namespace(team): 8}, room={bad: 8, good: 8})
    async with leading(Ledger(host.client, leads)), watched.watching():
        first = [await host.run(team, f"train-{number}", 4, gang=("train", 2)) for number in range(2)]
        assert {pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] for pod in await host.admitted(team, 2)} == {bad}
        await host.client.patch(NODES, bad, {"spec": {"unschedulable": True}})
        scheduled_server.start_scheduler()
        # Now that this was seen of it: the gang is late from here on.
        await host.client.patch(COHORTS, cohort, {"spec": {"gangs": {"bindWithin": "5s"}}})

        async def taken_back() -> bool:
            return not await host.pods(team)

        await until(taken_back, "both are taken back")
        # As the syncer does.
        for pod in first:
            await host.run(team, pod["metadata"]["name"], 4, gang=("train", 2))
        await host.told(team, "train-0", "NoCapacity")
        await host.client.patch(NODES, good, {"spec": {"unschedulable": None}})
        assert await bound(host, team, 2) == {good}
