"""Snapshots of a real plane, with a plane's own flags, in a real bucket; and that what is stored makes a plane again.

etcd + API server ──> controller's tasks ──> rclone's S3 ──> judged, decrypted, etcdutl ──> another etcd + API server
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyrage
import pytest

from bulkhead.api.conditions import SnapshotReason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Gone, KubeError, Unprocessable
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.snapshots import reading
from bulkhead.snapshots.frames import Frames, TornError
from bulkhead.snapshots.judge import RefusedError
from bulkhead.snapshots.layout import MANIFEST, STORE, folder
from bulkhead.snapshots.namedtargets import NamedTarget
from bulkhead.snapshots.sealing import SealError
from bulkhead.snapshots.target import Target, TargetError
from bulkhead.work.clock import SystemClock
from controller.plane.spec import API_SERVER
from controller.snapshots import loop, take
from controller.snapshots.loop import SnapshotTasks
from controller.snapshots.places import Places, opened
from tests.apiserver.snapshotinstallation import (
    ID,
    KEY,
    MOST,
    RECORD,
    SPEC,
    Installation,
    installed,
    manifest_of,
    means,
    store_of,
)
from tests.kit.bucket import Bucket, bucket
from tests.kit.crds import install
from tests.kit.planeprocess import ETCD, PlaneProcesses, answering
from tests.kit.restoring import BUMPED, restored

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaneProcesses]:
    with answering(tmp_path_factory.mktemp("plane"), SPEC) as processes:
        yield processes


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with bucket(tmp_path_factory.mktemp("s3")) as made:
        yield made


@pytest.fixture
async def inside(plane: PlaneProcesses) -> AsyncIterator[Client]:
    async with Client(plane.admin, user_agent="tenant", field_manager="tenant") as made:
        yield made


@pytest.fixture
async def here(host_client: Client, plane: PlaneProcesses, endpoint: Bucket) -> AsyncIterator[Installation]:
    async with installed(host_client, plane, endpoint.target(prefix="of-this-host")) as made:
        yield made


async def test_what_is_stored_makes_the_plane_again(
    here: Installation, inside: Client, tmp_path: Path, endpoint: Bucket
) -> None:
    secret = {"metadata": {"name": "precious", "namespace": "default"}, "stringData": {"word": "kept"}}
    before = await inside.create(kinds.SECRETS, secret)
    await inside.create(kinds.SERVICE_ACCOUNTS, {"metadata": {"name": "robot", "namespace": "default"}})
    asked = {"spec": {"expirationSeconds": 3600}}
    issued = await inside.create_subresource(kinds.SERVICE_ACCOUNTS, "robot", "token", asked, "default")
    await here.ask("whole")
    message = await here.ends("whole", SnapshotReason.STORED)
    late = await inside.create(kinds.CONFIG_MAPS, {"metadata": {"name": "late", "namespace": "default"}, "data": {"a": "b"}})
    assert "MiB of the store" in message
    found = await manifest_of(here.target, "whole")
    # Nothing that leaves the host can be read there: neither keys nor what they encrypt.
    for path in endpoint.objects().values():
        data = path.read_bytes()
        for word in (b"PRIVATE KEY", b"precious", b"robot", here.plane.keys.encryption_key.encode()):
            assert word not in data, path
    status = (await here.host.get(kinds.TENANT_SNAPSHOTS, "whole"))["status"]
    assert status["identity"] == ID
    assert status["location"].endswith(f"{ID}/whole/manifest.json")
    assert status["storedBytes"] == found.size > status["storeBytes"] > 0
    keys = await reading.plane(here.target, found, [KEY])
    assert keys.tenant["spec"] == {"class": "standard"}
    assert (keys.record, keys.service_slice) == (RECORD, SPEC.service_slice)
    again = restored(tmp_path / "again", SPEC, await store_of(here.target, found), keys)
    try:
        again.start(ETCD, API_SERVER)
        again.wait()
        async with Client(again.admin, user_agent="tenant", field_manager="tenant") as client:
            # Encrypted in the store: only with the key from the snapshot this can be read.
            after = await client.get(kinds.SECRETS, "precious", "default")
            assert (after["data"], after["metadata"]["uid"]) == (before["data"], before["metadata"]["uid"])
            listed = await client.list(kinds.CONFIG_MAPS, "default")
            assert "late" not in {obj["metadata"]["name"] for obj in listed.items}
            # No earlier watch sees the past, and no version is used twice.
            assert int(listed.resource_version) > BUMPED
            assert await expired(client, late["metadata"]["resourceVersion"])
        # An earlier token is valid: issuer and key are the same.
        config = KubeConfig(server=again.admin.server, ca=again.admin.ca, token=issued["status"]["token"])
        async with Client(config, user_agent="robot", field_manager="robot") as robot:
            data = await robot.transport.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=REVIEW)
        assert b"system:serviceaccount:default:robot" in data
    finally:
        again.stop()


REVIEW = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'


async def expired(client: Client, version: str) -> bool:
    """Whether a watch from this version is refused as too old."""
    params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "5"}
    data = b""
    try:
        async with client.transport.stream("/api/v1/namespaces/default/configmaps", params) as answer:
            while part := await answer.readany():
                data += part
    except Gone:
        return True
    return b'"code":410' in data


async def test_an_installation_without_a_place_says_what_to_set(
    host_client: Client, plane: PlaneProcesses, endpoint: Bucket
) -> None:
    async with installed(host_client, plane, endpoint.target()) as here:
        here.tasks = SnapshotTasks(host_client, SystemClock(), Places())
        await here.ask("nowhere")
        assert "backup.target" in await here.ends("nowhere", SnapshotReason.FAILED)


async def test_tenants_of_two_classes_store_in_two_buckets_with_credentials_of_their_own(
    host_client: Client, plane: PlaneProcesses, endpoint: Bucket, tmp_path: Path
) -> None:
    keys = {name: {"access_key_id": f"{name}keyid", "secret_access_key": f"{name}secretkey"} for name in ("gold", "cold")}
    with bucket(tmp_path / "gold", key=keys["gold"]) as gold, bucket(tmp_path / "cold", key=keys["cold"]) as cold:
        buckets = {"gold": gold, "cold": cold}
        for name, pair in keys.items():
            (tmp_path / "credentials" / name).mkdir(parents=True)
            (tmp_path / "credentials" / name / "AWS_ACCESS_KEY_ID").write_text(pair["access_key_id"])
            (tmp_path / "credentials" / name / "AWS_SECRET_ACCESS_KEY").write_text(pair["secret_access_key"])
        usual = means(plane, endpoint.target(prefix="usual"))
        named = {
            name: replace(usual, target=partial(opened, NamedTarget(name, buckets[name].place(), ()), tmp_path / "credentials"))
            for name in buckets
        }
        async with installed(host_client, plane, endpoint.target(), places=Places(usual, named)) as here:
            for place in ("gold", "cold", ""):
                here.place = place
                await here.ask(f"at-{place or 'usual'}")
                await here.ends(f"at-{place or 'usual'}", SnapshotReason.STORED)
            here.place = "elsewhere"
            await here.ask("at-elsewhere")
            assert "no target 'elsewhere'" in await here.ends("at-elsewhere", SnapshotReason.FAILED)
        for name, made in buckets.items():
            assert {path.split("/")[1] for path in made.objects()} == {f"at-{name}"}
            status = (await host_client.get(kinds.TENANT_SNAPSHOTS, f"at-{name}"))["status"]
            assert status["target"] == name
        assert "target" not in (await host_client.get(kinds.TENANT_SNAPSHOTS, "at-usual"))["status"]
        assert not [path for path in endpoint.objects() if "at-gold" in path or "at-cold" in path]
        # Neither can read the other's: what opens one bucket opens no other; the control is that it opens its own.
        for name, made in buckets.items():
            assert await manifest_of(Target(made.place(), keys[name]), f"at-{name}")
            (other,) = set(keys) - {name}
            with pytest.raises(TargetError, match="cannot read"):
                await manifest_of(Target(made.place(), keys[other]), f"at-{name}")


async def test_faults_are_told_and_tried_again_and_leave_nothing_that_counts(
    here: Installation, endpoint: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(loop, "ATTEMPTS", 2)
    # No such member: etcd is asked and does not answer.
    here.addresses = {"plane-0": "127.0.0.3"}
    await here.ask("silent")
    assert "2 attempts failed" in await here.ends("silent", SnapshotReason.FAILED)
    here.addresses = {}
    await here.ask("down")
    assert "not running" in await here.ends("down", SnapshotReason.FAILED)
    with pytest.raises(RefusedError, match="not finished"):
        await manifest_of(here.target, "silent")


async def test_an_error_that_no_list_knows_is_told_with_its_kind_and_the_snapshot_fails_at_last(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that ended unseen would be begun again by every turn."""

    async def odd(*_: object) -> None:
        raise ZeroDivisionError("of this test")

    monkeypatch.setattr(loop, "_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(loop, "ATTEMPTS", 2)
    monkeypatch.setattr(loop, "take", odd)
    await here.ask("odd")
    assert "2 attempts failed, the last one because: ZeroDivisionError: of this test" in await here.ends(
        "odd", SnapshotReason.FAILED
    )


async def test_a_store_that_goes_away_in_between_leaves_nothing_and_the_next_attempt_is_whole(
    here: Installation, endpoint: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_PAUSE_SECONDS", 0.1)
    feed, cut = Frames.feed, iter([True])

    def torn(self: Frames, data: bytes) -> list[bytes]:
        parts = feed(self, data)
        if self.taken > 100_000 and next(cut, False):
            raise TornError("the connection broke")
        return parts

    monkeypatch.setattr(Frames, "feed", torn)
    await here.ask("broken")
    await here.ends("broken", SnapshotReason.STORED)
    assert next(cut, None) is None  # it did break
    found = await manifest_of(here.target, "broken")
    assert await store_of(here.target, found)
    # Of the attempt that failed nothing is left, and its folder is not that of the manifest.
    folders = {key.split("/")[-2] for key in endpoint.objects() if "/broken/" in key and key.endswith(".age")}
    assert folders == {found.attempt}


async def test_a_controller_that_dies_takes_it_again(
    here: Installation, host_client: Client, endpoint: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, put = asyncio.Event(), Target.put_small

    async def dies(self: Target, path: str, data: bytes, **_: bool) -> None:
        reached.set()
        await asyncio.Event().wait()

    # Everything is stored but the manifest.
    monkeypatch.setattr(Target, "put_small", dies)
    request = await here.ask("orphaned")
    await reached.wait()
    await here.tasks.close()
    with pytest.raises(RefusedError, match="not finished"):
        await manifest_of(here.target, "orphaned")
    assert (await here.reason("orphaned"))[0] == SnapshotReason.RUNNING
    monkeypatch.setattr(Target, "put_small", put)
    async with installed(host_client, here.plane, here.target) as successor:
        successor.order(request)
        await successor.ends("orphaned", SnapshotReason.STORED)
        found = await manifest_of(here.target, "orphaned")
        assert await store_of(here.target, found)


def stored_below(endpoint: Bucket, name: str) -> dict[str, bytes]:
    return {key: path.read_bytes() for key, path in endpoint.objects().items() if f"/{name}/" in key}


async def test_a_controller_that_dies_before_its_report_takes_it_once(
    here: Installation, host_client: Client, endpoint: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, reached = Target.put_small, asyncio.Event()

    async def stores_and_dies(self: Target, path: str, data: bytes, **how: bool) -> None:
        await put(self, path, data, **how)
        reached.set()
        raise asyncio.CancelledError

    monkeypatch.setattr(Target, "put_small", stores_and_dies)
    monkeypatch.setattr(take, "_remove", no_time_left)
    request = await here.ask("unreported")
    await reached.wait()
    await here.tasks.close()
    monkeypatch.undo()
    before = stored_below(endpoint, "unreported")
    assert (await here.reason("unreported"))[0] == SnapshotReason.RUNNING
    async with installed(host_client, here.plane, here.target) as successor:
        successor.order(request)
        await successor.ends("unreported", SnapshotReason.STORED)
    assert len(before) == 3
    assert stored_below(endpoint, "unreported") == before
    status = (await here.host.get(kinds.TENANT_SNAPSHOTS, "unreported"))["status"]
    assert status["startTime"] <= (await manifest_of(here.target, "unreported")).created


async def no_time_left(*_: object) -> None:
    """A process that is killed cleans nothing up."""


async def test_a_name_that_is_used_again_replaces_nothing_that_is_stored(
    here: Installation, host_client: Client, endpoint: Bucket
) -> None:
    await here.ask("again")
    await here.ends("again", SnapshotReason.STORED)
    before = stored_below(endpoint, "again")
    await host_client.delete(kinds.TENANT_SNAPSHOTS, "again")
    await here.ask("again")
    message = await here.ends("again", SnapshotReason.FAILED)
    assert "is stored already" in message
    assert "another name" in message
    assert stored_below(endpoint, "again") == before
    # What is not whole does not count, and its name is free.
    found = await manifest_of(here.target, "again")
    await here.target.delete(f"{folder(ID, 'again')}/{found.attempt}/{STORE}")
    await host_client.delete(kinds.TENANT_SNAPSHOTS, "again")
    await here.ask("again")
    await here.ends("again", SnapshotReason.STORED)
    assert (await manifest_of(here.target, "again")).attempt != found.attempt


async def test_what_was_changed_in_the_bucket_is_refused(here: Installation) -> None:
    for name in ("prey", "other"):
        await here.ask(name)
        await here.ends(name, SnapshotReason.STORED)
    target = here.target
    found, other = await manifest_of(target, "prey"), await manifest_of(target, "other")
    home = f"{folder(ID, 'prey')}/{found.attempt}"
    whole = await target.small(f"{home}/{STORE}", MOST)
    with pytest.raises(SealError, match="No matching keys"):
        await store_of(target, found, pyrage.x25519.Identity.generate())
    # One bit, and the size is the same.
    await target.put_small(f"{home}/{STORE}", whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:])
    assert await manifest_of(target, "prey") == found
    with pytest.raises(SealError):
        await store_of(target, found)
    # Encrypted again with the public key that everyone may have, with the same size: what is signed is the digest.
    await target.put_small(f"{home}/{STORE}", pyrage.encrypt(pyrage.decrypt(whole, [KEY]), [KEY.to_public()]))
    with pytest.raises(RefusedError, match=r"is signed|longer"):
        await store_of(target, found)
    # That of another snapshot of the same plane.
    theirs = await target.small(f"{folder(ID, 'other')}/{other.attempt}/{STORE}", MOST)
    await target.put_small(f"{home}/{STORE}", theirs)
    with pytest.raises(RefusedError, match=r"is signed|truncated|longer"):
        await store_of(target, await manifest_of(target, "prey"))
    await target.put_small(f"{home}/{STORE}", whole[:-1])
    with pytest.raises(RefusedError, match="truncated"):
        await manifest_of(target, "prey")
    with pytest.raises(SealError):
        await store_of(target, found)
    await target.delete(f"{home}/{STORE}")
    with pytest.raises(RefusedError, match="missing"):
        await manifest_of(target, "prey")
    await target.put_small(f"{home}/{STORE}", whole)
    assert len(await store_of(target, await manifest_of(target, "prey"))) == found.parts[STORE].plain  # a control
    # A whole snapshot under another's name.
    envelope = await target.small(f"{folder(ID, 'other')}/{MANIFEST}")
    await target.put_small(f"{folder(ID, 'prey')}/{MANIFEST}", envelope)
    with pytest.raises(RefusedError, match="moved here"):
        await manifest_of(target, "prey")


async def test_of_many_at_once_a_few_are_taken_and_the_others_wait(here: Installation) -> None:
    names = [f"many-{number}" for number in range(5)]
    for name in names:
        await here.ask(name)
    for name in names:
        await here.ends(name, SnapshotReason.STORED)
    attempts = {(await manifest_of(here.target, name)).attempt for name in names}
    assert len(attempts) == 5


@pytest.mark.parametrize("spec", [{}, {"tenant": ""}, {"tenant": "-x"}, {"tenant": "a" * 41}])
async def test_only_a_tenant_can_be_asked_for(host_client: Client, spec: Obj) -> None:
    await install(host_client)
    body = {"apiVersion": "bulkhead.dev/v1alpha1", "kind": "TenantSnapshot", "metadata": {"name": "bad"}, "spec": spec}
    with pytest.raises(KubeError):
        await host_client.create(kinds.TENANT_SNAPSHOTS, body)


async def test_a_snapshot_stays_one_of_its_tenant(here: Installation) -> None:
    await here.ask("fixed")
    with pytest.raises(Unprocessable, match="one tenant and one moment"):
        await here.host.patch(kinds.TENANT_SNAPSHOTS, "fixed", {"spec": {"tenant": "blue"}})
    await here.ends("fixed", SnapshotReason.STORED)
