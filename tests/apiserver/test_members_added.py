"""A plane of one member gets two more while it serves, with real etcd processes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from bulkhead.kube.errors import KubeError
from controller.plane.memberrecord import Record, is_refusal
from controller.plane.membership import Add, Move, Promote, Restart
from tests.kit.etcdmembers import PODS, EtcdMembers
from tests.kit.membersbed import FIRST, SECOND, THIRD, Bed
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]


@pytest.fixture
async def bed(members: EtcdMembers) -> AsyncIterator[Bed]:
    """A plane of one, whose Tenant has just asked for three: its pod is still the old one."""
    made = Bed(members)
    made.record = Record()
    made.alone = {FIRST}
    members.start(FIRST, spec=made.one)

    async def serves() -> bool:
        with contextlib.suppress(KubeError):
            await made.put("before")
            return True
        return False

    await until(serves, "the only member serves", 60.0)
    yield made
    await made.access.close()


async def test_a_plane_of_one_has_three_members_and_was_away_once(bed: Bed) -> None:
    former = bed.uid(FIRST)
    bed.kubelet()
    for pod in (SECOND, THIRD):
        assert is_refusal(pod, bed.members.ended(pod)), "an empty member founds no second cluster"
    await bed.whole()
    kinds = [type(step) for step in bed.steps]
    assert [step for step in bed.steps if isinstance(step, Restart) and step.pod == FIRST] == [Restart(FIRST, former)]
    assert (kinds.count(Move), kinds.count(Add)) == (1, 2)
    assert kinds.index(Restart) < kinds.index(Move) < kinds.index(Add)
    for pod in PODS:
        assert await bed.has("before", pod)
        await bed.put(f"after-{pod}", pod)
    assert {member.peer_url for member in (await bed.look()).listed} == {bed.members.peer_url(pod) for pod in PODS}


async def test_without_room_for_a_new_member_the_old_one_is_left_alone_and_serves(bed: Bed) -> None:
    bed.narrow = {THIRD}
    await bed.until(lambda _, decision: "plane-2 cannot join" in decision.growing, "it says what is missing")
    assert bed.steps == []
    await bed.put("meanwhile")
    bed.narrow.clear()
    await bed.whole()
    assert await bed.has("meanwhile", THIRD)


async def test_a_controller_that_dies_after_any_step_of_the_growth_goes_on(bed: Bed) -> None:
    async def grown() -> bool:
        bed.kubelet()
        await bed.access.close()
        bed.new_controller()
        await bed.turn(acts=False)
        await bed.turn()
        return bed.record.closed and len((await bed.look()).voters) == 3

    await until(grown, "three members", 240.0)
    kinds = [type(step) for step in bed.steps]
    assert kinds.count(Move) == 1
    assert Promote in kinds
    assert await bed.has("before", THIRD)


async def test_a_client_that_writes_meanwhile_waits_for_seconds_once(bed: Bed) -> None:
    """Its writes are refused while the only member starts again, and while a member that has just joined elects."""
    missed: list[float] = []
    ends = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def writes() -> None:
        last = loop.time()
        number = 0
        while not ends.is_set():
            with contextlib.suppress(KubeError, TimeoutError):
                await bed.put(f"during-{number}")
                number += 1
                missed.append(loop.time() - last)
                last = loop.time()
            await asyncio.sleep(0.1)

    writer = asyncio.create_task(writes())
    await bed.whole()
    ends.set()
    await writer
    assert len(missed) > 20
    # Each change of its members may cost an election; a client that tries again is served within seconds.
    assert max(missed) < 30.0, sorted(missed)[-5:]
