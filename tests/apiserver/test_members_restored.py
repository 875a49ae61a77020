"""A plane of one that is on its way to three, restored in between: its three members are one new cluster, and none is replaced.

Real etcds, and the real program that fills volumes.
"""

import contextlib
from collections.abc import AsyncIterator

import pytest

from bulkhead.kube.errors import KubeError
from bulkhead.snapshots.frames import Frames
from controller.plane.memberrecord import Record, is_refusal
from controller.restores.fill import Order, Volume
from tests.kit.etcdmembers import ADDRESS, PODS, EtcdMembers
from tests.kit.membersbed import FIRST, SECOND, SPEC, THIRD, Bed
from tests.kit.servers import binary
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
RESTORE = "11111111-2222-3333-4444-555555555555"
BUMP = 1_000_000_000


@pytest.fixture
async def bed(members: EtcdMembers) -> AsyncIterator[Bed]:
    """A plane of one whose Tenant has asked for three: two pods refuse to start, and the only member serves."""
    made = Bed(members)
    made.record, made.alone, made.narrow = Record(), {FIRST}, {THIRD}
    members.start(FIRST, spec=made.one)

    async def serves() -> bool:
        with contextlib.suppress(KubeError):
            await made.put("before")
            return True
        return False

    await until(serves, "the only member serves", 60.0)
    made.kubelet()
    for pod in (SECOND, THIRD):
        assert is_refusal(pod, members.ended(pod))
    yield made
    await made.access.close()


async def store_of(bed: Bed) -> bytes:
    """A snapshot, as the controller takes it."""
    etcd = await bed.access.etcd("tenant", bed.members.keys, FIRST, ADDRESS)
    frames, parts = Frames(1 << 30), list[bytes]()
    async with etcd._client.transport.stream("/v3/maintenance/snapshot", body=b"{}") as answer:
        while data := await answer.readany():
            parts += frames.feed(data)
    frames.end()
    return b"".join(parts)


def fill(bed: Bed, store: bytes) -> None:
    """What the pods of a restore do, one at each volume."""
    cluster = ",".join(f"{pod}={bed.members.peer_url(pod)}" for pod in PODS)
    for pod in PODS:
        folder = bed.members.folder / pod
        home = folder / f"restore-{RESTORE}"
        home.mkdir(parents=True)
        (home / "etcd.db").write_bytes(store)
        peer, etcdutl = bed.members.peer_url(pod), str(binary("etcdutl"))
        token = SPEC.identity
        order = Order(folder, RESTORE, len(store), BUMP, pod, peer, cluster, token, discard=False, etcdutl=etcdutl)
        volume = Volume(order)
        volume.fill()
        assert volume.filled


async def test_a_plane_that_grows_has_three_members_after_a_restore_and_none_is_replaced(bed: Bed) -> None:
    store = await store_of(bed)
    await bed.put("after-the-snapshot")
    await bed.until(lambda _, decision: "plane-2 cannot join" in decision.growing, "the growth waits for room")
    # Plane and syncer are stopped; every volume is filled, then all start with the flags of three.
    bed.members.kill()
    fill(bed, store)
    assert (bed.members.folder / FIRST / f"data-before-{RESTORE}").is_dir(), "what it had stays for one more restore"
    bed.alone.clear()
    bed.steps.clear()
    await bed.whole()
    assert bed.steps == [], "nothing is left of the growth"
    for pod in PODS:
        assert await bed.has("before", pod)
        assert not await bed.has("after-the-snapshot", pod)
        await bed.put(f"later-{pod}", pod)
    assert (await bed.look()).heard[FIRST] > BUMP
    # They heal like any other three.
    bed.lose(FIRST)
    await bed.whole()
    assert await bed.has("before", FIRST)
