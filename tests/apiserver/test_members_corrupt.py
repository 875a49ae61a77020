"""A member of a plane of three that has other data than the others is named and replaced, with real etcd processes."""

import json
from collections.abc import AsyncIterator

import pytest

from bulkhead.kube.errors import KubeError, Unavailable
from controller.plane.membership import Add, Disarm, Discard, Remove, Restart
from tests.kit.etcdmembers import ADDRESS, EtcdMembers
from tests.kit.membersbed import FIRST, SECOND, THIRD, Bed, whole
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]


@pytest.fixture
async def bed(members: EtcdMembers) -> AsyncIterator[Bed]:
    async with whole(members) as made:
        yield made


async def alarm(bed: Bed, member: str) -> None:
    """What etcd does when it finds hashes that differ."""
    etcd = await bed.access.etcd("tenant", bed.members.keys, FIRST, ADDRESS)
    body = json.dumps({"action": "ACTIVATE", "memberID": member, "alarm": "CORRUPT"}).encode()

    async def raised() -> bool:
        try:
            await etcd._client.transport.request("POST", "/v3/maintenance/alarm", body=body, timeout=10.0)
        except Unavailable:  # the members elect a leader
            return False
        return True

    await until(raised, "the alarm")


def damage(bed: Bed, pod: str) -> None:
    """Another value in its file than the one that was acknowledged."""
    path = bed.members.folder / pod / "data" / "member" / "snap" / "db"
    data = path.read_bytes()
    assert b"the-value-before" in data
    path.write_bytes(data.replace(b"the-value-before", b"another-value!!!"))


async def test_a_member_with_an_alarm_is_removed_and_replaced_and_the_others_serve_again(bed: Bed) -> None:
    (corrupt,) = [member.id for member in (await bed.look()).listed if member.name == THIRD]
    await alarm(bed, corrupt)
    with pytest.raises(KubeError, match="corrupt"):
        await bed.put("while-it-stands")
    standing, decision = await bed.turn(acts=False)
    assert standing.corrupt == (corrupt,)
    assert "plane-2 has other data than the others" in decision.corrupt
    await bed.whole()
    kinds = [type(step) for step in bed.steps]
    assert kinds[:3] == [Discard, Remove, Disarm], kinds
    assert kinds.index(Restart) < kinds.index(Add)
    assert corrupt not in {member.id for member in (await bed.look()).listed}
    for pod in (FIRST, SECOND, THIRD):
        assert await bed.has("acknowledged", pod)
        await bed.put(f"after-{pod}", pod)


async def test_an_alarm_without_a_member_gives_up_nothing(bed: Bed) -> None:
    await alarm(bed, "0")

    async def told() -> bool:
        bed.kubelet()
        _, decision = await bed.turn()
        return "no majority agrees" in decision.corrupt

    await until(told, "it is told", 60.0)
    for _ in range(4):
        await bed.turn()
    assert bed.steps == []


async def test_an_admin_continues_from_one_member_if_no_majority_agrees(bed: Bed) -> None:
    """The alarm is in the store of that member, and would close the plane for ever."""
    await alarm(bed, "0")
    bed.lose(FIRST, SECOND)
    bed.ask(THIRD)
    await bed.whole()
    kinds = [type(step) for step in bed.steps]
    assert kinds.count(Disarm) == 1, kinds
    assert kinds.index(Disarm) < kinds.index(Add)
    for pod in (FIRST, SECOND, THIRD):
        assert await bed.has("acknowledged", pod)
        await bed.put(f"after-{pod}", pod)


async def test_a_member_whose_file_has_another_value_does_not_start_and_is_replaced(bed: Bed) -> None:
    # It answers once it has the value itself.
    await bed.put("damaged", THIRD, value="the-value-before")
    bed.members.stop(THIRD)
    damage(bed, THIRD)
    bed.kubelet()
    bed.members.ended(THIRD)
    assert bed.differs(THIRD), bed.members.log_tail(THIRD)
    await bed.whole()
    kinds = [type(step) for step in bed.steps]
    assert (kinds[0], kinds.count(Discard), kinds.count(Remove)) == (Discard, 1, 1), kinds
    await bed.put("after", THIRD)


async def test_a_member_with_other_data_waits_while_another_is_away(bed: Bed) -> None:
    (corrupt,) = [member.id for member in (await bed.look()).listed if member.name == THIRD]
    bed.stop(SECOND)
    await alarm(bed, corrupt)
    for _ in range(4):
        _, decision = await bed.turn()
        assert decision.step is None
    assert "is replaced once every other member answers" in decision.corrupt
    bed.stopped.clear()
    await bed.whole()
    assert await bed.has("acknowledged", THIRD)
