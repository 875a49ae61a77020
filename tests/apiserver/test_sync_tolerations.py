"""Taints that an admin keeps a node with, and pods that tolerate everything, between two real API servers."""

from collections.abc import AsyncIterator

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import PODS
from syncer.translate.kinds import pod
from syncer.translate.podspec import tolerations
from tests.kit.syncerbed import SyncerBed, until

POOL = {"key": "pool", "operator": "Exists", "effect": "NoSchedule"}
RESERVED = {"key": "example.com/reserved-for", "operator": "Exists"}


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[SyncerBed]:
    async with SyncerBed.open(host_client, plane_client, allowedTolerations=[POOL]) as opened:
        yield opened


def keys(host: Obj) -> list[str]:
    return [each["key"] for each in host["spec"]["tolerations"]]


async def narrowed(bed: SyncerBed, name: str) -> list[str]:
    return [each["message"] for each in await bed.events(name) if each["reason"] == tolerations.NARROWED]


async def test_item_39_a_pod_tolerates_what_its_class_allows_and_reads_what_not(bed: SyncerBed) -> None:
    await bed.create(bed.pod("daemon", tolerations=[{"operator": "Exists"}, RESERVED]))
    await bed.create(bed.pod("plain", tolerations=[POOL]))
    daemon, plain = await bed.mirrored("daemon"), await bed.mirrored("plain")
    assert POOL in daemon["spec"]["tolerations"]
    assert set(keys(daemon)) == {"pool", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}

    async def reported() -> bool:
        return any("every taint, example.com/reserved-for" in each for each in await narrowed(bed, "daemon"))

    await until(reported, "an event that says what was narrowed")
    # Events are written in order: those about plain would be there by now.
    assert POOL in plain["spec"]["tolerations"]
    assert await narrowed(bed, "plain") == []


async def test_a_pod_that_asks_for_longer_than_its_class_allows_to_end_reads_so(
    host_client: Client, plane_client: Client
) -> None:
    async with SyncerBed.open(host_client, plane_client, maxGraceSeconds=60) as bed:
        host = await bed.running("slow", bed.pod("slow", terminationGracePeriodSeconds=600))
        assert host["spec"]["terminationGracePeriodSeconds"] == 60
        event = await bed.event("slow", "must be at most 60, not 600", reason=pod.SHORTENED)
        assert event["type"] == "Warning"
        await bed.plane.delete(PODS, "slow", bed.space)

        async def ends() -> bool:
            host = await bed.mirror("slow")
            return host is not None and host["metadata"].get("deletionGracePeriodSeconds") == 60

        await until(ends, "the host pod ends within a minute")


async def test_item_39_40_what_is_added_later_is_held_to_the_class_too(bed: SyncerBed) -> None:
    virtual = await bed.create(bed.pod("late"))
    await bed.mirrored("late")
    have = (await bed.plane.get(PODS, "late", bed.space))["spec"]["tolerations"]
    body = {"spec": {"tolerations": [*have, RESERVED, POOL, {"operator": "Exists"}]}}
    await bed.plane.patch(PODS, virtual["metadata"]["name"], body, bed.space)

    async def there() -> bool:
        host = await bed.mirror("late")
        return host is not None and POOL in host["spec"]["tolerations"]

    await until(there, "the toleration that the class allows")
    assert RESERVED["key"] not in keys(await bed.mirrored("late"))
