"""Snapshots of a plane of three, of real etcds: never from a member that lacks what the plane has acknowledged."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyrage
import pytest

from bulkhead.api import planerecord
from bulkhead.api.planerecord import PlaneRecord
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.snapshots import reading
from bulkhead.snapshots.judge import RefusedError, Taker
from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import Target
from controller.pki.material import files_of
from controller.plane.membership import Promote
from controller.plane.secrets import KeyMaterial, authority_secrets
from controller.snapshots.source import NoMemberError
from controller.snapshots.spec import Order
from controller.snapshots.take import Means, take
from tests.kit.controllerhost import FixedKeys
from tests.kit.etcdmembers import ADDRESS, PODS, EtcdMembers
from tests.kit.membersbed import FIRST, SECOND, SPEC, THIRD, Bed, whole
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
KEY = pyrage.x25519.Identity.generate()
RING = FixedKeys.held
MOST = 1 << 30


@pytest.fixture
async def bed(members: EtcdMembers) -> AsyncIterator[Bed]:
    async with whole(members) as made:
        yield made


class Taking:
    """Takes snapshots of the bed's plane into a folder, and notes which members it asked, in order."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.bed = bed
        self.target = Target(Place("file", str(folder)))
        self.asked: list[str] = []

    async def take(self, name: str) -> bytes:
        """The store of a whole snapshot."""
        keys = self.bed.members.keys
        record = RING.sign(
            planerecord.PURPOSE, PlaneRecord(SPEC.identity, SPEC.tenant, SPEC.uid, "2026-06-01T12:00:00Z").text()
        )
        secrets = {str(secret["metadata"]["name"]): files_of(secret) for secret in authority_secrets(SPEC, keys)}
        tenant = {"metadata": {"name": SPEC.tenant, "uid": SPEC.uid}, "spec": {}}
        # Each member has a port of its own here, so the name of its pod stands for its address.
        addresses = {pod: pod for pod in PODS}
        order = Order({"metadata": {"name": name, "uid": name}}, tenant, SPEC, keys, record, secrets, addresses)

        async def ring() -> Any:
            return RING

        means = Means(self._opened, lambda: self.target, (str(KEY.to_public()),), ring)
        self.asked.clear()
        await take(order, means, datetime.now(UTC), lambda *_: None)
        found = await reading.inspect(self.target, RING, SPEC.identity, name, Taker(MOST, SPEC.identity))
        return b"".join([chunk async for chunk in reading.store(self.target, found, [KEY])])

    @contextlib.asynccontextmanager
    async def _opened(self, keys: KeyMaterial, pod: str) -> AsyncIterator[Client]:
        self.asked.append(pod)
        async with self.bed.access._client(keys, ADDRESS, self.bed.members.http_ports[pod], 1) as client:
            yield client


@pytest.fixture
def taking(bed: Bed, tmp_path: Path) -> Taking:
    folder = tmp_path / "backups"
    folder.mkdir()
    return Taking(bed, folder)


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
