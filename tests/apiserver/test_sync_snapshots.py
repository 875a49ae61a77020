"""Volume snapshots between two real API servers; neither snapshot controller nor driver runs: the test writes what they would.

What a claim gets of a snapshot's data is the host's provisioner's doing, and nothing here shows it.
"""

from collections.abc import AsyncIterator

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    RESOURCE_QUOTAS,
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOTS,
)
from tests.kit.snapshotting import (
    NAME,
    OFFER,
    READY,
    blocked,
    controller_says,
    restore,
    says,
    take,
)
from tests.kit.syncerbed import SyncerBed, until
from tests.kit.syncersettings import settings_for

CONTENT = "snapcontent-1b7c0d4e-6a3f-4f64-9d1e-3f0a7b8c9d0e"


@pytest.fixture
async def bed(snapshot_sides: tuple[Client, Client]) -> AsyncIterator[SyncerBed]:
    async with SyncerBed.open(*snapshot_sides, **OFFER) as opened:
        yield opened


async def test_item_35_a_snapshot_is_taken_on_the_host_and_shown_in_the_plane(bed: SyncerBed) -> None:
    async def offered() -> Obj | None:
        found = {each["metadata"]["name"]: each for each in (await bed.plane.list(VOLUME_SNAPSHOT_CLASSES)).items}
        return found.get("daily") if "of-the-host" not in found else None

    shown = await until(offered, "the class that is offered alone in the plane")
    assert (shown["driver"], shown["metadata"]["labels"]) == ("disk.example.org", {marks.PLATFORM: "true"})
    assert "of-the-host" not in str(await bed.plane.list(VOLUME_SNAPSHOT_CLASSES)), "nor does it stand in another's parameters"
    made = await take(bed, "nightly", {"labels": {"app": "db"}, "annotations": {"example.org/a": "b"}})
    host = await bed.copied(VOLUME_SNAPSHOTS, "nightly")
    assert host["spec"] == {
        "source": {"persistentVolumeClaimName": bed.host_name("PersistentVolumeClaim", "data")},
        "volumeSnapshotClassName": "daily",
    }
    assert host["metadata"]["labels"]["app"] == "db"
    assert host["metadata"]["labels"][marks.VIRTUAL_UID] == made["metadata"]["uid"]
    assert all(key.startswith("bulkhead.dev/") for key in host["metadata"]["annotations"])

    names = f"{host['metadata']['name']} of {host['spec']['source']['persistentVolumeClaimName']} as {CONTENT}"
    error = {"time": "2026-01-01T00:00:00Z", "message": f"cannot take {names} in {bed.work}"}
    await controller_says(bed, "nightly", {"readyToUse": False, "error": error})
    plain = {"time": error["time"], "message": f"cannot take nightly of data as (hidden) in {bed.space}"}
    await says(bed, "nightly", {"readyToUse": False, "error": plain})
    await controller_says(bed, "nightly", READY | {"error": None, "boundVolumeSnapshotContentName": CONTENT})
    await says(bed, "nightly", READY)

    # What the tenant writes there instead is put right, and a label of it follows.
    forged = {"status": {"restoreSize": "1Ki", "boundVolumeSnapshotContentName": "mine"}}
    await bed.plane.patch(VOLUME_SNAPSHOTS, "nightly", forged, bed.space, subresource="status")
    await says(bed, "nightly", READY)
    await bed.plane.patch(VOLUME_SNAPSHOTS, "nightly", {"metadata": {"labels": {"app": "web"}}}, bed.space)

    async def relabelled() -> bool:
        return bool(((await bed.copy(VOLUME_SNAPSHOTS, "nightly")) or {})["metadata"]["labels"]["app"] == "web")

    await until(relabelled, "the label on the host")
    assert host["metadata"]["uid"] == (await bed.copied(VOLUME_SNAPSHOTS, "nightly"))["metadata"]["uid"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"source": {"volumeSnapshotContentName": CONTENT}}, "spec.source.volumeSnapshotContentName"),
        ({"volumeSnapshotClassName": "of-the-host"}, "offered: daily"),
    ],
    ids=["content", "class"],
)
async def test_item_35_what_is_the_hosts_is_refused_by_event_and_status(bed: SyncerBed, spec: Obj, field: str) -> None:
    await take(bed, "grab", **spec)
    event = await bed.event("grab", field)
    assert (event["reason"], event["involvedObject"]["kind"]) == ("NotAllowed", "VolumeSnapshot")
    said = await blocked(bed, "grab", "NotAllowed", field)
    assert said["readyToUse"] is False
    assert await bed.copy(VOLUME_SNAPSHOTS, "grab") is None


async def test_item_35_a_claim_waits_for_its_snapshot_and_the_hosts_reason_is_reported(bed: SyncerBed) -> None:
    await restore(bed, "copy", "nightly", "1Gi")
    event = await bed.event("copy", "waits for its VolumeSnapshot")
    assert event["reason"] == "ReferenceMissing"
    assert await bed.copy(PERSISTENT_VOLUME_CLAIMS, "copy") is None
    await take(bed, "nightly")
    host, snapshot = await bed.copied(PERSISTENT_VOLUME_CLAIMS, "copy"), await bed.copied(VOLUME_SNAPSHOTS, "nightly")
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot["metadata"]["name"]}
    assert host["spec"]["dataSource"] == source

    # What the host's provisioner would say.
    about = {"kind": "PersistentVolumeClaim", "name": host["metadata"]["name"], "uid": host["metadata"]["uid"]}
    text = f"requested volume size 1 is less than the size 2 for the source snapshot {snapshot['metadata']['name']}"
    event = {"metadata": {"name": "too-small"}, "involvedObject": about | {"namespace": bed.work}, "reason": "Failed"}
    await bed.host.create(EVENTS, event | {"message": text, "type": "Warning"}, bed.work)
    await bed.event("copy", "is less than the size 2 for the source snapshot nightly")


async def test_item_35_36_a_snapshots_end_is_followed_and_its_name_is_free_again(bed: SyncerBed) -> None:
    held = await take(bed, "nightly", {"finalizers": ["example.org/hold"]})
    first = await bed.copied(VOLUME_SNAPSHOTS, "nightly")
    assert "finalizers" not in first["metadata"]
    await controller_says(bed, "nightly", READY)
    await says(bed, "nightly", READY)
    await bed.plane.delete(VOLUME_SNAPSHOTS, "nightly", bed.space)
    # The tenant's own finalizer holds it in the plane, and its copy on the host with it.
    assert (await bed.plane.get(VOLUME_SNAPSHOTS, "nightly", bed.space))["metadata"]["deletionTimestamp"]
    assert "deletionTimestamp" not in (await bed.copied(VOLUME_SNAPSHOTS, "nightly"))["metadata"]
    # Deleted and recreated while the syncer was away.
    await bed.stop()
    await bed.plane.patch(VOLUME_SNAPSHOTS, "nightly", {"metadata": {"finalizers": None}}, bed.space)
    made = await take(bed, "nightly")
    assert made["metadata"]["uid"] != held["metadata"]["uid"]
    await bed.start()

    async def replaced() -> bool:
        found = await bed.copy(VOLUME_SNAPSHOTS, "nightly")
        return found is not None and found["metadata"]["labels"][marks.VIRTUAL_UID] == made["metadata"]["uid"]

    await until(replaced, "copy of the new one")
    assert "status" not in (await bed.copied(VOLUME_SNAPSHOTS, "nightly"))
    await bed.plane.delete(VOLUME_SNAPSHOTS, "nightly", bed.space)
    await bed.uncopied(VOLUME_SNAPSHOTS, "nightly")


async def test_item_35_what_was_taken_and_is_gone_on_the_host_is_not_taken_again(bed: SyncerBed) -> None:
    for name in ("early", "taken"):
        await take(bed, name)
        await bed.copied(VOLUME_SNAPSHOTS, name)
    await controller_says(bed, "taken", READY)
    await says(bed, "taken", READY)
    first = await bed.copied(VOLUME_SNAPSHOTS, "early")
    for name in ("early", "taken"):
        await bed.host.delete(VOLUME_SNAPSHOTS, bed.host_name("VolumeSnapshot", name), bed.work)
    said = await blocked(bed, "taken", "no longer on the host")
    assert (said["readyToUse"], said["creationTime"]) == (False, READY["creationTime"])
    await bed.stop()
    await bed.start()

    async def again() -> bool:
        found = await bed.copy(VOLUME_SNAPSHOTS, "early")
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await until(again, "the one of which nothing was there yet is made again")
    assert await bed.copy(VOLUME_SNAPSHOTS, "taken") is None


async def test_item_35_47_a_snapshot_beyond_the_quota_says_so(bed: SyncerBed) -> None:
    hard = {f"count/{NAME}": "1"}
    await bed.host.create(RESOURCE_QUOTAS, {"metadata": {"name": "tenant-quota"}, "spec": {"hard": hard}}, bed.work)
    full = {"hard": hard, "used": hard}
    await bed.host.patch(RESOURCE_QUOTAS, "tenant-quota", {"status": full}, bed.work, subresource="status")
    source = {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "daily"}
    await bed.refuses(VOLUME_SNAPSHOTS, {"spec": source})
    await take(bed, "one-more")
    event = await bed.event("one-more", f"asked for 1 count/{NAME}, 1 of 1 are in use")
    assert event["reason"] == "QuotaExceeded"
    await blocked(bed, "one-more", "QuotaExceeded")
    assert await bed.copy(VOLUME_SNAPSHOTS, "one-more") is None


async def test_item_35_a_class_that_is_withdrawn_takes_nothing_with_it(bed: SyncerBed) -> None:
    await take(bed, "nightly")
    await bed.copied(VOLUME_SNAPSHOTS, "nightly")
    await bed.stop()
    bed.settings = settings_for(bed.tenant, allowedSnapshotClasses=["of-the-host"])
    await bed.start()

    async def withdrawn() -> bool:
        found = (await bed.plane.list(VOLUME_SNAPSHOT_CLASSES)).items
        return "daily" not in {each["metadata"]["name"] for each in found}

    await until(withdrawn, "the class gone from the plane")
    await controller_says(bed, "nightly", READY)
    await says(bed, "nightly", READY)
    # The class no longer offers anything: data stays where it is, and no claim is filled from it.
    await bed.stop()
    bed.settings = settings_for(bed.tenant)
    await bed.start()
    await restore(bed, "copy", "nightly")
    assert (await bed.event("copy", "only come from another claim"))["reason"] == "NotSupported"
    assert await bed.copy(VOLUME_SNAPSHOTS, "nightly") is not None
