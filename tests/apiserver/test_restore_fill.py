"""The program that fills a volume, on the volume of a real plane: what it takes, what it refuses, and where it goes on."""

import hashlib
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.snapshots import contents
from bulkhead.snapshots.contents import ContentsError
from bulkhead.snapshots.sending import SendError
from controller.plane.sections import Restoring
from controller.plane.spec import API_SERVER
from tests.kit.filling import Filling
from tests.kit.planeprocess import ETCD, PlaneProcesses, answering
from tests.kit.storecopy import store_of
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
SPEC = plane_spec(tenant="red", identity="99999999-8888-7777-6666-555555555555")
UID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[PlaneProcesses]:
    with answering(tmp_path / "plane", SPEC) as processes:
        yield processes


@pytest.fixture
def filling(plane: PlaneProcesses) -> Iterator[Filling]:
    made = Filling(plane, Restoring(UID, 0, 1_000_000_000))
    yield made
    made.stop(signal.SIGKILL)


async def once(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 1 << 16):
        yield data[at : at + (1 << 16)]


async def named(plane: PlaneProcesses) -> set[str]:
    async with Client(plane.admin, user_agent="tests", field_manager="tests") as client:
        found = await client.list(kinds.CONFIG_MAPS, "default")
        return {obj["metadata"]["name"] for obj in found.items}


async def make(plane: PlaneProcesses, name: str) -> None:
    async with Client(plane.admin, user_agent="tests", field_manager="tests") as client:
        await client.create(kinds.CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}})


async def test_what_is_in_a_store_is_read_from_its_file(plane: PlaneProcesses) -> None:
    async with Client(plane.admin, user_agent="tests", field_manager="tests") as client:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        for name in ("kept", "removed"):
            meta = {"name": name, "namespace": "default"}
            await client.create(kinds.PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": claim})
        found = await client.get(kinds.PERSISTENT_VOLUME_CLAIMS, "kept", "default")
        await client.patch(kinds.PERSISTENT_VOLUME_CLAIMS, "removed", {"metadata": {"finalizers": None}}, "default")
        await client.delete(kinds.PERSISTENT_VOLUME_CLAIMS, "removed", "default")
        # Made again after it was deleted: the last one counts.
        for number in range(400):
            meta = {"name": f"many-{number}", "namespace": "default"}
            await client.create(kinds.CONFIG_MAPS, {"metadata": meta, "data": {"a": "x" * 5000}})
    store = await store_of(plane)
    read = contents.uids(store, (contents.CLAIMS, contents.PODS, contents.SERVICES))
    assert read[contents.CLAIMS] == {"default/kept": found["metadata"]["uid"]}
    assert read[contents.PODS] == {}
    assert read[contents.SERVICES].keys() == {"default/kubernetes"}
    for broken in (b"", store[:4096], b"x" * 100_000, store[: len(store) // 2]):
        with pytest.raises(ContentsError):
            contents.uids(broken, (contents.CLAIMS,))


async def test_a_volume_is_filled_whatever_breaks_in_between(plane: PlaneProcesses, filling: Filling, tmp_path: Path) -> None:
    await make(plane, "known")
    store = await store_of(plane)
    await make(plane, "younger")
    plane.end()
    filling.order = Restoring(UID, len(store), 1_000_000_000)
    filling.etcdutl = "/bin/false"
    filling.start()
    # Cut short, changed, of the wrong size: the old data is in its place.
    greeting, _, writer = await filling.greet()
    assert (greeting.filled, greeting.trouble) == (False, "")
    writer.write(store[: len(store) // 2])
    writer.close()
    greeting, _, writer = await filling.greet()
    assert "before the end" in greeting.trouble
    writer.close()
    with pytest.raises(SendError):
        await filling.send(once(store[:-5000] + bytes([store[-5000] ^ 1]) + store[-4999:]))
    assert "digest" in (await filling.greet())[0].trouble
    assert (filling.volume / "data" / "member").is_dir()
    assert not list(filling.volume.glob("restore-*/etcd.db"))
    # A pod that is killed as soon as it has the file goes on without the command, with another etcdutl.
    filling.stop(signal.SIGKILL)
    filling.start()
    await filling.send(once(store))
    filling.stop(signal.SIGKILL)
    filling.etcdutl = Filling(plane, filling.order).etcdutl
    filling.start()
    greeting, _, writer = await filling.greet()
    writer.close()
    if not greeting.filled:
        # /bin/false had ended first, and a file that cannot be used is not kept.
        assert "etcdutl ended with 1" in greeting.trouble or not greeting.trouble
        await filling.send(once(store))
    await filling.filled()
    assert (await filling.greet())[0].filled
    assert (filling.volume / f"data-before-{UID}" / "member").is_dir()
    assert not list(filling.volume.glob("restore-*"))
    # Another pod finds it filled.
    filling.stop(signal.SIGKILL)
    filling.start()
    await filling.filled()
    filling.stop()
    plane.start(ETCD, API_SERVER)
    plane.wait()
    assert await named(plane) >= {"known"}
    assert "younger" not in await named(plane)


async def test_every_moment_of_the_exchange_can_be_the_last(plane: PlaneProcesses, filling: Filling) -> None:
    store = await store_of(plane)
    plane.end()
    filling.order = Restoring(UID, len(store), 1_000_000_000)
    filling.start()
    await filling.send(once(store))
    await filling.filled()
    filling.stop(signal.SIGKILL)
    volume = filling.volume
    data, before, home, marker = volume / "data", volume / f"data-before-{UID}", volume / f"restore-{UID}", volume / "restored"
    for moved in ((), (data,), (data, before)):
        # As it was at that moment: nothing moved, the old data moved, or both.
        marker.unlink()
        home.mkdir()
        if data not in moved:
            data.rename(home / "data")
            before.rename(data)
        elif before not in moved:
            data.rename(home / "data")
        (home / "complete").touch()
        filling.start()
        await filling.filled()
        filling.stop(signal.SIGKILL)
        assert marker.read_text() == UID
        assert (data / "member").is_dir()
        assert (before / "member").is_dir()
        assert not home.exists()
    # Of two earlier restores, the data before the last one stays.
    filling.order = Restoring(UID.replace("1", "2"), len(store), 2_000_000_000)
    filling.start()
    await filling.send(once(store))
    await filling.filled()
    assert [path.name for path in volume.glob("data-before-*")] == [f"data-before-{filling.order.restore}"]


async def test_without_room_it_says_so_before_anything_is_sent(plane: PlaneProcesses, filling: Filling) -> None:
    plane.end()
    filling.order = Restoring(UID, 1 << 50, 1)
    filling.start()
    with pytest.raises(SendError, match="--discard-old-data"):
        await filling.greet()
    filling.stop(signal.SIGKILL)
    filling.order = Restoring(UID, 1 << 50, 1, discard=True)
    filling.start()
    with pytest.raises(SendError, match=r"raise controlPlane\.storage\.size"):
        await filling.greet()
    assert (filling.volume / "data" / "member").is_dir()


async def test_old_data_can_be_given_up_for_room(plane: PlaneProcesses, filling: Filling) -> None:
    await make(plane, "known")
    store = await store_of(plane)
    plane.end()
    filling.order = Restoring(UID, len(store), 1_000_000_000, discard=True)
    filling.start()
    await filling.send(once(store))
    await filling.filled()
    assert not list(filling.volume.glob("data-before-*"))
    filling.stop()
    plane.start(ETCD, API_SERVER)
    plane.wait()
    assert "known" in await named(plane)


async def test_a_pod_of_another_restore_gets_nothing(plane: PlaneProcesses, filling: Filling) -> None:
    plane.end()
    filling.order = Restoring(UID, 100, 1)
    filling.start()
    await filling.greet()
    filling.order = Restoring(UID.replace("1", "7"), 100, 1)
    with pytest.raises(SendError, match="another restore"):
        await filling.greet()


async def test_a_silent_sender_does_not_keep_others_out(plane: PlaneProcesses, filling: Filling) -> None:
    """The command that died is let go: here by its closed connection; a pod gives up after a minute of silence by itself."""
    plane.end()
    data = b"x" * 1000
    filling.order = Restoring(UID, len(data) + 32, 1)
    filling.etcdutl = "/bin/false"
    filling.start()
    _, _, writer = await filling.greet()
    writer.close()
    await filling.send(once(data + hashlib.sha256(data).digest()))

    async def told() -> bool:
        greeting, _, writer = await filling.greet()
        writer.close()
        return "etcdutl ended with 1" in greeting.trouble

    await until(told, "the failure to be told")
