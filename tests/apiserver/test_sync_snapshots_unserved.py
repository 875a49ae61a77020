"""Volume snapshots where one side does not serve them, or serves what a tenant has made of them; see `test_sync_snapshots`."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import informer
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, NotServed
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    PERSISTENT_VOLUME_CLAIMS,
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOTS,
)
from syncer.mirrors import reconcile
from syncer.work import Item
from tests.kit.crds import served
from tests.kit.snapshotting import (
    KIND,
    NAME,
    OFFER,
    READY,
    SNAPSHOT_KINDS,
    blocked,
    controller_says,
    remove_snapshots,
    restore,
    says,
    serve_snapshots,
    snapshot_class,
    status,
    take,
)
from tests.kit.syncerbed import SyncerBed, until


@pytest.fixture(autouse=True)
def asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not served is asked for each second, and so is what waits for it, or for a class; usually that takes minutes."""
    monkeypatch.setattr(informer, "_RETRY_UNSERVED_SECONDS", 1.0)
    for each in ("RETRY_SECONDS", "_REFUSED_SECONDS"):
        monkeypatch.setattr(reconcile, each, 1.0)


@pytest.fixture
async def bed(snapshot_sides: tuple[Client, Client]) -> AsyncIterator[SyncerBed]:
    async with SyncerBed.open(*snapshot_sides, **OFFER) as opened:
        yield opened


async def test_item_35_a_host_without_the_api_says_so_and_everything_else_goes_on(
    snapshot_sides: tuple[Client, Client],
) -> None:
    host, plane = snapshot_sides
    await remove_snapshots(host)
    try:
        async with SyncerBed.open(host, plane, **OFFER) as bed:
            assert bed.session is not None
            await take(bed, "nightly")
            event = await bed.event("nightly", "the platform's host does not serve VolumeSnapshot of")
            assert event["reason"] == "NotSupported"
            await blocked(bed, "nightly", "NotSupported", "does not serve")
            await restore(bed, "copy", "nightly")
            await bed.event("copy", "waits for its VolumeSnapshot")
            await bed.create(bed.pod("web"))
            await bed.mirrored("web")
            assert bed.session._unready() == []
            # Once the admin has installed it, all goes on by itself.
            await serve_snapshots(host)
            body = snapshot_class("daily") | {"apiVersion": KIND["apiVersion"], "kind": "VolumeSnapshotClass"}
            await host.create(VOLUME_SNAPSHOT_CLASSES, body)
            await bed.session.classes.reconcile()
            await bed.copied(VOLUME_SNAPSHOTS, "nightly", seconds=120)
            await bed.copied(PERSISTENT_VOLUME_CLAIMS, "copy", seconds=120)
            await says(bed, "nightly", {})
    finally:
        await serve_snapshots(host)


async def test_item_35_a_host_that_loses_the_api_says_so(bed: SyncerBed) -> None:
    await remove_snapshots(bed.host)
    try:
        await take(bed, "late")
        await blocked(bed, "late", "the platform's host does not serve VolumeSnapshot")
    finally:
        await serve_snapshots(bed.host)


async def rewritten(plane: Client, change: Callable[[Obj], None]) -> None:
    """Change the definition's spec, however often others write in between."""

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


async def test_item_35_a_plane_that_hides_the_api_deletes_nothing(bed: SyncerBed) -> None:
    await take(bed, "nightly")
    first = await bed.copied(VOLUME_SNAPSHOTS, "nightly")
    await bed.stop()
    await definition(bed.plane, served=False)
    try:
        await served(bed.plane, VOLUME_SNAPSHOTS, there=False)
        session = await bed.start()
        await bed.create(bed.pod("web"))
        await bed.mirrored("web")
        # The copy is reconciled, and nothing proves that its snapshot is gone: not the cache, and not the plane.
        item, copy = Item("VolumeSnapshot", Key(bed.space, "nightly")), await bed.copied(VOLUME_SNAPSHOTS, "nightly")

        async def known() -> bool:
            return item in session.patrol._host()

        await until(known, "the copy seen on the host")
        assert not session.caches.serves("VolumeSnapshot")
        await session.mirrors.reconcile(item)
        with pytest.raises(NotServed):
            await session.mirrors._absent(item, copy)
        assert (await bed.copied(VOLUME_SNAPSHOTS, "nightly"))["metadata"]["uid"] == first["metadata"]["uid"]
    finally:
        await definition(bed.plane, served=True)
    await served(bed.plane, *SNAPSHOT_KINDS)
    await controller_says(bed, "nightly", READY)

    async def ready() -> bool:
        return await status(bed, "nightly") == READY

    await until(ready, "heard again", 120)
    assert (await bed.copied(VOLUME_SNAPSHOTS, "nightly"))["metadata"]["uid"] == first["metadata"]["uid"]


async def test_item_35_a_definition_that_answers_nothing_but_errors_stops_nothing_else(bed: SyncerBed) -> None:
    await take(bed, "nightly")
    first = await bed.copied(VOLUME_SNAPSHOTS, "nightly")
    await bed.stop()
    # Stored in another version, and no webhook answers to convert it.
    there = await bed.plane.get(CUSTOM_RESOURCE_DEFINITIONS, NAME)
    old = there["spec"]["versions"][0]
    nobody = {"clientConfig": {"url": "https://127.0.0.1:9/"}, "conversionReviewVersions": ["v1"]}
    await convert(bed.plane, {"strategy": "Webhook", "webhook": nobody}, [old | {"storage": False}, old | {"name": "v2"}])
    try:

        async def stored() -> bool:
            body = {"apiVersion": "snapshot.storage.k8s.io/v2", "kind": "VolumeSnapshot", "metadata": {"name": "later"}}
            body |= {"spec": {"source": {"persistentVolumeClaimName": "data"}}}
            try:
                await bed.plane.create(replace(VOLUME_SNAPSHOTS, version="v2"), body, bed.space)
            except AlreadyExists:
                return True
            except KubeError:  # the old definition for a moment
                return False
            return True

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
        assert (await bed.copied(VOLUME_SNAPSHOTS, "nightly"))["metadata"]["uid"] == first["metadata"]["uid"]
    finally:
        await convert(bed.plane, {"strategy": "None"}, [old | {"storage": False}, old | {"name": "v2"}])
        await bed.stop()
        await remove_snapshots(bed.plane)
        await serve_snapshots(bed.plane)


async def convert(plane: Client, conversion: Obj, versions: list[Obj]) -> None:
    """What a tenant may do to the versions of the definition in its plane."""
    await rewritten(plane, lambda spec: spec.update(conversion=conversion, versions=versions))


async def test_item_35_a_definition_taken_away_in_the_plane_takes_its_snapshots_with_it(bed: SyncerBed) -> None:
    await take(bed, "nightly")
    await bed.copied(VOLUME_SNAPSHOTS, "nightly")
    await remove_snapshots(bed.plane)
    # The API server has deleted the objects, but as long as it does not serve them nothing counts as their absence.
    assert bed.session is not None
    assert bed.session._unready() == []
    await serve_snapshots(bed.plane)
    await bed.uncopied(VOLUME_SNAPSHOTS, "nightly", 120)


async def test_item_35_a_definition_bent_to_any_shape_does_no_harm(bed: SyncerBed) -> None:
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
            await bed.event(name, "spec")
            assert await bed.copy(VOLUME_SNAPSHOTS, name) is None
        await bed.copied(VOLUME_SNAPSHOTS, "status")
        await bed.create(bed.pod("web"))
        await bed.mirrored("web")
        for name in (*bodies, "probe"):
            await bed.plane.delete(VOLUME_SNAPSHOTS, name, bed.space)
        await bed.uncopied(VOLUME_SNAPSHOTS, "status")
    finally:
        await definition(bed.plane, **before)
