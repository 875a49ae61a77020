"""Scheduled snapshots on a real API server: asked for once for each slot, thinned out, removed with what is stored of them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bulkhead.api import labels, names, planeidentity
from bulkhead.api.conditions import Reason, SnapshotReason, condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.signing import Ring
from bulkhead.snapshots.layout import folder
from bulkhead.snapshots.manifest import PURPOSE
from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import Target, TargetError
from bulkhead.work.clock import SystemClock
from controller.host.snapshots import Snapshots
from controller.snapshots.loop import SnapshotTasks
from controller.snapshots.places import Places
from controller.snapshots.removal import SnapshotRemovals
from controller.snapshots.schedule import FINALIZER, Plane, name_of, request, slot
from controller.snapshots.spec import Order
from controller.snapshots.take import Means
from tests.kit.background import background
from tests.kit.controllerhost import ControllerHost, FixedKeys, ask
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant_class
from tests.snapshots.samples import GOLDEN, RECORD, record

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
HOURLY = {"schedule": "1h", "retention": {"hourly": 2, "daily": 0, "weekly": 0}}


class Later(SystemClock):
    """A clock that a test sets forward."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


class Untaken(SnapshotTasks):
    """Tasks that take nothing: what is taken, a test writes itself."""

    def order(self, order: Order) -> None:
        pass


class Closed(Target):
    """A target that deletes nothing while it is shut."""

    shut = False
    deleted: ClassVar[list[str]] = []

    async def delete(self, path: str) -> None:
        if Closed.shut:
            raise TargetError("cannot delete: the bucket is read-only")
        Closed.deleted.append(path)
        await super().delete(path)


@dataclass
class World:
    client: Client
    controller: ControllerHost
    clock: Later
    requests: Snapshots
    removals: SnapshotRemovals
    store: Path
    enqueued: list[str] = field(default_factory=list)

    async def settle(self, tenant: str) -> Obj:
        await self.seen()
        await self.controller.settle(tenant)
        await self.seen()
        return await self.controller.settle(tenant)

    async def seen(self) -> None:
        """Wait until the controller's copy is what the host has."""

        async def same() -> bool:
            listed = (await self.client.list(kinds.TENANT_SNAPSHOTS)).items
            known = self.requests._informer.store
            return {(o["metadata"]["name"], o["metadata"]["resourceVersion"]) for o in listed} == {
                (meta.name, meta.resource_version) for meta in known.metas()
            }

        await until(same, "the controller to know all snapshots")

    async def of(self, tenant: str) -> list[str]:
        listed = (await self.client.list(kinds.TENANT_SNAPSHOTS)).items
        return sorted(str(obj["metadata"]["name"]) for obj in listed if obj["spec"]["tenant"] == tenant)

    async def taken(self, name: str, plane: Plane, at: datetime, reason: SnapshotReason = SnapshotReason.STORED) -> Path:
        """What the tasks would have made of a request; returns the folder of what is stored."""
        truth = {"Stored": "True", "Failed": "False"}[reason]
        moment = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "Complete", "status": truth, "reason": reason, "message": "as told", "lastTransitionTime": moment}
        status = {"conditions": [condition], "identity": plane.identity, "startTime": moment}
        await self.client.patch(kinds.TENANT_SNAPSHOTS, name, {"status": status}, subresource="status")
        return self.stored(name, plane) if reason == SnapshotReason.STORED else self.store / folder(plane.identity, name)

    def stored(self, name: str, plane: Plane, ring: Ring = FixedKeys.held, **changes: Any) -> Path:
        made = replace(
            GOLDEN, snapshot=name, identity=plane.identity, tenant=plane.tenant,
            record=record(replace(RECORD, id=plane.identity, tenant=plane.tenant), ring),
        )  # fmt: skip
        made = replace(made, **changes)
        home = self.store / folder(plane.identity, name)
        (home / made.attempt).mkdir(parents=True, exist_ok=True)
        for part in made.parts:
            (home / made.attempt / part).write_bytes(b"as it was sealed")
        (home / "manifest.json").write_text(ring.sign(PURPOSE, made.text()))
        return home

    async def gone(self, name: str) -> None:
        """Wait until the object is gone; that of the present slot is asked for again, as another object."""

        async def check() -> bool:
            try:
                return not (await self.client.get(kinds.TENANT_SNAPSHOTS, name))["metadata"].get("deletionTimestamp")
            except NotFound:
                return True

        await until(check, f"{name} to be gone")


@pytest.fixture
async def world(client: Client, tmp_path: Path) -> AsyncIterator[World]:
    async def ring() -> Ring:
        return FixedKeys.held

    await client.apply(
        kinds.TENANT_CLASSES,
        tenant_class(backup={"shortestSchedule": "15m"}) | {"metadata": {"name": "standard"}},
    )
    Closed.shut, Closed.deleted = False, []
    enqueued: list[str] = []
    requests, clock = Snapshots(client, enqueued.append), Later()
    means = Means(lambda *_: None, lambda: Closed(Place("file", str(tmp_path))), (RECIPIENT,), ring)  # type: ignore[arg-type, return-value]
    archive = Means(lambda *_: None, lambda: Closed(Place("file", str(tmp_path / "archive"))), (RECIPIENT,), ring)  # type: ignore[arg-type, return-value]
    places = Places(means, {"archive": archive})
    tasks = Untaken(client, clock, places)
    removals = SnapshotRemovals(client, clock, places, tasks)
    async with background(requests.run()):
        async with ControllerHost(client, clock=clock, snapshots=(requests, tasks), removals=removals) as controller:
            yield World(client, controller, clock, requests, removals, tmp_path, enqueued)
            await removals.close()
        for obj in (await client.list(kinds.TENANT_SNAPSHOTS)).items:
            await client.patch(kinds.TENANT_SNAPSHOTS, obj["metadata"]["name"], {"metadata": {"finalizers": None}})
            await client.delete(kinds.TENANT_SNAPSHOTS, obj["metadata"]["name"])


async def test_a_snapshot_is_asked_for_once_for_each_slot_and_missed_ones_are_not_made_up_for(world: World) -> None:
    await ask(world.client, "timed", backup=HOURLY)
    tenant = await world.settle("timed")
    plane = Plane("timed", tenant["status"]["planeIdentity"])
    first = name_of(plane, slot(plane, 3600, world.clock.now()))
    assert await world.of("timed") == [first]
    made = await world.client.get(kinds.TENANT_SNAPSHOTS, first)
    assert made["metadata"]["labels"][labels.SCHEDULED] == plane.identity
    assert made["metadata"]["finalizers"] == [FINALIZER]
    assert condition_of(tenant, "LastSnapshot")["status"] == "Unknown"
    # A whole day without a controller.
    world.clock.ahead = timedelta(hours=24)
    await world.settle("timed")
    assert await world.of("timed") == sorted([first, name_of(plane, slot(plane, 3600, world.clock.now()))])


async def test_an_outdated_copy_asks_for_nothing_twice(world: World) -> None:
    await ask(world.client, "blind", backup=HOURLY)
    await world.settle("blind")
    before = await world.of("blind")
    # As the copy is before the watch has shown anything.
    world.requests.of = lambda tenant: []  # type: ignore[method-assign]
    await world.controller.settle("blind")
    assert await world.of("blind") == before
    assert len(before) == 1


async def test_the_last_whole_one_is_reported_and_overdue_ones_are_missed(world: World) -> None:
    await ask(world.client, "kept", backup=HOURLY)
    tenant = await world.settle("kept")
    plane, now = Plane("kept", tenant["status"]["planeIdentity"]), world.clock.now()
    await world.taken((await world.of("kept"))[0], plane, now)
    told = condition_of(await world.settle("kept"), "LastSnapshot")
    assert (told["status"], told["reason"]) == ("True", Reason.READY)
    world.clock.ahead = timedelta(hours=3)
    told = condition_of(await world.settle("kept"), "LastSnapshot")
    assert (told["status"], told["reason"]) == ("False", Reason.BACKUP_OVERDUE)


async def test_thinning_takes_what_is_stored_along_and_leaves_everything_else(world: World) -> None:
    tenant = await ask(world.client, "thin", backup=HOURLY)
    tenant = await world.settle("thin")
    plane, now = Plane("thin", tenant["status"]["planeIdentity"]), world.clock.now()
    before = Plane("thin", "00000000-8888-7777-6666-555555555555")
    homes = {}
    for of, hours in ((plane, (5, 4, 3, 2)), (before, (6,))):
        for hour in hours:
            asked = request(of, now - timedelta(hours=hour))
            await world.client.create(kinds.TENANT_SNAPSHOTS, asked)
            homes[hour] = await world.taken(asked["metadata"]["name"], of, now - timedelta(hours=hour))
    byhand = {"apiVersion": "bulkhead.dev/v1alpha1", "metadata": {"name": "thin-by-hand"}, "spec": {"tenant": "thin"}}
    await world.client.create(kinds.TENANT_SNAPSHOTS, byhand | {"kind": "TenantSnapshot"})
    homes[7] = await world.taken("thin-by-hand", plane, now - timedelta(hours=7))
    await world.settle("thin")
    for hour in (5, 4):
        await world.gone(name_of(plane, now - timedelta(hours=hour)))
        assert not [path for path in homes[hour].rglob("*") if path.is_file()], "nothing is stored of it"
    # The manifest goes last: nothing that counts as a snapshot lacks a part.
    for home in {path.rpartition("/")[0] for path in Closed.deleted if path.endswith("manifest.json")}:
        mine = [path for path in Closed.deleted if path.startswith(home)]
        assert mine[-1] == f"{home}/manifest.json"
        assert len(mine) == 3
    for hour in (2, 3, 6, 7):
        assert (homes[hour] / "manifest.json").is_file()
    assert "thin-by-hand" in await world.of("thin")


async def test_while_a_plane_lacks_its_data_none_is_taken_and_none_deleted(world: World) -> None:
    """Those of an empty plane would have its identity, and take the places of what it can be restored from."""
    await ask(world.client, "lost", backup=HOURLY)
    tenant = await world.settle("lost")
    plane, now = Plane("lost", tenant["status"]["planeIdentity"]), world.clock.now()
    data = {planeidentity.UID_KEY: "before", planeidentity.QUARANTINE_KEY: "plane changed identity"}
    record: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": planeidentity.NAME}, "data": data}
    await world.client.create(kinds.CONFIG_MAPS, record, names.plane_namespace("lost"))
    for hour in (5, 4, 3, 2):
        asked = request(plane, now - timedelta(hours=hour))
        await world.client.create(kinds.TENANT_SNAPSHOTS, asked)
        await world.taken(asked["metadata"]["name"], plane, now - timedelta(hours=hour))
    before = await world.of("lost")
    world.clock.ahead = timedelta(hours=24)
    told = condition_of(await world.settle("lost"), "LastSnapshot")
    assert await world.of("lost") == before
    assert "none is taken and none deleted while the plane does not have its data: plane changed identity" in told["message"]
    # The control: once an admin has accepted it, the schedule goes on.
    await world.client.delete(kinds.CONFIG_MAPS, planeidentity.NAME, names.plane_namespace("lost"))
    await world.settle("lost")
    await world.gone(name_of(plane, now - timedelta(hours=5)))
    assert name_of(plane, slot(plane, 3600, world.clock.now())) in await world.of("lost")


async def test_what_cannot_be_deleted_stays_with_its_object_and_goes_later(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr("controller.snapshots.removal._PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("controller.snapshots.removal._LONGEST_PAUSE_SECONDS", 0.1)
    await ask(world.client, "read-only", backup=HOURLY)
    tenant = await world.settle("read-only")
    plane, name = Plane("read-only", tenant["status"]["planeIdentity"]), (await world.of("read-only"))[0]
    home = await world.taken(name, plane, world.clock.now())
    Closed.shut = True
    await world.client.delete(kinds.TENANT_SNAPSHOTS, name)
    await world.settle("read-only")

    async def told() -> bool:
        found = condition_of(await world.client.get(kinds.TENANT_SNAPSHOTS, name), "Complete")
        return found.get("reason") == SnapshotReason.REMOVING and "read-only" in str(found.get("message"))

    await until(told, "the object to say why it stays")
    assert (home / "manifest.json").is_file()
    Closed.shut = False
    await world.gone(name)
    assert not (home / "manifest.json").exists()


async def test_a_controller_that_dies_between_two_deletions_leaves_nothing(world: World) -> None:
    await ask(world.client, "halved", backup=HOURLY)
    tenant = await world.settle("halved")
    plane, name = Plane("halved", tenant["status"]["planeIdentity"]), (await world.of("halved"))[0]
    home = await world.taken(name, plane, world.clock.now())
    # As the one that died left it: a part is gone, the manifest is there.
    (home / GOLDEN.attempt / "etcd.age").unlink()
    await world.client.delete(kinds.TENANT_SNAPSHOTS, name)
    await world.settle("halved")
    await world.gone(name)
    assert not [path for path in home.rglob("*") if path.is_file()]


@pytest.mark.parametrize("why", ["identity", "tenant", "snapshot", "signature", "nonsense"])
async def test_what_is_stored_of_others_stays_whatever_an_object_says(world: World, why: str) -> None:
    tenant = f"forged-{why}"
    plane = Plane(tenant, "99999999-8888-7777-6666-555555555555")
    asked = request(plane, world.clock.now())
    name = asked["metadata"]["name"]
    changes: dict[str, Any] = {
        "identity": {"identity": "00000000-8888-7777-6666-555555555555"},
        "tenant": {"tenant": "blue"},
        "snapshot": {"snapshot": "another"},
    }.get(why, {})
    if why in {"identity", "tenant"}:
        of = replace(RECORD, id=changes.get("identity", plane.identity), tenant=changes.get("tenant", tenant))
        changes["record"] = record(of, FixedKeys.held)
    home = world.stored(name, plane, **changes)
    if why == "signature":
        text = (home / "manifest.json").read_text()
        (home / "manifest.json").write_text(text.replace("10.112.4.0", "10.112.8.0"))
    if why == "nonsense":
        (home / "manifest.json").write_bytes(b"\xff\xfe{")
    await world.client.create(kinds.TENANT_SNAPSHOTS, asked)
    await world.client.delete(kinds.TENANT_SNAPSHOTS, name)
    await world.seen()
    # There is no such Tenant; the object is enqueued under its name all the same.
    await world.controller.reconciler.reconcile(tenant)
    await world.gone(name)
    assert (home / "manifest.json").is_file()
    assert (home / GOLDEN.attempt / "etcd.age").is_file()


async def test_what_is_stored_goes_from_where_it_is_whatever_the_class_says_now(world: World) -> None:
    await ask(world.client, "moved", backup=HOURLY)
    tenant = await world.settle("moved")
    plane, name = Plane("moved", tenant["status"]["planeIdentity"]), (await world.of("moved"))[0]
    usual = await world.taken(name, plane, world.clock.now())
    (world.store / "archive").mkdir()
    world.store = world.store / "archive"
    home = world.stored(name, plane)
    # As it was recorded before anything was stored there; the class names no target by now.
    await world.client.patch(kinds.TENANT_SNAPSHOTS, name, {"status": {"target": "archive"}}, subresource="status")
    await world.seen()
    await world.client.delete(kinds.TENANT_SNAPSHOTS, name)
    await world.settle("moved")
    await world.gone(name)
    assert not [path for path in home.rglob("*") if path.is_file()]
    assert (usual / "manifest.json").is_file(), "another place has nothing to do with it"


async def test_a_target_that_the_installation_lacks_is_told_and_nothing_is_asked_for(world: World) -> None:
    offer = tenant_class(backup={"shortestSchedule": "15m", "target": "gone", "targets": ["archive"]})
    await world.client.apply(kinds.TENANT_CLASSES, offer | {"metadata": {"name": "elsewhere"}})
    await ask(world.client, "lacks", **{"class": "elsewhere", "backup": HOURLY})
    told = condition_of(await world.settle("lacks"), "LastSnapshot")
    assert (told["status"], told["reason"]) == ("False", Reason.NO_BACKUP_PLACE)
    assert "add target 'gone' to backup.targets" in told["message"]
    assert await world.of("lacks") == []
    # A Tenant may choose another one of its class.
    await world.client.patch(kinds.TENANTS, "lacks", {"spec": {"backup": {"target": "archive"}}})
    assert condition_of(await world.settle("lacks"), "LastSnapshot")["status"] == "Unknown"
    assert len(await world.of("lacks")) == 1
    # One that is not offered is refused, and the accepted one stays.
    await world.client.patch(kinds.TENANTS, "lacks", {"spec": {"backup": {"target": "of-others"}}})
    tenant = await world.settle("lacks")
    assert "spec.backup.target: of-others is not one of the class's: gone, archive" in str(tenant["status"]["conditions"])
    assert condition_of(tenant, "LastSnapshot")["status"] == "Unknown"


async def test_without_a_place_nothing_is_asked_for_and_that_is_said(client: Client) -> None:
    await client.apply(
        kinds.TENANT_CLASSES,
        tenant_class(backup={"schedule": "1h"}) | {"metadata": {"name": "standard"}},
    )
    await ask(client, "nowhere")
    requests, clock = Snapshots(client, lambda _: None), SystemClock()
    tasks = Untaken(client, clock, Places())
    removals = SnapshotRemovals(client, clock, Places(), tasks)
    async with background(requests.run()):
        await asyncio.wait_for(requests._informer.synced(), 60)
        async with ControllerHost(client, snapshots=(requests, tasks), removals=removals) as controller:
            told = condition_of(await controller.settle("nowhere"), "LastSnapshot")
    assert (told["status"], told["reason"]) == ("False", Reason.NO_BACKUP_PLACE)
    assert [o for o in (await client.list(kinds.TENANT_SNAPSHOTS)).items if o["spec"]["tenant"] == "nowhere"] == []
