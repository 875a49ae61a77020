"""A tenant's own quota in its plane, over two real API servers: its figures, few writes, and put back when changed."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.api import ledger, names, ownquota, ownusage
from bulkhead.api.objects import Obj
from bulkhead.api.ownusage import DayUse, OwnUsage
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import CONFIG_MAPS, PODS, RESOURCE_QUOTAS, ROLE_BINDINGS, ROLES, SUBJECT_ACCESS_REVIEWS
from controller.inside.objects import bootstrap
from controller.plane.pki import SYNCER_USER
from syncer import ownquota as writer
from syncer.metrics import VIRTUAL_WRITES
from tests.kit.syncerbed import SyncerBed, until

GPU = "nvidia.com/gpu"
CANARY = "canary-of-another-tenant"


@pytest.fixture
async def waiting(host_client: Client, plane_client: Client) -> AsyncIterator[SyncerBed]:
    """A tenant in a cohort: its pods wait at the ledger's gate."""
    async with SyncerBed.open(host_client, plane_client, gatedResources=[GPU], limits={GPU: 16}) as opened:
        yield opened


async def shown(bed: SyncerBed) -> Obj | None:
    try:
        return await bed.plane.get(CONFIG_MAPS, ownquota.CONFIG_MAP, ownquota.NAMESPACE)
    except NotFound:
        return None


async def told(bed: SyncerBed, what: str, check: Any) -> ownquota.OwnQuota:
    async def so() -> ownquota.OwnQuota | None:
        found = ownquota.read(await shown(bed) or {})
        return found[0] if found is not None and check(found[0]) else None

    own: ownquota.OwnQuota = await until(so, what)
    return own


def writes() -> float:
    return sum(VIRTUAL_WRITES.labels("ConfigMap", verb)._value.get() for verb in ("update",))


async def test_item_98_the_plane_shows_the_tenants_own_quota_and_puts_it_back(
    waiting: SyncerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = waiting
    # How often it may be written is another test's; this one would wait for half a dozen writes.
    monkeypatch.setattr(writer, "PACE_SECONDS", 0.1)
    counts = {"nominal": 4, "ceiling": 16, "used": 6, "borrowed": 2, "lent": 0, "borrowable": 10}
    quota = {"metadata": {"name": names.POD_QUOTA}, "spec": {"hard": {"pods": "50", f"requests.{GPU}": "16"}}}
    await bed.host.create(RESOURCE_QUOTAS, quota, bed.work)
    status = {"status": {"hard": quota["spec"]["hard"], "used": {"pods": "0", f"requests.{GPU}": "0"}}}
    await bed.host.patch(RESOURCE_QUOTAS, names.POD_QUOTA, status, bed.work, subresource="status")
    for name in ("one", "two"):
        await bed.plane.create(PODS, bed.gpu_pod(name, 8))
    first, second = [await bed.mirrored(name) for name in ("one", "two")]
    status["status"]["used"] = {"pods": "3", f"requests.{GPU}": "6"}
    await bed.host.patch(RESOURCE_QUOTAS, names.POD_QUOTA, status, bed.work, subresource="status")
    # The ledger notes places by host pods; those of others, and of pods that are gone, are in no picture.
    queue = {
        first["metadata"]["uid"]: ledger.Place(3, 1_900_000_000.0),
        second["metadata"]["uid"]: ledger.Place(5),
        CANARY: ledger.Place(1),
    }
    note = {
        ledger.STANDING: ledger.write_standing({("", GPU): counts}),
        ledger.QUEUE: ledger.write_queue(queue),
        "bulkhead.dev/given": json.dumps({"cohort": CANARY}),
        "example.com/note": CANARY,
    }
    await bed.host.patch(RESOURCE_QUOTAS, names.POD_QUOTA, {"metadata": {"annotations": note}}, bed.work)

    own = await told(bed, "the ledger's figures and both places", lambda own: len(own.queue) == 2 and own.lines[0].used == 6)
    assert own.lines == (ownquota.OwnLine(GPU, "", **counts),)
    assert own.in_cohort
    assert sum(own.waiting.values()) == 2
    uids = [((await bed.virtual(name)) or {})["metadata"]["uid"] for name in ("one", "two")]
    assert own.queue == {uids[0]: ledger.Place(3, 1_900_000_000.0), uids[1]: ledger.Place(5)}
    assert [(limit.name, limit.hard, limit.used) for limit in own.limits] == [("pods", "50", "3")]
    text = json.dumps(await shown(bed))
    assert CANARY not in text
    # A positive control for the canary: it was there to be seen.
    assert CANARY in json.dumps(await bed.host.get(RESOURCE_QUOTAS, names.POD_QUOTA, bed.work))

    # What the tenant writes is put back, whatever it is.
    forged = {"data": {ownquota.FILE: "{}", "more": "x"}, "metadata": {"labels": {"mine": "yes"}}, "immutable": True}
    await bed.plane.patch(CONFIG_MAPS, ownquota.CONFIG_MAP, forged, ownquota.NAMESPACE)
    await told(bed, "the picture is back", lambda own: own.lines and own.lines[0].used == 6)
    assert set(((await shown(bed)) or {})["data"]) == {ownquota.FILE}
    before = ((await shown(bed)) or {})["metadata"]["uid"]
    await bed.plane.delete(CONFIG_MAPS, ownquota.CONFIG_MAP, ownquota.NAMESPACE)

    async def anew() -> bool:
        found = await shown(bed)
        return found is not None and found["metadata"]["uid"] != before

    await until(anew, "the picture is back after its deletion")

    # The controller notes device-hours on the quota; they are in the plane with the quota.
    usage = OwnUsage(1_800_000_000.0, (DayUse("2026-11-26", GPU, "h100", used=7200, idle=600),))
    noted = {"metadata": {"annotations": {ownusage.ANNOTATION: ownusage.write(usage)}}}
    await bed.host.patch(RESOURCE_QUOTAS, names.POD_QUOTA, noted, bed.work)

    async def counted() -> bool:
        return ownusage.of_config_map((await shown(bed)) or {}) == usage

    await until(counted, "the device-hours are in the plane")


async def test_item_98_a_burst_of_pods_costs_few_writes_of_the_picture(waiting: SyncerBed) -> None:
    bed = waiting
    await until(lambda: shown(bed), "a picture")
    begun, before = time.monotonic(), writes()
    await asyncio.gather(*(bed.plane.create(PODS, bed.gpu_pod(f"p{number}", 99)) for number in range(120)))
    await told(bed, "all of them wait", lambda own: sum(own.waiting.values()) == 120)
    most = 1 + (time.monotonic() - begun) / writer.PACE_SECONDS + 1
    assert writes() - before <= most, "one write in each pace, however many pods"


async def test_item_98_a_plane_that_refuses_the_picture_costs_nothing_else(waiting: SyncerBed, monkeypatch: Any) -> None:
    bed = waiting
    assert bed.session is not None
    refused = 0

    async def refuse(wanted: Obj) -> None:
        nonlocal refused
        refused += 1
        raise NotFound(404, "NotFound", "not now")

    monkeypatch.setattr(bed.session.own_quota, "_write", refuse)
    await bed.plane.create(PODS, bed.gpu_pod("one", 8))
    await bed.mirrored("one")

    async def tried() -> bool:
        return refused > 0

    await until(tried, "one attempt")
    assert refused == 1, "the next attempt is half a minute later"


async def test_the_syncer_alone_may_write_it_and_every_user_may_read_it(plane_client: Client) -> None:
    for obj in bootstrap._own_quota():
        await plane_client.apply({"Role": ROLES, "RoleBinding": ROLE_BINDINGS}[obj["kind"]], obj)

    async def may(user: str, verb: str, name: str = ownquota.CONFIG_MAP, namespace: str = ownquota.NAMESPACE) -> bool:
        asked = {"resource": "configmaps", "verb": verb, "name": name, "namespace": namespace}
        spec = {"user": user, "groups": ["system:authenticated"], "resourceAttributes": asked}
        return bool((await plane_client.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec}))["status"]["allowed"])

    async def known() -> bool:
        return await may("eve", "get") and await may(SYNCER_USER, "update")

    await until(known, "the rights to be known")
    assert [await may(SYNCER_USER, verb) for verb in ("get", "create", "update", "delete")] == [True] * 4
    assert [await may("eve", verb) for verb in ("get", "list", "watch", "create", "update", "patch", "delete")] == [
        True
    ] * 3 + [False] * 4
    for user in ("eve", SYNCER_USER):
        assert not await may(user, "update", name="cluster-info")
        assert not await may(user, "delete", namespace="default")
    assert not await may("eve", "get", name="of-others")
