"""A real syncer and the real ledger on one host: what a tenant sees in its plane of quota, gangs, lending and reclaim."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.api import labels, ledger, names
from bulkhead.kube.client import Client
from bulkhead.kube.resources import EVENTS, NODES, PODS, RESOURCE_QUOTAS
from bulkhead.ledger import given
from bulkhead.ledger.model import Share, Tenant
from controller.dispatch.loop import Ledger
from tests.kit.leading import leading
from tests.kit.ledgerhost import GPU, LINE, LedgerHost, leads
from tests.kit.syncerbed import SyncerBed, until

pytestmark = pytest.mark.ledgers

NOMINAL, CEILING = 4, 8


class Shared:
    """A tenant with a plane, and another one without; both own half of a node, and may borrow the other half."""

    def __init__(self, bed: SyncerBed, host: LedgerHost, cohort: str) -> None:
        self.bed = bed
        self.host = host
        self.cohort = cohort
        self.other = ""

    async def prepare(self) -> None:
        bed, host = self.bed, self.host
        await bed.prepare()
        # In its place one of which kwok plays the kubelet.
        await host.client.delete(NODES, bed.node)
        await host.node("n0", CEILING, pool=bed.tenant)
        quota = Tenant(bed.tenant, self.cohort, shares={LINE: Share(NOMINAL, CEILING - NOMINAL)})
        meta = {
            "name": names.POD_QUOTA,
            "labels": {labels.TENANT: bed.tenant},
            "annotations": {ledger.GIVEN: given.write(quota)},
        }
        # The syncer's own count must suffice: no controller here subtracts deleted pods from a ResourceQuota.
        await host.client.create(RESOURCE_QUOTAS, {"metadata": meta, "spec": {"hard": {"pods": "1000"}}}, bed.work)
        host.spaces.append(bed.work)
        self.other = await host.tenant("other", NOMINAL, self.cohort, CEILING, CEILING - NOMINAL)

    async def create(self, name: str, gpus: int, *, gang: tuple[str, int] | None = None, priority: str = "") -> None:
        made = self.bed.gpu_pod(name, gpus)
        made["spec"] |= {"priorityClassName": priority} if priority else {}
        if gang is not None:
            made["metadata"]["labels"] = {"kueue.x-k8s.io/pod-group-name": gang[0]}
            made["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(gang[1])}
        await self.bed.create(made)

    async def says(self, name: str, reason: str, text: str = "") -> None:
        async def so() -> bool:
            found = await self.bed.condition(name) or {}
            return found.get("reason") == reason and text in found.get("message", "")

        await until(so, f"{name} says {reason}: {text}")

    async def run(self, *pods: str) -> None:
        async def so() -> bool:
            found = [await self.bed.virtual(name) or {} for name in pods]
            return all((each.get("status") or {}).get("phase") == "Running" for each in found)

        await until(so, f"{pods} run in the plane", 60)


@pytest.fixture
async def shared(ledger_host: LedgerHost, plane_client: Client) -> AsyncIterator[Shared]:
    cohort = await ledger_host.cohort("quick", reclaim={"minRuntime": "1s", "within": "10s"})
    more: dict[str, Any] = {"limits": {GPU: CEILING}, "gatedResources": [GPU], "gatedGangs": True}
    bed = SyncerBed(ledger_host.client, plane_client, **more)
    made = Shared(bed, ledger_host, cohort)
    await made.prepare()
    try:
        await bed.start()
        async with leading(Ledger(ledger_host.client, leads)):
            yield made
    finally:
        await bed.stop()
        await bed.clean()


async def test_item_93_94_95_97_a_gang_borrows_whole_and_gives_back_whole(shared: Shared) -> None:
    bed, gang = shared.bed, [f"train-{number}" for number in range(3)]
    for name in gang[:2]:
        await shared.create(name, 2, gang=("train", 3))
    await shared.says(gang[0], "GangIncomplete", "2 of 3 pods")
    await bed.event(gang[0], "2 of 3 pods", reason="GangIncomplete")
    await shared.create(gang[2], 2, gang=("train", 3))
    await shared.run(*gang)

    async def borrows() -> bool:
        return (await shared.host.standing(bed.tenant)).get("borrowed") == 2

    await until(borrows, "two are borrowed")
    # There is room on the host for no more than two, of quota and of nodes.
    await shared.create("later", 3)
    await shared.says("later", "QuotaExceeded", "2 of these are borrowed")
    # The other one needs what is its own.
    await shared.host.run(shared.other, "mine", NOMINAL, nodeSelector={"pool": bed.tenant})
    await bed.event(gang[0], "at the latest", reason="ReclaimedBorrowed")

    async def ended() -> bool:
        return not [name for name in gang if await bed.virtual(name)]

    await until(ended, "all of the gang ended", 60)
    await shared.host.admitted(shared.other, 1)
    await shared.run("later")
    refused = [each for each in (await bed.plane.list(EVENTS, bed.space)).items if each["reason"] == "HostRefused"]
    assert refused == []


async def test_item_96_a_better_pod_comes_first_on_the_real_thing(shared: Shared) -> None:
    bed = shared.bed
    await shared.create("runs", 6)
    await shared.run("runs")
    await shared.create("first", 2, gang=("first", 2), priority=await bed.priority("usual", 3))
    await shared.says("first", "QuotaExceeded", "and the rest of its gang for 2 more")
    await shared.create("small", 1)
    await shared.says("small", "QuotaExceeded", "a pod that comes before it waits for the same")
    await bed.plane.delete(PODS, "runs", bed.space)
    await shared.says("first", "GangIncomplete")
    await shared.run("small")
