"""A plane of three, with real etcd processes: a member that lost its volume is replaced, and what must not be done is not done.

The test is the kubelet: it starts what has ended with the record's present values, and keeps the end of each log.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bulkhead.kube.errors import KubeError
from controller.plane import memberrecord
from controller.plane.memberrecord import is_refusal
from controller.plane.membership import Add, Decision, Promote, Remove, Restart, Write
from tests.kit.etcdmembers import EtcdMembers
from tests.kit.membersbed import ROOM, SECOND, SPEC, THIRD, Bed
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]


@pytest.fixture
async def bed(members: EtcdMembers) -> AsyncIterator[Bed]:
    made = Bed(members)
    await made.whole()
    made.steps.clear()
    yield made
    await made.access.close()


async def test_a_member_that_lost_its_volume_is_replaced_as_a_learner_and_promoted(bed: Bed) -> None:
    before = await bed.look()
    await bed.put("acknowledged")
    bed.lose(THIRD)
    bed.kubelet()
    assert is_refusal(THIRD, bed.members.ended(THIRD)), "an empty volume must not start"
    after = await bed.whole()
    # A pod that is about to try again need not be deleted, and a learner may have to catch up.
    assert [type(step) for step in bed.steps if not isinstance(step, Promote | Restart)] == [Remove, Add, Write, Write]
    old, new = ({member.id for member in found.listed} for found in (before, after))
    assert len(old & new) == 2
    assert await bed.has("acknowledged", THIRD)
    await bed.put("after", THIRD)


async def test_a_controller_that_dies_after_any_step_goes_on_where_it_was(bed: Bed) -> None:
    """Nothing is kept between turns but what etcd and the record say."""
    bed.lose(THIRD)
    seen: list[type] = []
    for _ in range(200):
        bed.kubelet()
        # A new controller each time, with no connection and no memory.
        await bed.access.close()
        bed.new_controller()
        _, first = await bed.turn(acts=False)
        _, decision = await bed.turn()
        # The same question has the same answer, unless the members moved on meanwhile.
        seen += [type(decision.step)] if decision.step is not None and first.step == decision.step else []
        if bed.steps and decision == Decision() and bed.record.closed and len((await bed.look()).voters) == 3:
            break
        await asyncio.sleep(0.3)
    assert {Remove, Add, Write, Promote} <= {type(step) for step in bed.steps}
    assert len([step for step in bed.steps if isinstance(step, Remove)]) == 1, "one member was replaced, once"
    assert seen


async def test_two_members_that_lose_their_volumes_at_once_are_left_as_they_are(bed: Bed) -> None:
    bed.lose(SECOND, THIRD)
    bed.kubelet()
    for pod in (SECOND, THIRD):
        assert is_refusal(pod, bed.members.ended(pod))
    for _ in range(4):
        bed.kubelet()
        standing, decision = await bed.turn()
        assert not standing.quorate
        assert decision.step is None
    assert "fewer than a quorum" in decision.trouble
    assert bed.steps == []


async def test_a_lost_volume_waits_while_another_member_is_away(bed: Bed) -> None:
    bed.stop(SECOND)
    bed.lose(THIRD)
    bed.kubelet()
    bed.members.ended(THIRD)
    for _ in range(3):
        assert (await bed.turn())[1].step is None
    bed.stopped.clear()
    await bed.whole()
    assert await bed.has("anything", THIRD) is False


async def test_a_removed_member_that_returns_with_its_old_volume_stays_out(bed: Bed) -> None:
    await bed.put("acknowledged")
    bed.members.kill(THIRD)
    old = bed.members.keep(THIRD)
    bed.lose(THIRD)
    await bed.whole()
    new = bed.members.keep(THIRD)
    # As after a partition: the old process comes back in place of the new one, with what it had.
    bed.members.kill(THIRD)
    bed.members.give(THIRD, old)
    bed.kubelet()
    bed.members.ended(THIRD)
    assert "removed" in bed.members.log_tail(THIRD, 100_000)
    standing, decision = await bed.turn()
    assert standing.quorate
    assert decision.step is None
    await bed.put("goes-on")
    bed.members.give(THIRD, new)
    await bed.whole()
    assert await bed.has("goes-on", THIRD)


async def test_no_room_no_replacement(bed: Bed) -> None:
    bed.room = 100 << 20
    bed.lose(THIRD)
    bed.kubelet()
    bed.members.ended(THIRD)
    await bed.until(lambda _, decision: "too small" in decision.trouble, "the room is checked")
    assert bed.steps == []
    bed.room = ROOM
    await bed.whole()


async def test_without_the_record_an_empty_member_comes_back_under_its_old_id(bed: Bed) -> None:
    """The positive control: what the record prevents does happen without it."""
    standing = await bed.look()
    bed.lose(THIRD)
    open_to_all = memberrecord.data(SPEC, replace(bed.record, founding=True)) | {memberrecord.STATE: "existing"}
    bed.members.start(THIRD, environment={key: bed.members.here(THIRD, text) for key, text in open_to_all.items()})
    try:
        ended = bed.members.ended(THIRD, 30.0)
    except subprocess.TimeoutExpired:
        ended = ""
    # etcd lets it in under its old ID: it panics by luck, if its peers send it what it has forgotten.
    assert not is_refusal(THIRD, ended)
    listed = await bed.look()
    assert {member.id for member in listed.listed} == {member.id for member in standing.listed}


async def test_a_learner_whose_volume_is_lost_again_is_replaced_again(bed: Bed) -> None:
    bed.lose(THIRD)

    async def learns() -> bool:
        bed.kubelet()
        if isinstance((await bed.turn(acts=False))[1].step, Promote):
            return True
        await bed.turn()
        return False

    await until(learns, "the learner has started", 60.0)
    with pytest.raises(KubeError):
        # A learner answers nothing but its status.
        await bed.put("by-a-learner", THIRD)
    bed.lose(THIRD)
    await bed.whole()
