"""A plane of three that lost its quorum comes back from one member, with real etcd processes.

An etcd that starts alone by a flag is dangerous where others still have the old cluster's data: two of those are a quorum
beside it. So the tests also show what must not happen, and what happens without the rules.
"""

from collections.abc import AsyncIterator

import pytest

from bulkhead.kube.errors import KubeError
from controller.plane import memberrecord
from controller.plane.memberrecord import Record, Recovery
from controller.plane.membership import Add, Discard, Quarantine, Restart, Write
from tests.kit.etcdmembers import EtcdMembers
from tests.kit.membersbed import FIRST, SECOND, SPEC, THIRD, Bed, whole
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]


@pytest.fixture
async def bed(members: EtcdMembers) -> AsyncIterator[Bed]:
    async with whole(members) as made:
        yield made


async def lost(bed: Bed, *pods: str) -> None:
    """These lost their volumes, and the others have noticed that no quorum is left."""
    bed.lose(*pods)
    bed.kubelet()
    for pod in pods:
        bed.members.ended(pod)

    async def noticed() -> bool:
        bed.kubelet()
        standing = await bed.look()
        return not standing.quorate and THIRD in standing.heard

    await until(noticed, "no member leads", 60.0)


async def test_a_plane_comes_back_from_one_member_and_has_three_again(bed: Bed) -> None:
    await lost(bed, FIRST, SECOND)
    standing, decision = await bed.turn()
    assert decision.step is None, "nothing is recovered unasked"
    assert standing.heard[THIRD] > 1, "its data is told without a leader"
    former = bed.uid(THIRD)
    bed.ask(THIRD)
    await bed.whole()
    assert bed.record == Record()
    # The syncer is stopped before anything else changes.
    assert isinstance(bed.steps[0], Quarantine)
    kinds = [type(step) for step in bed.steps]
    assert kinds.count(Discard) == kinds.count(Add) == 2, kinds
    forced = next(at for at, step in enumerate(bed.steps) if isinstance(step, Write) and _forces(step.record))
    assert all(at < forced for at, step in enumerate(bed.steps) if isinstance(step, Discard))
    assert Restart(THIRD, former) in bed.steps[forced:]
    for pod in (FIRST, SECOND, THIRD):
        assert await bed.has("acknowledged", pod)
        await bed.put(f"after-{pod}", pod)


async def test_a_controller_that_dies_after_any_step_of_a_recovery_goes_on(bed: Bed) -> None:
    await lost(bed, FIRST, SECOND)
    bed.ask(THIRD)

    async def recovered() -> bool:
        bed.kubelet()
        await bed.access.close()
        bed.new_controller()
        await bed.turn(acts=False)
        await bed.turn()
        return bed.record.closed and bed.record.recovery is None and len((await bed.look()).voters) == 3

    await until(recovered, "three members again", 240.0)
    kinds = [type(step) for step in bed.steps]
    assert (kinds.count(Quarantine), kinds.count(Discard)) == (1, 2), kinds
    assert await bed.has("acknowledged", FIRST)


async def test_a_quorum_that_is_back_ends_the_recovery_before_anything_is_given_up(bed: Bed) -> None:
    bed.stop(FIRST, SECOND)

    async def noticed() -> bool:
        return not (await bed.look()).quorate

    await until(noticed, "no member leads", 60.0)
    bed.record = Record(recovery=Recovery(FIRST))
    for _ in range(3):
        _, decision = await bed.turn()
        assert decision.step is None, "a member that does not answer has nothing to show"
    assert "waits until plane-0 answers" in decision.recovering
    bed.stopped.clear()

    async def back() -> bool:
        # A member that answers before another one is quarantined, which gives nothing up.
        bed.kubelet()
        return (await bed.look()).quorate

    await until(back, "a quorum answers", 60.0)
    await bed.whole()
    assert [type(step) for step in bed.steps] == [Write]
    assert bed.record == Record()
    assert not bed.quarantined


async def test_no_member_starts_alone_while_a_pod_may_still_run_with_the_data_of_before(bed: Bed) -> None:
    """The node of a pod does not confirm that it has ended; it comes back with its volume."""
    bed.stop(FIRST, SECOND)

    async def noticed() -> bool:
        standing = await bed.look()
        return not standing.quorate and THIRD in standing.heard

    await until(noticed, "no member leads", 60.0)
    bed.ask(THIRD)
    for _ in range(8):
        bed.kubelet()
        _, decision = await bed.turn()
    assert not _forces(bed.record)
    assert "waits until the pod of plane-0 and plane-1 has ended" in decision.recovering
    assert not (await bed.look()).quorate
    # Their nodes are off for good: their pods are deleted by force, and new ones come up elsewhere.
    bed.stopped.clear()
    for pod in (FIRST, SECOND):
        bed.replace(pod)
    await bed.whole()
    for pod in (FIRST, SECOND, THIRD):
        assert await bed.has("acknowledged", pod)


async def test_a_member_of_before_that_returns_in_spite_of_it_stays_out(bed: Bed) -> None:
    """A process on a node that was cut off knows nothing of the recovery."""
    await bed.put("before")
    bed.members.kill(FIRST)
    old = bed.members.keep(FIRST)
    await lost(bed, FIRST, SECOND)
    bed.ask(THIRD)
    await bed.whole()
    new = bed.members.keep(FIRST)
    bed.members.kill(FIRST)
    bed.members.give(FIRST, old)
    bed.kubelet()
    bed.members.ended(FIRST)
    assert "removed" in bed.members.log_tail(FIRST, 100_000)
    await bed.put("goes-on", SECOND)
    bed.members.give(FIRST, new)
    await bed.whole()
    assert await bed.has("goes-on", FIRST)


async def test_without_the_rule_two_members_of_before_serve_beside_the_recovered_one(bed: Bed) -> None:
    """The positive control: what giving up their volumes first prevents."""
    bed.members.kill(FIRST, SECOND, THIRD)
    forced = memberrecord.data(SPEC, Record(recovery=Recovery(THIRD, "uid", forced=True)))
    bed.members.start(THIRD, environment={key: bed.members.here(THIRD, text) for key, text in forced.items()})

    async def alone() -> bool:
        found = (await bed.look()).lists.get(THIRD, ())
        return len(found) == 1

    await until(alone, "it serves alone", 60.0)
    await bed.put("in-the-new-one", THIRD)
    # Cut off from it, the two others still are a quorum of three.
    bed.members.kill(THIRD)
    bed.members.start(FIRST, SECOND)

    async def serve() -> bool:
        try:
            await bed.put("in-the-old-one", FIRST)
        except KubeError:
            return False
        return True

    await until(serve, "the old cluster serves", 60.0)
    assert not await bed.has("in-the-new-one", FIRST)


async def test_an_empty_member_never_starts_alone(bed: Bed) -> None:
    """While one may start alone, the record is the same for all pods."""
    bed.members.kill(FIRST, SECOND, THIRD)
    bed.members.empty(FIRST)
    forced = memberrecord.data(SPEC, Record(recovery=Recovery(THIRD, "uid", forced=True)))
    bed.members.start(FIRST, environment={key: bed.members.here(FIRST, text) for key, text in forced.items()})
    assert memberrecord.is_refusal(FIRST, bed.members.ended(FIRST))


def _forces(record: Record) -> bool:
    return record.recovery is not None and record.recovery.forced
