"""A plane of three whose first member never comes back: the others serve controller and syncer, and it is replaced.

Three real etcds with an API server in front of each, a real syncer, and the controller's own way to planes. Costs a minute.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.work.clock import SystemClock
from controller.inside import access
from controller.inside.access import PlaneAccess
from controller.plane.memberrecord import is_refusal
from controller.plane.membership import Add, Discard, Remove
from controller.plane.spec import API_SERVER
from tests.kit.etcdmembers import EtcdMembers
from tests.kit.membersbed import FIRST, SECOND, SPEC, THIRD, Bed
from tests.kit.planeofthree import ADDRESSES, PlaneOfThree
from tests.kit.syncerbed import SyncerBed, until

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]


@pytest.fixture
async def bed(members: EtcdMembers) -> AsyncIterator[Bed]:
    made = Bed(members)
    await made.whole()
    await made.put("acknowledged", SECOND)
    made.steps.clear()
    yield made
    await made.access.close()


async def test_the_first_member_is_replaced_like_any_other(bed: Bed) -> None:
    """Its node is gone for good with its disk: nothing happens by itself before an admin gives the volume up."""
    (former,) = [member.id for member in (await bed.look()).listed if member.name == FIRST]
    bed.stop(FIRST)

    async def quorate() -> bool:
        return (await bed.look()).quorate

    await until(quorate, "the others lead", 60.0)
    for _ in range(3):
        bed.kubelet()
        assert (await bed.turn())[1].step is None, "it might come back with its data"
    await bed.put("meanwhile", SECOND)
    # Its claim and its pod are deleted; the next pod has an empty volume on another node.
    bed.lose(FIRST)
    bed.stopped.clear()
    bed.kubelet()
    assert is_refusal(FIRST, bed.members.ended(FIRST))
    await bed.whole()
    kinds_of = [type(step) for step in bed.steps]
    assert (kinds_of.count(Remove), kinds_of.count(Add), kinds_of.count(Discard)) == (1, 1, 0), kinds_of
    assert former not in {member.id for member in (await bed.look()).listed}
    for key in ("acknowledged", "meanwhile"):
        assert await bed.has(key, FIRST)
    await bed.put("after", FIRST)


async def test_without_the_first_member_controller_and_syncer_go_on(
    host_client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = PlaneOfThree(tmp_path, SPEC)
    monkeypatch.setattr(access, "API_PORT", plane.port)
    bed = Bed(plane.members)
    planes = PlaneAccess(SystemClock(), lambda _: None)
    try:
        await bed.whole()
        plane.serve(FIRST, SECOND)
        assert (await planes.health(SPEC, plane.keys, list(ADDRESSES.values())[:2])).ready
        assert planes._connections[SPEC.tenant].address == ADDRESSES[FIRST], "the control: it was this one"
        async with plane.service() as client, SyncerBed.open(host_client, client) as tenant:
            known = str((await tenant.running("known"))["metadata"]["uid"])
            # For good: neither etcd nor API server come back.
            bed.stop(FIRST)
            plane.servers[FIRST].kill(API_SERVER)

            async def answers() -> bool:
                return (await planes.health(SPEC, plane.keys, list(ADDRESSES.values())[:2])).ready

            await until(answers, "the controller asks another member", 60.0)
            assert planes._connections[SPEC.tenant].address == ADDRESSES[SECOND]

            async def created() -> bool:
                try:
                    await tenant.create(tenant.pod("younger"))
                except KubeError:  # the earlier connection has ended, and etcd elects a leader
                    return False
                return True

            await until(created, "the tenant's client goes on", 60.0)
            await tenant.mirrored("younger")
            assert (await tenant.mirrored("known"))["metadata"]["uid"] == known, "nothing was made again"
            # A member with an empty volume takes its place, and its API server has everything.
            bed.lose(FIRST)
            bed.stopped.clear()
            await bed.whole()
            plane.serve(FIRST)
            async with Client(plane.servers[FIRST].admin, user_agent="tests", field_manager="tests") as first:
                assert await first.get(kinds.PODS, "younger", tenant.space)
            assert (await planes.health(SPEC, plane.keys, [ADDRESSES[FIRST]])).ready
    finally:
        await planes.close()
        await bed.access.close()
        plane.stop()
    assert THIRD in ADDRESSES
