"""Snapshots of a plane of three, of real etcds: never from a member that lacks what the plane has acknowledged."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.snapshots import reading
from bulkhead.snapshots.judge import RefusedError, Taker
from controller.plane.membership import Promote
from controller.plane.secrets import KeyMaterial
from controller.snapshots.source import NoMemberError
from tests.kit.etcdmembers import ADDRESS, PODS, EtcdMembers
from tests.kit.membersbed import FIRST, SECOND, SPEC, THIRD, Bed, whole
from tests.kit.storecopy import RING, Members, in_folder, read_back, taken_of
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
MOST = 1 << 30


@pytest.fixture
async def bed(members: EtcdMembers) -> AsyncIterator[Bed]:
    async with whole(members) as made:
        yield made


class Taking:
    """Takes snapshots of the bed's plane into a folder, and notes which members it asked, in order."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.bed = bed
        self.target = in_folder(folder)
        self.asked: list[str] = []

    async def take(self, name: str) -> bytes:
        """The store of a whole snapshot."""
        self.asked.clear()
        # Each member has a port of its own here, so the name of its pod stands for its address.
        members = Members(SPEC, self.bed.members.keys, {pod: pod for pod in PODS}, self._opened)
        return await read_back(self.target, await taken_of(members, self.target, name))

    @contextlib.asynccontextmanager
    async def _opened(self, keys: KeyMaterial, pod: str) -> AsyncIterator[Client]:
        self.asked.append(pod)
        async with self.bed.access._client(keys, ADDRESS, self.bed.members.http_ports[pod], 1) as client:
            yield client


@pytest.fixture
def taking(bed: Bed, tmp_path: Path) -> Taking:
    return Taking(bed, tmp_path / "backups")


async def test_a_member_that_lacks_what_the_others_have_acknowledged_gives_no_snapshot(bed: Bed, taking: Taking) -> None:
    bed.stop(FIRST)

    async def acknowledged() -> bool:
        # The others elect a leader first, if it was that one.
        with contextlib.suppress(KubeError):
            await bed.put("acknowledged-late", SECOND)
            return True
        return False

    await until(acknowledged, "a write to the other two")
    bed.stop(SECOND, THIRD)
    bed.stopped.remove(FIRST)
    bed.kubelet()
    with pytest.raises(NoMemberError, match=f"{FIRST}: .*; {SECOND}: "):
        await taking.take("alone")
    with pytest.raises(RefusedError, match="not finished"):
        await reading.inspect(taking.target, RING, SPEC.identity, "alone", Taker(MOST, SPEC.identity))
    # The control: with its peers it has that, and gives it.
    bed.stopped.clear()
    await bed.whole()
    store = await taking.take("together")
    assert taking.asked == [FIRST]
    assert b"acknowledged-late" in store


async def test_a_member_without_a_vote_is_passed_over(bed: Bed, taking: Taking) -> None:
    bed.lose(FIRST)
    async with asyncio.timeout(120):
        while not isinstance((await bed.turn(acts=False))[1].step, Promote):
            bed.kubelet()
            await bed.turn()
            await asyncio.sleep(0.2)
    assert b"acknowledged" in await taking.take("joining")
    assert taking.asked == [FIRST, SECOND]
    await bed.whole()
    await taking.take("joined")
    assert taking.asked == [FIRST]
