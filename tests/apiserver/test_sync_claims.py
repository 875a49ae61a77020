"""PersistentVolumeClaims between two real API servers, with the test as the host's provisioner."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, ApiError, NotFound
from bulkhead.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, RESOURCE_QUOTAS, STORAGE_CLASSES
from syncer.translate.kinds.classes import DEFAULT_STORAGE_CLASS
from tests.kit.syncerbed import SyncerBed, until
from tests.kit.syncersettings import settings_for

CLASSES: dict[str, Any] = {
    "ordinary": {"metadata": {"annotations": {DEFAULT_STORAGE_CLASS: "true"}}, "parameters": {"secret": "of the host"}},
    "fast": {},
}


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[SyncerBed]:
    for name, more in CLASSES.items():
        body: Obj = {"provisioner": "host.example/disk", "allowVolumeExpansion": True} | more
        body["metadata"] = {"name": name} | more.get("metadata", {})
        try:
            await host_client.create(STORAGE_CLASSES, body)
        except AlreadyExists:
            continue
    async with SyncerBed.open(host_client, plane_client) as opened:
        yield opened


def wanted(size: str = "1Gi", **spec: Any) -> Obj:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}} | spec


async def claim(bed: SyncerBed, name: str, size: str = "1Gi", **spec: Any) -> Obj:
    body = {"metadata": {"name": name}, "spec": wanted(size, **spec)}
    return await bed.plane.create(PERSISTENT_VOLUME_CLAIMS, body, bed.space)


async def virtual_claim(bed: SyncerBed, name: str) -> Obj:
    return await bed.plane.get(PERSISTENT_VOLUME_CLAIMS, name, bed.space)


async def provision(bed: SyncerBed, name: str, size: str = "1Gi") -> Obj:
    """What the host's provisioner and binder do."""
    host = await bed.copied(PERSISTENT_VOLUME_CLAIMS, name)
    where = (PERSISTENT_VOLUME_CLAIMS, host["metadata"]["name"])
    await bed.host.patch(*where, {"spec": {"volumeName": "host-volume"}}, bed.work)
    status = {"phase": "Bound", "capacity": {"storage": size}, "accessModes": host["spec"]["accessModes"]}
    await bed.host.patch(*where, {"status": status}, bed.work, subresource="status")
    return host


async def bound(bed: SyncerBed, name: str) -> Obj:
    async def yet() -> Obj | None:
        found = await virtual_claim(bed, name)
        return found if found["status"].get("phase") == "Bound" else None

    found: Obj = await until(yet, f"{name} bound in the plane")
    return found


async def released(bed: SyncerBed, volume: str) -> None:
    async def yet() -> bool:
        try:
            found = await bed.plane.get(PERSISTENT_VOLUMES, volume)
        except NotFound:
            return True
        return found["status"]["phase"] == "Released" and "deletionTimestamp" in found["metadata"]

    await until(yet, "volume released")


async def test_item_35_a_claim_is_provisioned_on_the_host_and_bound_in_the_plane(bed: SyncerBed) -> None:
    await claim(bed, "data", "1Gi", accessModes=["ReadWriteMany"])
    host = await provision(bed, "data", "2Gi")
    assert host["spec"]["storageClassName"] == "ordinary"
    assert host["spec"]["accessModes"] == ["ReadWriteMany"]
    assert "volumeName" not in host["spec"]
    virtual = await bound(bed, "data")
    assert virtual["spec"]["storageClassName"] == "ordinary"
    assert virtual["status"]["capacity"] == {"storage": "2Gi"}
    assert virtual["status"]["accessModes"] == ["ReadWriteMany"]
    volume = await bed.plane.get(PERSISTENT_VOLUMES, virtual["spec"]["volumeName"])
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == virtual["metadata"]["uid"]
    assert "host-volume" not in str(volume)


async def test_item_35_the_default_class_is_offered_without_its_parameters(bed: SyncerBed) -> None:
    async def offered() -> Obj | None:
        found = {each["metadata"]["name"]: each for each in (await bed.plane.list(STORAGE_CLASSES)).items}
        return found.get("ordinary") if "fast" not in found else None

    shown = await until(offered, "the default class alone in the plane")
    assert shown["metadata"]["labels"][marks.PLATFORM] == "true"
    assert shown["metadata"]["annotations"][DEFAULT_STORAGE_CLASS] == "true"
    assert "parameters" not in shown


async def test_item_35_a_class_that_is_not_offered_is_refused_with_a_reason(bed: SyncerBed) -> None:
    await claim(bed, "greedy", storageClassName="fast")

    event = await bed.event("greedy", reason="NotAllowed")
    assert "offered: ordinary" in event["message"]
    assert await bed.copy(PERSISTENT_VOLUME_CLAIMS, "greedy") is None


async def test_item_35_47_a_claim_beyond_the_quota_says_so(bed: SyncerBed) -> None:
    hard = {"persistentvolumeclaims": "1"}
    await bed.host.create(RESOURCE_QUOTAS, {"metadata": {"name": "tenant-quota"}, "spec": {"hard": hard}}, bed.work)
    status = {"hard": hard, "used": {"persistentvolumeclaims": "1"}}
    await bed.host.patch(RESOURCE_QUOTAS, "tenant-quota", {"status": status}, bed.work, subresource="status")
    await bed.refuses(PERSISTENT_VOLUME_CLAIMS, {"spec": wanted()})
    await claim(bed, "one-more")

    event = await bed.event("one-more", reason="QuotaExceeded")
    assert "asked for 1 persistentvolumeclaims, 1 of 1 are in use" in event["message"]
    assert event["message"].endswith("The PersistentVolumeClaim is made when enough is free.")
    assert await bed.copy(PERSISTENT_VOLUME_CLAIMS, "one-more") is None


async def test_item_35_a_claim_grows_and_never_shrinks(bed: SyncerBed) -> None:
    await claim(bed, "data")
    await provision(bed, "data")
    await bound(bed, "data")

    async def asks(size: str) -> bool:
        return ((await bed.copy(PERSISTENT_VOLUME_CLAIMS, "data")) or {})["spec"]["resources"]["requests"]["storage"] == size

    # What storage cannot give is taken back.
    for size in ("9Gi", "3Gi"):
        patch = {"spec": {"resources": {"requests": {"storage": size}}}}
        await bed.plane.patch(PERSISTENT_VOLUME_CLAIMS, "data", patch, bed.space)
        await until(partial(asks, size), "request on the host")
    status = {"capacity": {"storage": "3Gi"}}
    await bed.host.patch(
        PERSISTENT_VOLUME_CLAIMS,
        bed.host_name("PersistentVolumeClaim", "data"),
        {"status": status},
        bed.work,
        subresource="status",
    )

    async def reported() -> bool:
        virtual = await virtual_claim(bed, "data")
        volume = await bed.plane.get(PERSISTENT_VOLUMES, virtual["spec"]["volumeName"])
        return bool(virtual["status"]["capacity"] == volume["spec"]["capacity"] == {"storage": "3Gi"})

    await until(reported, "capacity in the plane")
    patch = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    with pytest.raises(ApiError):
        await bed.plane.patch(PERSISTENT_VOLUME_CLAIMS, "data", patch, bed.space)


async def test_item_35_a_pod_finds_its_claim_under_the_host_name(bed: SyncerBed) -> None:
    await claim(bed, "data")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    await bed.create(bed.pod("web", volumes=volumes))
    host = await bed.mirrored("web")
    await bed.copied(PERSISTENT_VOLUME_CLAIMS, "data")
    assert host["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == bed.host_name("PersistentVolumeClaim", "data")


async def test_item_36_the_end_of_a_claim_ends_volume_and_host_claim(bed: SyncerBed) -> None:
    await claim(bed, "data")
    await provision(bed, "data")
    virtual = await bound(bed, "data")
    name = virtual["spec"]["volumeName"]
    await bed.plane.delete(PERSISTENT_VOLUME_CLAIMS, "data", bed.space)
    # Its protection stands as long as a controller has not seen that no pod uses it.
    assert (await virtual_claim(bed, "data"))["metadata"]["deletionTimestamp"]
    await bed.patrolled()
    host = await bed.copy(PERSISTENT_VOLUME_CLAIMS, "data")
    assert host is not None
    assert "deletionTimestamp" not in host["metadata"]
    await bed.plane.patch(PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"finalizers": None}}, bed.space)

    async def deleted() -> bool:
        found = await bed.copy(PERSISTENT_VOLUME_CLAIMS, "data")
        return found is None or "deletionTimestamp" in found["metadata"]

    await until(deleted, "host claim deleted")

    await released(bed, name)


async def test_the_copy_of_an_earlier_claim_that_is_not_seen_yet_passes_the_mass_delete_breaker(
    bed: SyncerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await claim(bed, "data")
    await provision(bed, "data")
    await bound(bed, "data")
    assert bed.session is not None
    # A slow watch: what the session has of the host does not show the copy.
    for read in ("get", "meta"):
        monkeypatch.setattr(bed.session.caches.host["PersistentVolumeClaim"].store, read, lambda _: None)
    asked: list[str] = []
    lets: list[str] = []

    async def may_delete(kind: str, _: str, **__: Any) -> bool:
        asked.append(kind)
        return kind in lets

    monkeypatch.setattr(bed.session.breaker, "may_delete", may_delete)
    await bed.plane.patch(PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"finalizers": None}}, bed.space)
    await bed.plane.delete(PERSISTENT_VOLUME_CLAIMS, "data", bed.space)
    await claim(bed, "data")

    async def asks() -> bool:
        return bool(asked)

    await until(asks, "the breaker to be asked")
    queue = bed.session.queue

    async def idle() -> bool:
        return queue.idle

    await until(idle, "the claim to be done with for now")
    former = await bed.copied(PERSISTENT_VOLUME_CLAIMS, "data")
    assert "deletionTimestamp" not in former["metadata"]
    lets.append("PersistentVolumeClaim")
    await bed.plane.patch(PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"labels": {"again": "true"}}}, bed.space)

    async def deleted() -> bool:
        found = await bed.copy(PERSISTENT_VOLUME_CLAIMS, "data")
        return found is None or "deletionTimestamp" in found["metadata"]

    await until(deleted, "the copy of the earlier claim deleted")


async def test_a_claim_whose_volume_the_host_has_lost_says_that_it_gets_an_empty_one(bed: SyncerBed) -> None:
    await claim(bed, "data")
    host = await provision(bed, "data")
    await bound(bed, "data")
    assert await bed.events("data") == []
    await bed.host.delete(PERSISTENT_VOLUME_CLAIMS, host["metadata"]["name"], bed.work)
    await bed.host.patch(PERSISTENT_VOLUME_CLAIMS, host["metadata"]["name"], {"metadata": {"finalizers": None}}, bed.work)
    await bed.event("data", "a new, empty one", reason="VolumeLost")
    after = await bed.copied(PERSISTENT_VOLUME_CLAIMS, "data")
    assert after["metadata"]["uid"] != host["metadata"]["uid"]


async def test_a_claim_that_is_refused_after_the_host_lost_its_volume_is_lost_until_it_has_another(bed: SyncerBed) -> None:
    await claim(bed, "data", storageClassName="ordinary")
    host = await provision(bed, "data")
    volume = (await bound(bed, "data"))["spec"]["volumeName"]

    async def shown(claims: str, volumes: str) -> None:
        async def now() -> bool:
            above = (await virtual_claim(bed, "data"))["status"], (await bed.plane.get(PERSISTENT_VOLUMES, volume))["status"]
            return (above[0]["phase"], above[1]["phase"]) == (claims, volumes)

        await until(now, f"claim {claims}, volume {volumes}")

    async def offered(**offer: Any) -> None:
        bed.settings = settings_for(bed.tenant, **offer)
        await bed.start()

    await bed.stop()
    await bed.host.delete(PERSISTENT_VOLUME_CLAIMS, host["metadata"]["name"], bed.work)
    await bed.host.patch(PERSISTENT_VOLUME_CLAIMS, host["metadata"]["name"], {"metadata": {"finalizers": None}}, bed.work)
    await offered(allowedStorageClasses=["fast"])
    await bed.event("data", "makes no other now", reason="VolumeLost")
    await bed.event("data", "offered: fast", reason="NotAllowed")
    await shown("Lost", "Failed")
    await bed.stop()
    await offered()
    await bed.copied(PERSISTENT_VOLUME_CLAIMS, "data")
    await shown("Pending", "Failed")
    await provision(bed, "data", "2Gi")
    await shown("Bound", "Bound")
    assert not (await bed.plane.get(PERSISTENT_VOLUMES, volume))["status"].get("message")


async def test_the_volume_of_a_claim_goes_with_it_although_its_host_claim_went_before(bed: SyncerBed) -> None:
    await claim(bed, "data", storageClassName="ordinary")
    host = await provision(bed, "data")
    volume = (await bound(bed, "data"))["spec"]["volumeName"]
    await bed.stop()
    await bed.host.delete(PERSISTENT_VOLUME_CLAIMS, host["metadata"]["name"], bed.work)
    await bed.host.patch(PERSISTENT_VOLUME_CLAIMS, host["metadata"]["name"], {"metadata": {"finalizers": None}}, bed.work)
    bed.settings = settings_for(bed.tenant, allowedStorageClasses=["fast"])
    await bed.start()
    await bed.event("data", reason="VolumeLost")
    await bed.plane.delete(PERSISTENT_VOLUME_CLAIMS, "data", bed.space)
    await bed.plane.patch(PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"finalizers": None}}, bed.space)

    await released(bed, volume)


async def test_item_36_a_claim_of_the_same_name_never_gets_the_old_data(bed: SyncerBed) -> None:
    await claim(bed, "data")
    old = await provision(bed, "data")
    await bound(bed, "data")
    await bed.stop()
    await bed.plane.delete(PERSISTENT_VOLUME_CLAIMS, "data", bed.space)
    await bed.plane.patch(PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"finalizers": None}}, bed.space)
    new = await claim(bed, "data")
    await bed.start()

    async def deleting() -> bool:
        return "deletionTimestamp" in ((await bed.copy(PERSISTENT_VOLUME_CLAIMS, "data")) or {"metadata": {}})["metadata"]

    await until(deleting, "old host claim deleting")
    await bed.host.patch(PERSISTENT_VOLUME_CLAIMS, old["metadata"]["name"], {"metadata": {"finalizers": None}}, bed.work)

    async def fresh() -> bool:
        found = await bed.copy(PERSISTENT_VOLUME_CLAIMS, "data")
        return found is not None and found["metadata"]["labels"][marks.VIRTUAL_UID] == new["metadata"]["uid"]

    await until(fresh, "host claim of the new one")
    assert "volumeName" not in ((await bed.copy(PERSISTENT_VOLUME_CLAIMS, "data")) or {})["spec"]


async def test_item_36_a_tenants_own_volume_is_never_used_nor_touched(bed: SyncerBed) -> None:
    own = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/etc"}}
    name = f"own-{bed.tenant}"
    made = await bed.plane.create(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": own})
    await claim(bed, "data", volumeName=name)

    await bed.event("data", "volumeName")
    assert await bed.copy(PERSISTENT_VOLUME_CLAIMS, "data") is None
    assert (await bed.plane.get(PERSISTENT_VOLUMES, name))["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_claim_without_a_class_gets_none_that_is_not_offered(
    host_client: Client, plane_client: Client, bed: SyncerBed
) -> None:
    """The host's default is `ordinary`, which this tenant has no part in."""
    offer = ["fast", "other"]
    await host_client.apply(
        STORAGE_CLASSES,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "other"},
            "provisioner": "host.example/disk",
        },
    )
    await bed.stop()
    for each in (await plane_client.list(STORAGE_CLASSES)).items:
        await plane_client.delete(STORAGE_CLASSES, each["metadata"]["name"])
    async with SyncerBed.open(host_client, plane_client, allowedStorageClasses=offer) as other:

        async def undecided() -> bool:
            """Whether the plane's API server has forgotten the default that there was before."""
            body = codec.encode({"metadata": {"name": "probe"}, "spec": wanted()})
            path, kind = PERSISTENT_VOLUME_CLAIMS.path(other.space), "application/json"
            made = await plane_client.transport.request("POST", path, params={"dryRun": "All"}, body=body, content_type=kind)
            return "storageClassName" not in codec.decode(made)["spec"]

        await until(undecided, "no default class in the plane")
        await claim(other, "data")

        await other.event("data", "offered: fast, other")
        assert await other.copy(PERSISTENT_VOLUME_CLAIMS, "data") is None
        await other.plane.patch(PERSISTENT_VOLUME_CLAIMS, "data", {"spec": {"storageClassName": "other"}}, other.space)
        assert (await other.copied(PERSISTENT_VOLUME_CLAIMS, "data"))["spec"]["storageClassName"] == "other"
    await host_client.delete(STORAGE_CLASSES, "other")


async def test_the_only_class_of_a_tenant_is_its_default(host_client: Client, plane_client: Client, bed: SyncerBed) -> None:
    await bed.stop()
    async with SyncerBed.open(host_client, plane_client, allowedStorageClasses=["fast"]) as other:

        async def shown() -> bool:
            found = (await plane_client.list(STORAGE_CLASSES)).items
            notes = {each["metadata"]["name"]: each["metadata"].get("annotations") or {} for each in found}
            return notes.get("fast", {}).get(DEFAULT_STORAGE_CLASS) == "true" and "ordinary" not in notes

        await until(shown, "class in the plane")
        await claim(other, "data")
        assert (await other.copied(PERSISTENT_VOLUME_CLAIMS, "data"))["spec"]["storageClassName"] == "fast"


async def test_a_claim_outlives_the_offer_that_it_was_made_of(
    host_client: Client, plane_client: Client, bed: SyncerBed
) -> None:
    await claim(bed, "data", storageClassName="ordinary")
    await provision(bed, "data")
    await bound(bed, "data")
    await bed.stop()
    bed.settings = settings_for(bed.tenant, allowedStorageClasses=["fast"])
    await bed.start()
    await bed.plane.patch(PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"labels": {"of": "db"}}}, bed.space)

    async def followed() -> bool:
        return ((await bed.copy(PERSISTENT_VOLUME_CLAIMS, "data")) or {})["metadata"]["labels"].get("of") == "db"

    await until(followed, "label on the host")
    assert not [each for each in await bed.events("data") if each["type"] == "Warning"]


async def test_a_claim_keeps_its_size_under_a_tighter_class_and_larger_ones_say_why_they_wait(bed: SyncerBed) -> None:
    await claim(bed, "data", "10Gi")
    await provision(bed, "data", "10Gi")
    await bound(bed, "data")
    await bed.stop()
    bed.settings = settings_for(bed.tenant, mostPerClaim="1Gi")
    await bed.start()
    await bed.plane.patch(PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"labels": {"of": "db"}}}, bed.space)

    async def followed() -> bool:
        return ((await bed.copy(PERSISTENT_VOLUME_CLAIMS, "data")) or {})["metadata"]["labels"].get("of") == "db"

    await until(followed, "label on the host")
    assert not [each for each in await bed.events("data") if each["type"] == "Warning"]
    await claim(bed, "greedy", "2Gi")

    event = await bed.event("greedy", reason="TooLarge")
    assert "requests 2Gi of storage, and one claim may request at most 1Gi" in event["message"]
    assert await bed.copy(PERSISTENT_VOLUME_CLAIMS, "greedy") is None
