"""Shared volumes between a real host and a real plane; what a host's and a plane's controllers do to volumes is played here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, NotFound, Unprocessable
from bulkhead.kube.objects import Resource
from bulkhead.work.clock import SystemClock
from controller.inside.calls import Plane
from controller.shares import loop as module
from controller.shares.content import Source
from controller.shares.loop import ShareLoops
from controller.shares.spec import Item
from controller.shares.volumes.host import HostVolumes
from controller.shares.volumes.offers import TYPES
from tests.kit.background import background
from tests.kit.crds import install
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.planes]
TENANT, WORK, CLASS = "sharer", "bh-sharer-work", "sharing"
CLAIM = "shared.ro.data"
NFS = {"server": "nfs.example.org", "path": "/export"}


@dataclass
class Volumes:
    """The loops of one controller, with a host and a plane."""

    host: Client
    plane: Client
    loops: ShareLoops

    async def share(self, name: str = "data", **spec: object) -> None:
        source = {} if "persistentVolumeName" in spec else {"nfs": NFS}
        body = {**source, "subPath": "{tenant}", "classes": [CLASS], "namespaces": {"names": ["red", "blue"]}, **spec}
        await self.host.apply(kinds.SHARED_VOLUMES, {"metadata": {"name": name}, "spec": body})

    async def claim(self, namespace: str, name: str = CLAIM) -> Obj | None:
        return await found(self.plane, kinds.PERSISTENT_VOLUME_CLAIMS, name, namespace)

    async def bound(self, namespace: str, name: str = CLAIM) -> Obj:
        async def right() -> bool:
            claim = await self.claim(namespace, name)
            return (claim or {}).get("status", {}).get("phase") == "Bound"

        await until(right, f"{namespace}/{name} to be bound")
        return await self.claim(namespace, name) or {}

    async def gone(self, namespace: str, name: str = CLAIM) -> None:
        async def right() -> bool:
            return await self.claim(namespace, name) is None

        await until(right, f"{namespace}/{name} to be gone")

    async def on_host(self) -> list[Obj]:
        listed = await self.host.list(kinds.PERSISTENT_VOLUMES, label_selector=labels.tenant_selector(TENANT))
        return list(listed.items)

    async def withdraw(self) -> None:
        """Stop sharing, and wait until nothing of it is left."""
        for shared in (await self.host.list(kinds.SHARED_VOLUMES)).items:
            await self.host.delete(kinds.SHARED_VOLUMES, shared["metadata"]["name"])

        async def empty() -> bool:
            listed = await self.plane.list(kinds.PERSISTENT_VOLUMES, label_selector=labels.SHARED_VOLUME)
            return not await self.on_host() and not listed.items

        await until(empty, "nothing left of shared volumes on either side")

    async def says(self, words: str) -> None:
        async def said() -> bool:
            last = self.loops.found(TENANT)
            return last is not None and words in " ".join((*last.troubles, *last.conflicts, *last.leaving))

        await until(said, words)


async def found(client: Client, r: Resource, name: str, namespace: str | None = None) -> Obj | None:
    try:
        return await client.get(r, name, namespace)
    except NotFound:
        return None


async def bind(host: Client, plane: Client) -> None:
    """What binders and protections do: bind a claim to the volume that it names, and release claims that no pod uses."""
    while True:
        for client, place in ((host, WORK), (plane, None)):
            for r, namespace in ((kinds.PERSISTENT_VOLUME_CLAIMS, place), (kinds.PERSISTENT_VOLUMES, None)):
                for obj in (await client.list(r, namespace)).items:
                    if labels.SHARED_VOLUME in (obj["metadata"].get("labels") or {}):
                        with contextlib.suppress(NotFound, Conflict):
                            await _step(client, r, obj, binds=client is host)
        await asyncio.sleep(0.05)


async def _step(client: Client, r: Resource, obj: Obj, *, binds: bool) -> None:
    meta = obj["metadata"]
    if "deletionTimestamp" in meta:
        pods = (await client.list(kinds.PODS, meta["namespace"])).items if "namespace" in meta else []
        if any(meta["name"] in str(pod["spec"].get("volumes")) for pod in pods):
            return
        await client.patch(r, meta["name"], {"metadata": {"finalizers": None}}, meta.get("namespace"))
        return
    unbound = (obj.get("status") or {}).get("phase") != "Bound"
    if binds and unbound and r is kinds.PERSISTENT_VOLUME_CLAIMS:
        named = await found(client, kinds.PERSISTENT_VOLUMES, obj["spec"]["volumeName"])
        if named is not None and named["spec"]["claimRef"]["name"] == meta["name"]:
            status = {"status": {"phase": "Bound"}}
            await client.patch(kinds.PERSISTENT_VOLUMES, named["metadata"]["name"], status, subresource="status")
            await client.patch(r, meta["name"], status, meta["namespace"], subresource="status")


async def nothing(_: object) -> dict[Item, Source]:
    return {}


def controller(host: Client, plane: Client, changed: list[ShareLoops]) -> tuple[HostVolumes, ShareLoops]:
    """One life of a controller, as far as it is about volumes."""
    made = HostVolumes(host, SystemClock(), TYPES, lambda: [each.volumes_changed() for each in changed])
    loops = ShareLoops(SystemClock(), lambda turn: Plane(plane, turn), nothing, lambda _: None, volumes=made)
    changed.append(loops)
    return made, loops


@pytest.fixture
async def volumes(host_client: Client, plane_client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Volumes]:
    for name, seconds in (("LOOK_PERIOD_SECONDS", 0.1), ("_WHOLE_LOOK_PERIOD_SECONDS", 0.5), ("_LONGEST_BACKOFF_SECONDS", 0.5)):
        monkeypatch.setattr(module, name, seconds)
    monkeypatch.setattr("controller.shares.volumes.host._READ_AGAIN_SECONDS", 0.2)
    await install(host_client)
    for client, names in ((host_client, [WORK]), (plane_client, ["red", "blue", "green"])):
        for name in names:
            with contextlib.suppress(AlreadyExists):
                await client.create(kinds.NAMESPACES, {"metadata": {"name": name}})
    changed: list[ShareLoops] = []
    host, loops = controller(host_client, plane_client, changed)
    made = Volumes(host_client, plane_client, loops)
    async with background(host.run()), background(bind(host_client, plane_client)):
        loops.order(TENANT, (), CLASS)
        yield made
        await made.withdraw()
        await made.loops.close()


async def test_a_shared_volume_is_a_bound_claim_in_the_plane(volumes: Volumes) -> None:
    await volumes.share()
    for namespace in ("red", "blue"):
        claim = await volumes.bound(namespace)
        assert claim["status"]["capacity"] == {"storage": "1Gi"}
    (volume,) = await volumes.on_host()
    assert volume["spec"]["nfs"] == NFS | {"path": "/export/sharer", "readOnly": True}
    assert volume["spec"]["claimRef"]["namespace"] == WORK
    shown = await volumes.plane.get(kinds.PERSISTENT_VOLUMES, claim["spec"]["volumeName"])
    assert shown["status"]["phase"] == "Bound"
    assert "nfs" not in shown["spec"]
    assert await volumes.claim("green") is None


async def test_a_claim_that_a_tenant_takes_away_comes_back_and_its_own_is_left_alone(volumes: Volumes) -> None:
    await volumes.share()
    before = await volumes.bound("red")
    await volumes.plane.delete(kinds.PERSISTENT_VOLUME_CLAIMS, CLAIM, "red")

    async def another() -> bool:
        claim = await volumes.claim("red")
        return claim is not None and claim["metadata"]["uid"] != before["metadata"]["uid"]

    await until(another, "another claim")
    await volumes.bound("red")
    unmarked = {"metadata": {"labels": {labels.SHARED_VOLUME: None, labels.PLATFORM: None}}}
    own = await volumes.plane.patch(kinds.PERSISTENT_VOLUME_CLAIMS, CLAIM, unmarked, "red")
    await volumes.says(f"claim of red/{CLAIM}")
    left = await volumes.claim("red") or {}
    assert left["metadata"]["uid"] == own["metadata"]["uid"]
    await volumes.plane.delete(kinds.PERSISTENT_VOLUME_CLAIMS, CLAIM, "red")
    await volumes.plane.patch(kinds.PERSISTENT_VOLUME_CLAIMS, CLAIM, {"metadata": {"finalizers": None}}, "red")
    await volumes.bound("red")


async def test_it_moves_and_goes_with_its_shared_volume(volumes: Volumes) -> None:
    await volumes.share()
    await volumes.bound("red")
    await volumes.share(namespaces={"names": ["green"]})
    await volumes.bound("green")
    await volumes.gone("red")
    # Another source is another volume, in the place of the first.
    await volumes.share(nfs=NFS | {"path": "/other"}, namespaces={"names": ["green"]})

    async def moved() -> bool:
        return [each["spec"]["nfs"]["path"] for each in await volumes.on_host()] == ["/other/sharer"]

    await until(moved, "the other source")
    await volumes.share(readOnly=False, namespaces={"names": ["green"]})
    await volumes.bound("green", "shared.rw.data")
    await volumes.gone("green")
    await volumes.share(classes=["another"])
    await volumes.gone("green", "shared.rw.data")


async def test_what_can_no_longer_be_read_stays_as_it_is(volumes: Volumes) -> None:
    """The volume of the host that was named is gone, which says nothing of the bytes; tenants go on."""
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "nfs": NFS, "storageClassName": "x"}
    await volumes.host.apply(kinds.PERSISTENT_VOLUMES, {"metadata": {"name": "source"}, "spec": spec})
    await volumes.share(persistentVolumeName="source")
    before = await volumes.bound("red")
    await volumes.host.delete(kinds.PERSISTENT_VOLUMES, "source")
    await volumes.host.patch(kinds.PERSISTENT_VOLUMES, "source", {"metadata": {"finalizers": None}})
    await volumes.says("the host has no PersistentVolume source")
    after = await volumes.bound("red")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert len(await volumes.on_host()) == 1


async def test_the_host_takes_nothing_that_leads_out(volumes: Volumes) -> None:
    for path in ("../x", "/etc", "a//b", "teams/../private", "teams/{tenant}/.."):
        with pytest.raises(Unprocessable, match="subPath"):
            await volumes.share(subPath=path)
    with pytest.raises(Unprocessable, match="path"):
        await volumes.share(nfs=NFS | {"path": "/a/../b"})


async def mount(volumes: Volumes, claim: str) -> None:
    """A pod of the tenant on the host, which has a claim."""
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "x"}], "volumes": [volume]}
    await volumes.host.create(kinds.PODS, {"metadata": {"name": "writer"}, "spec": spec}, WORK)


async def end(volumes: Volumes) -> None:
    await volumes.host.delete(kinds.PODS, "writer", WORK, grace_seconds=0)


async def test_a_controller_that_starts_while_a_source_cannot_be_read_shares_nothing_below_it(volumes: Volumes) -> None:
    """What tenants may write to is read of the volumes that there are, so no life of a controller has to remember it."""
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "nfs": NFS, "storageClassName": "x"}
    await volumes.host.apply(kinds.PERSISTENT_VOLUMES, {"metadata": {"name": "source"}, "spec": spec})
    await volumes.share("all", persistentVolumeName="source", subPath="teams", readOnly=False)
    await volumes.bound("red", "shared.rw.all")
    await volumes.loops.close()
    await volumes.host.delete(kinds.PERSISTENT_VOLUMES, "source")
    await volumes.host.patch(kinds.PERSISTENT_VOLUMES, "source", {"metadata": {"finalizers": None}})
    await volumes.share("mine", subPath="teams/{tenant}")
    await volumes.share("beside", subPath="others")
    host, volumes.loops = controller(volumes.host, volumes.plane, [])
    async with background(host.run()):
        volumes.loops.order(TENANT, (), CLASS)
        await volumes.says("pods of tenant sharer may still write to by an earlier SharedVolume all")
        await volumes.bound("red", "shared.ro.beside")
        assert await volumes.claim("red", "shared.ro.mine") is None
        assert await volumes.claim("red", "shared.rw.all") is not None
        await volumes.withdraw()


@pytest.mark.parametrize("how", ["deleted", "read-only"])
async def test_what_pods_still_write_to_is_told_and_nothing_below_is_shared_until_they_end(volumes: Volumes, how: str) -> None:
    await volumes.share("all", subPath="teams", readOnly=False)
    await volumes.bound("red", "shared.rw.all")
    await mount(volumes, "shared.rw.all")
    if how == "deleted":
        await volumes.host.delete(kinds.SHARED_VOLUMES, "all")
    else:
        await volumes.share("all", subPath="teams")
    await volumes.share("mine", subPath="teams/{tenant}")
    await volumes.says(f"shared.rw.all (writable): pods writer of namespace {WORK}")
    await volumes.says("SharedVolume mine: it is below /export/teams, which pods of tenant sharer may still write to")
    assert volumes.loops.gives(TENANT)
    # In the plane it is gone: no new pod of the tenant names it.
    await volumes.gone("red", "shared.rw.all")
    held = await volumes.host.get(kinds.PERSISTENT_VOLUME_CLAIMS, "shared.rw.all", WORK)
    assert "deletionTimestamp" in held["metadata"]
    assert await volumes.claim("red", "shared.ro.mine") is None
    await end(volumes)
    await volumes.bound("red", "shared.ro.mine")

    async def silent() -> bool:
        last = volumes.loops.found(TENANT)
        return last is not None and not last.leaving and not last.troubles

    await until(silent, "the report to end")
