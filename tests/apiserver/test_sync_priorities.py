"""Pods that ask for a class of the host's own components, between two real API servers."""

import pytest

from bulkhead.kube.resources import PODS
from syncer.translate.podspec import scheduling
from tests.kit.syncerbed import SyncerBed, until


@pytest.mark.parametrize("name", ["system-cluster-critical", "system-node-critical"])
async def test_item_45_it_runs_as_any_other_and_an_event_says_so(bed: SyncerBed, name: str) -> None:
    virtual = await bed.create(bed.pod("critical", priorityClassName=name))
    assert virtual["spec"]["priority"] >= 2_000_000_000
    await bed.create(bed.pod("plain"))
    critical, plain = await bed.mirrored("critical"), await bed.mirrored("plain")
    assert critical["spec"].get("priorityClassName") == plain["spec"].get("priorityClassName")
    assert critical["spec"]["priority"] == plain["spec"]["priority"] < 1_000_000_000

    async def reported() -> bool:
        return any(name in each for each in await told(bed, "critical"))

    await until(reported, "an event that says what became of its class")
    assert await told(bed, "plain") == []
    assert (await bed.plane.get(PODS, "critical", bed.space))["spec"]["priorityClassName"] == name


async def told(bed: SyncerBed, name: str) -> list[str]:
    return [each["message"] for each in await bed.events(name) if each["reason"] == scheduling.MAPPED]
