"""Volume snapshots between two real API servers; neither snapshot controller nor driver runs: the test writes what they would.

What a claim gets of a snapshot's data is the host's provisioner's doing, and nothing here shows it.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api import labels as marks
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, NotServed
from bulkhead.kube.objects import Key, Obj, Resource
from bulkhead.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    RESOURCE_QUOTAS,
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOTS,
)
from syncer.caches import Item
from tests.apiserver.bed import Bed, settings_for, until
from tests.apiserver.snapshotting import remove_snapshots, serve_snapshots, served, snapshot_class

OFFER: dict[str, Any] = {"allowedSnapshotClasses": ["daily"]}
KIND = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot"}
NAME = "volumesnapshots.snapshot.storage.k8s.io"
CONTENT = "snapcontent-1b7c0d4e-6a3f-4f64-9d1e-3f0a7b8c9d0e"
READY: Obj = {"readyToUse": True, "creationTime": "2026-01-02T03:04:05Z", "restoreSize": "2Gi"}


@pytest.fixture
async def sides(host_client: Client, plane_client: Client) -> tuple[Client, Client]:
    """Both API servers with the snapshot API, the host with two classes."""
    await serve_snapshots(host_client, plane_client)
    for name in ("daily", "of-the-host"):
        body = snapshot_class(name, parameters={"secret": "of-the-host"})
        body |= {"apiVersion": KIND["apiVersion"], "kind": "VolumeSnapshotClass"}
        with contextlib.suppress(AlreadyExists):
            await host_client.create(VOLUME_SNAPSHOT_CLASSES, body)
    return host_client, plane_client


@pytest.fixture
async def bed(sides: tuple[Client, Client]) -> AsyncIterator[Bed]:
    async with Bed.open(*sides, **OFFER) as opened:
        yield opened


async def take(bed: Bed, name: str, meta: Obj | None = None, **spec: Any) -> Obj:
    wanted = {"source": {"persistentVolumeClaimName": "data"}} | spec
    body = KIND | {"metadata": {"name": name, "namespace": bed.space} | (meta or {}), "spec": wanted}
    return await bed.plane.create(VOLUME_SNAPSHOTS, body)


async def restore(bed: Bed, name: str, snapshot: str, size: str = "2Gi") -> Obj:
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "dataSource": source}
    return await bed.plane.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec}, bed.space)


async def below(bed: Bed, name: str, r: Resource = VOLUME_SNAPSHOTS) -> Obj | None:
    try:
        return await bed.host.get(r, bed.host_name(r.kind, name), bed.work)
    except NotFound:
        return None


async def mirrored(bed: Bed, name: str, r: Resource = VOLUME_SNAPSHOTS, seconds: float = 20.0) -> Obj:
    found: Obj = await until(lambda: below(bed, name, r), f"host {r.kind} of {name}", seconds)
    return found


async def gone(bed: Bed, name: str, seconds: float = 20.0) -> None:
    async def absent() -> bool:
        return await below(bed, name) is None

    await until(absent, f"{name} gone below", seconds)


async def controller_says(bed: Bed, name: str, status: Obj) -> None:
    """What the host's snapshot controller would write."""
    host = bed.host_name("VolumeSnapshot", name)
    await bed.host.patch(VOLUME_SNAPSHOTS, host, {"status": status}, bed.work, subresource="status")


async def status(bed: Bed, name: str) -> Obj:
    found = await bed.plane.get(VOLUME_SNAPSHOTS, name, bed.space)
    return dict(found.get("status") or {})


async def says(bed: Bed, name: str, wanted: Obj) -> None:
    async def same() -> bool:
        return await status(bed, name) == wanted

    await until(same, f"status {wanted} above")


async def told(bed: Bed, name: str, *texts: str, seconds: float = 20.0) -> Obj:
    async def found() -> Obj | None:
        events = await bed.events(name)
        return next((each for each in events if all(text in each["message"] for text in texts)), None)

    event: Obj = await until(found, f"event with {texts}", seconds)
    return event


async def blocked(bed: Bed, name: str, *texts: str, seconds: float = 20.0) -> Obj:
    async def found() -> Obj | None:
        said = await status(bed, name)
        message = (said.get("error") or {}).get("message", "")
        return said if all(text in message for text in texts) and message else None

    said: Obj = await until(found, f"status.error with {texts}", seconds)
    return said


async def test_item_35_a_snapshot_is_taken_below_and_told_above(bed: Bed) -> None:
    shown = await bed.plane.get(VOLUME_SNAPSHOT_CLASSES, "daily")
    assert (shown["driver"], shown["metadata"]["labels"]) == ("disk.example.org", {marks.PLATFORM: "true"})
    assert "of-the-host" not in str(await bed.plane.list(VOLUME_SNAPSHOT_CLASSES))
    made = await take(bed, "nightly", {"labels": {"app": "db"}, "annotations": {"example.org/a": "b"}})
    host = await mirrored(bed, "nightly")
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
        return bool(((await below(bed, "nightly")) or {})["metadata"]["labels"]["app"] == "web")

    await until(relabelled, "the label below")
    assert host["metadata"]["uid"] == (await mirrored(bed, "nightly"))["metadata"]["uid"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"source": {"volumeSnapshotContentName": CONTENT}}, "spec.source.volumeSnapshotContentName"),
        ({"volumeSnapshotClassName": "of-the-host"}, "offered: daily"),
    ],
    ids=["content", "class"],
)
async def test_item_35_what_is_the_hosts_is_refused_by_event_and_status(bed: Bed, spec: Obj, field: str) -> None:
    await take(bed, "grab", **spec)
    event = await told(bed, "grab", field)
    assert (event["reason"], event["involvedObject"]["kind"]) == ("NotAllowed", "VolumeSnapshot")
    said = await blocked(bed, "grab", "NotAllowed", field)
    assert said["readyToUse"] is False
    assert await below(bed, "grab") is None


async def test_item_35_a_claim_waits_for_its_snapshot_and_the_hosts_reason_is_told(bed: Bed) -> None:
    await restore(bed, "copy", "nightly", "1Gi")
    event = await told(bed, "copy", "waits for its VolumeSnapshot")
    assert event["reason"] == "ReferenceMissing"
    assert await below(bed, "copy", PERSISTENT_VOLUME_CLAIMS) is None
    await take(bed, "nightly")
    host, snapshot = await mirrored(bed, "copy", PERSISTENT_VOLUME_CLAIMS), await mirrored(bed, "nightly")
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot["metadata"]["name"]}
    assert host["spec"]["dataSource"] == source

    # What the host's provisioner would say.
    about = {"kind": "PersistentVolumeClaim", "name": host["metadata"]["name"], "uid": host["metadata"]["uid"]}
    text = f"requested volume size 1 is less than the size 2 for the source snapshot {snapshot['metadata']['name']}"
    event = {"metadata": {"name": "too-small"}, "involvedObject": about | {"namespace": bed.work}, "reason": "Failed"}
    await bed.host.create(EVENTS, event | {"message": text, "type": "Warning"}, bed.work)
    await told(bed, "copy", "is less than the size 2 for the source snapshot nightly")


async def test_item_35_36_a_snapshots_end_is_followed_and_its_name_is_free_again(bed: Bed) -> None:
    held = await take(bed, "nightly", {"finalizers": ["example.org/hold"]})
    first = await mirrored(bed, "nightly")
    assert "finalizers" not in first["metadata"]
    await controller_says(bed, "nightly", READY)
    await says(bed, "nightly", READY)
    await bed.plane.delete(VOLUME_SNAPSHOTS, "nightly", bed.space)
    # The tenant's own finalizer holds it above, and the copy below with it.
    assert (await bed.plane.get(VOLUME_SNAPSHOTS, "nightly", bed.space))["metadata"]["deletionTimestamp"]
    assert "deletionTimestamp" not in (await mirrored(bed, "nightly"))["metadata"]
    # Deleted and made anew while nobody looked.
    await bed.stop()
    await bed.plane.patch(VOLUME_SNAPSHOTS, "nightly", {"metadata": {"finalizers": None}}, bed.space)
    made = await take(bed, "nightly")
    assert made["metadata"]["uid"] != held["metadata"]["uid"]
    await bed.start()

    async def replaced() -> bool:
        found = await below(bed, "nightly")
        return found is not None and found["metadata"]["labels"][marks.VIRTUAL_UID] == made["metadata"]["uid"]

    await until(replaced, "copy of the new one")
    assert "status" not in (await mirrored(bed, "nightly"))
    await bed.plane.delete(VOLUME_SNAPSHOTS, "nightly", bed.space)
    await gone(bed, "nightly")


async def test_item_35_what_was_taken_and_is_gone_below_is_not_taken_again(bed: Bed) -> None:
    for name in ("early", "taken"):
        await take(bed, name)
        await mirrored(bed, name)
    await controller_says(bed, "taken", READY)
    await says(bed, "taken", READY)
    first = await mirrored(bed, "early")
    for name in ("early", "taken"):
        await bed.host.delete(VOLUME_SNAPSHOTS, bed.host_name("VolumeSnapshot", name), bed.work)
    said = await blocked(bed, "taken", "no longer on the host")
    assert (said["readyToUse"], said["creationTime"]) == (False, READY["creationTime"])
    await bed.stop()
    await bed.start()

    async def again() -> bool:
        found = await below(bed, "early")
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await until(again, "the one of which nothing was there yet is made again")
    assert await below(bed, "taken") is None


async def test_item_35_47_a_snapshot_beyond_the_quota_says_so(bed: Bed) -> None:
    hard = {f"count/{NAME}": "1"}
    await bed.host.create(RESOURCE_QUOTAS, {"metadata": {"name": "tenant-quota"}, "spec": {"hard": hard}}, bed.work)
    full = {"hard": hard, "used": hard}
    await bed.host.patch(RESOURCE_QUOTAS, "tenant-quota", {"status": full}, bed.work, subresource="status")
    await take(bed, "one-more")
    event = await told(bed, "one-more", f"asked for 1 count/{NAME}, 1 of 1 are in use")
    assert event["reason"] == "QuotaExceeded"
    await blocked(bed, "one-more", "QuotaExceeded")
    assert await below(bed, "one-more") is None


async def test_item_35_a_class_that_is_withdrawn_takes_nothing_with_it(bed: Bed) -> None:
    await take(bed, "nightly")
    await mirrored(bed, "nightly")
    await bed.stop()
    bed.settings = settings_for(bed.tenant, allowedSnapshotClasses=["of-the-host"])
    await bed.start()
    with pytest.raises(NotFound):
        await bed.plane.get(VOLUME_SNAPSHOT_CLASSES, "daily")
    await controller_says(bed, "nightly", READY)
    await says(bed, "nightly", READY)
    # Nothing at all is offered any more: data stays where it is, and no claim is filled from it.
    await bed.stop()
    bed.settings = settings_for(bed.tenant)
    await bed.start()
    await restore(bed, "copy", "nightly")
    assert (await told(bed, "copy", "only come from another claim"))["reason"] == "NotSupported"
    assert await below(bed, "nightly") is not None


async def test_item_35_a_host_without_the_api_says_so_and_everything_else_goes_on(sides: tuple[Client, Client]) -> None:
    host, plane = sides
    await remove_snapshots(host)
    try:
        async with Bed.open(host, plane, **OFFER) as bed:
            await take(bed, "nightly")
            event = await told(bed, "nightly", "the platform's host does not serve VolumeSnapshot of")
            assert event["reason"] == "NotSupported"
            await blocked(bed, "nightly", "NotSupported", "does not serve")
            await restore(bed, "copy", "nightly")
            await told(bed, "copy", "waits for its VolumeSnapshot")
            await bed.create(bed.pod("web"))
            await bed.mirrored("web")
            assert bed.session is not None
            assert bed.session._unready() == []
            # Once the admin has installed it, all goes on by itself.
            await serve_snapshots(host)
            body = snapshot_class("daily") | {"apiVersion": KIND["apiVersion"], "kind": "VolumeSnapshotClass"}
            await host.create(VOLUME_SNAPSHOT_CLASSES, body)
            await bed.session.offers.round()
            await mirrored(bed, "nightly", seconds=90)
            await mirrored(bed, "copy", PERSISTENT_VOLUME_CLAIMS, seconds=60)
            await says(bed, "nightly", {})
    finally:
        await serve_snapshots(host)


async def test_item_35_a_host_that_loses_the_api_says_so(bed: Bed) -> None:
    await remove_snapshots(bed.host)
    try:
        await take(bed, "late")
        await blocked(bed, "late", "the platform's host does not serve VolumeSnapshot")
    finally:
        await serve_snapshots(bed.host)


async def rewritten(plane: Client, change: Callable[[Obj], None]) -> None:
    """Change the definition's spec, however often somebody else writes in between."""

    async def written() -> bool:
        there = await plane.get(CUSTOM_RESOURCE_DEFINITIONS, NAME)
        change(there["spec"])
        with contextlib.suppress(Conflict):
            await plane.replace(CUSTOM_RESOURCE_DEFINITIONS, there)
            return True
        return False

    await until(written, "definition written")


async def definition(plane: Client, **version: Any) -> None:
    """What a tenant may do to the definition in its plane."""
    await rewritten(plane, lambda spec: spec["versions"][0].update(version))


async def test_item_35_a_plane_that_hides_the_api_deletes_nothing(bed: Bed) -> None:
    await take(bed, "nightly")
    first = await mirrored(bed, "nightly")
    await bed.stop()
    await definition(bed.plane, served=False)
    try:
        await served_not(bed.plane)
        session = await bed.start()
        await bed.create(bed.pod("web"))
        await bed.mirrored("web")
        # The copy is looked at, and nobody can say that its snapshot is gone: not the cache, and not the plane.
        item, copy = Item("VolumeSnapshot", Key(bed.space, "nightly")), await mirrored(bed, "nightly")
        assert item in session.patrol._host()
        assert not session.caches.serves("VolumeSnapshot")
        await session.mirrors.reconcile(item)
        with pytest.raises(NotServed):
            await session.mirrors._absent(item, copy)
        assert (await mirrored(bed, "nightly"))["metadata"]["uid"] == first["metadata"]["uid"]
    finally:
        await definition(bed.plane, served=True)
    await served(bed.plane)
    await controller_says(bed, "nightly", READY)

    async def ready() -> bool:
        return await status(bed, "nightly") == READY

    await until(ready, "heard again", 90)
    assert (await mirrored(bed, "nightly"))["metadata"]["uid"] == first["metadata"]["uid"]


async def served_not(plane: Client) -> None:
    async def hidden() -> bool:
        try:
            await plane.list(VOLUME_SNAPSHOTS)
        except NotServed:
            return True
        return False

    await until(hidden, "API hidden")


async def test_item_35_a_definition_that_answers_nothing_but_errors_stops_nothing_else(bed: Bed) -> None:
    await take(bed, "nightly")
    first = await mirrored(bed, "nightly")
    await bed.stop()
    # Stored in another version, and nobody answers who could convert it.
    there = await bed.plane.get(CUSTOM_RESOURCE_DEFINITIONS, NAME)
    old = there["spec"]["versions"][0]
    nobody = {"clientConfig": {"url": "https://127.0.0.1:9/"}, "conversionReviewVersions": ["v1"]}
    await convert(bed.plane, {"strategy": "Webhook", "webhook": nobody}, [old | {"storage": False}, old | {"name": "v2"}])
    try:

        async def stored() -> bool:
            body = {"apiVersion": "snapshot.storage.k8s.io/v2", "kind": "VolumeSnapshot", "metadata": {"name": "later"}}
            body |= {"spec": {"source": {"persistentVolumeClaimName": "data"}}}
            with contextlib.suppress(NotFound):
                await bed.plane.create(replace(VOLUME_SNAPSHOTS, version="v2"), body, bed.space)
                return True
            return False

        async def broken() -> bool:
            try:
                await bed.plane.list(VOLUME_SNAPSHOTS)
            except NotFound:
                return False
            except KubeError:
                return True
            return False

        await until(stored, "one of the other version")
        await until(broken, "nothing but errors")
        session = await bed.start()
        assert not session.caches.virtual["VolumeSnapshot"].has_synced
        await bed.create(bed.pod("web"))
        await bed.mirrored("web")
        item = Item("VolumeSnapshot", Key(bed.space, "nightly"))
        await session.mirrors.reconcile(item)
        assert (await mirrored(bed, "nightly"))["metadata"]["uid"] == first["metadata"]["uid"]
    finally:
        await convert(bed.plane, {"strategy": "None"}, [old | {"storage": False}, old | {"name": "v2"}])
        await bed.stop()
        await remove_snapshots(bed.plane)
        await serve_snapshots(bed.plane)


async def convert(plane: Client, conversion: Obj, versions: list[Obj]) -> None:
    """What a tenant may do to the versions of the definition in its plane."""
    await rewritten(plane, lambda spec: spec.update(conversion=conversion, versions=versions))


async def test_item_35_a_definition_taken_away_in_the_plane_takes_its_snapshots_with_it(bed: Bed) -> None:
    await take(bed, "nightly")
    await mirrored(bed, "nightly")
    await remove_snapshots(bed.plane)
    # The API server has deleted the objects, but as long as it does not serve them nothing counts as their absence.
    assert bed.session is not None
    assert bed.session._unready() == []
    await serve_snapshots(bed.plane)
    await gone(bed, "nightly", 90)


async def test_item_35_a_definition_bent_to_any_shape_harms_nobody(bed: Bed) -> None:
    # A watch from before goes on for a while with what the old definition leaves of the objects.
    await bed.stop()
    before = (await bed.plane.get(CUSTOM_RESOURCE_DEFINITIONS, NAME))["spec"]["versions"][0]
    shape = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    await definition(bed.plane, schema=shape, additionalPrinterColumns=[], subresources={})
    bodies: dict[str, Obj] = {
        "text": {"spec": "x"},
        "list": {"spec": {"source": [1]}},
        "deep": {"spec": {"source": {"persistentVolumeClaimName": {"a": [{}] * 100}}}},
        "more": {"spec": {"source": {"persistentVolumeClaimName": "data"}, "hostPath": "/etc"}},
        "long": {"spec": {"source": {"persistentVolumeClaimName": "x" * 5000}}},
        "status": {"spec": {"source": {"persistentVolumeClaimName": "data"}}, "status": ["forged"]},
        "none": {},
    }
    try:

        async def taken() -> bool:
            try:
                await bed.plane.create(VOLUME_SNAPSHOTS, KIND | {"metadata": {"name": "probe", "namespace": bed.space}})
            except AlreadyExists:
                return True
            except Exception:  # noqa: BLE001 -- the old shape for a moment
                return False
            return True

        await until(taken, "the bent definition in force")
        for name, body in bodies.items():
            await bed.plane.create(VOLUME_SNAPSHOTS, KIND | {"metadata": {"name": name, "namespace": bed.space}} | body)
        await bed.start()
        for name in ("text", "list", "deep", "more", "long", "none"):
            await told(bed, name, "spec")
            assert await below(bed, name) is None
        await mirrored(bed, "status")
        await bed.create(bed.pod("web"))
        await bed.mirrored("web")
        for name in (*bodies, "probe"):
            await bed.plane.delete(VOLUME_SNAPSHOTS, name, bed.space)
        await gone(bed, "status")
    finally:
        await definition(bed.plane, **before)
