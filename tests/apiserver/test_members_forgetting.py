"""A member that was being added and whose volume is wiped in place: etcd ends at every start, and the member is added again.

Real etcd processes. Its leader expects the entries that it acknowledged before.
"""

from collections.abc import AsyncIterator

import pytest

from controller.plane import memberrecord
from controller.plane.memberrecord import is_forgetful
from controller.plane.membership import Add, Discard, Promote, Remove, Restart
from tests.kit.etcdmembers import ADDRESS, EtcdMembers
from tests.kit.membersbed import FIRST, SECOND, SPEC, THIRD, Bed, whole
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
# A member publishes its name with its first write. One without a name looks as if it had not written yet.
NAMELESS = ("sh", "-c", 'exec "$@" --name=', "sh")


@pytest.fixture
async def bed(members: EtcdMembers) -> AsyncIterator[Bed]:
    async with whole(members) as made:
        yield made


async def learns(bed: Bed, *, named: bool) -> None:
    """A volume was lost, and its member has received data as a learner; the controller has not looked since."""
    bed.lose(THIRD)
    await bed.until(lambda *_: bed.record.open_for == THIRD, "it may start")
    bed.members.kill(THIRD)
    flags = {key: bed.members.here(THIRD, text) for key, text in memberrecord.data(SPEC, bed.record).items()}
    if not named:
        flags[memberrecord.CLUSTER] = flags[memberrecord.CLUSTER].replace(f"{THIRD}=", "=")
    bed.members.start(THIRD, environment=flags, command=() if named else NAMELESS)
    for number in range(2):  # the second arrives only if the first was acknowledged
        await bed.put(f"while-it-learns-{number}")
        await until(lambda: is_even(bed), "the learner has everything", 120.0)
    assert [bool(member.name) for member in (await bed.look()).listed if member.learner] == [named]


async def is_even(bed: Bed) -> bool:
    """Whether the learner has the revision of the others."""
    etcds = [await bed.access.etcd("tenant", bed.members.keys, pod, ADDRESS) for pod in (FIRST, THIRD)]
    if THIRD not in (await bed.look()).learning:
        return False
    first, third = [await etcd.status("") for etcd in etcds]
    return first.revision == third.revision


@pytest.mark.parametrize("named", [False, True])
async def test_a_learner_whose_volume_is_wiped_while_its_record_is_open_is_added_again(bed: Bed, *, named: bool) -> None:
    await learns(bed, named=named)
    (learner,) = [member.id for member in (await bed.look()).listed if member.learner]
    bed.lose(THIRD)
    bed.steps.clear()
    bed.kubelet()
    assert is_forgetful(bed.members.ended(THIRD, 120.0)), bed.members.log_tail(THIRD)
    after = await bed.whole()
    kinds = [type(step) for step in bed.steps]
    assert kinds[:2] == [Discard, Remove], kinds
    assert kinds.index(Remove) < kinds.index(Restart) < kinds.index(Add) < kinds.index(Promote)
    assert learner not in {member.id for member in after.listed}
    for pod in (FIRST, SECOND, THIRD):
        assert await bed.has("acknowledged", pod)
        await bed.put(f"after-{pod}", pod)


async def test_a_learner_that_does_not_answer_gets_no_vote(bed: Bed) -> None:
    """Its leader believes that it has everything, so etcd would allow it."""
    await learns(bed, named=True)
    bed.stop(THIRD)
    for _ in range(4):
        await bed.turn()
    assert bed.record.closed
    assert [member.learner for member in (await bed.look()).listed if member.name == THIRD] == [True]
    bed.stopped.clear()
    await bed.whole()
