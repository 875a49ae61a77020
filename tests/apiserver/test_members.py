"""A plane of three, with real etcd processes: a member that lost its volume is replaced, and what must not be done is not done.

The test is the kubelet: it starts what has ended with the record's present values, and keeps the end of each log.
"""

import asyncio
import base64
import json
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace

import pytest

from bulkhead.kube.errors import KubeError, Unavailable
from bulkhead.work.clock import SystemClock
from controller.inside.etcdaccess import EtcdAccess
from controller.inside.members import Members
from controller.plane import memberrecord, membership
from controller.plane.memberrecord import Record, is_refusal
from controller.plane.membership import Add, Decision, Pod, Promote, Remove, Restart, Standing, Step, Write
from tests.kit.etcdmembers import ADDRESS, PODS, EtcdMembers
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
SPEC = plane_spec(control_plane={"replicas": 3})
ROOM = 2 << 30
FIRST, SECOND, THIRD = PODS


class Bed:
    """Three members, a kubelet, and the steps that a controller takes."""

    def __init__(self, members: EtcdMembers) -> None:
        self.members = members
        self.access = EtcdAccess(SystemClock(), ports=members.http_ports)
        self.care = Members(self.access, lambda _, pod: members.peer_url(pod))
        self.record = Record(founding=True)
        self.stopped: set[str] = set()
        self.steps: list[Step] = []
        self.room = ROOM
        self.waits: dict[str, float] = {}

    def kubelet(self) -> None:
        """Start what should run; what has ended by itself only after a pause."""
        values = memberrecord.data(SPEC, self.record)
        for pod in PODS:
            if self.refuses(pod) and time.monotonic() < self.waits.setdefault(pod, time.monotonic() + 3.0):
                continue
            self.waits.pop(pod, None)
            if pod not in self.stopped:
                self.members.start(pod, environment={key: self.members.here(pod, text) for key, text in values.items()})

    def stop(self, *pods: str) -> None:
        """As if the nodes of these pods were gone."""
        self.stopped |= set(pods)
        self.members.kill(*pods)

    def lose(self, *pods: str) -> None:
        """The pods come back with empty volumes."""
        self.members.kill(*pods)
        for pod in pods:
            self.members.empty(pod)

    def pods(self) -> tuple[Pod, ...]:
        there = (pod for pod in PODS if pod not in self.stopped)
        return tuple(Pod(pod, f"uid-{pod}", self.refuses(pod), pod in self.waits, self.room) for pod in there)

    def refuses(self, pod: str) -> bool:
        return not self.members.runs(pod) and is_refusal(pod, self.members.log_tail(pod))

    async def look(self) -> Standing:
        addresses = {pod: ADDRESS for pod in PODS if pod not in self.stopped}
        return await self.care.look(SPEC, self.members.keys, addresses, self.record, self.pods())

    async def turn(self, *, acts: bool = True) -> tuple[Standing, Decision]:
        """One reconcile: what is found, and one step."""
        standing = await self.look()
        decision = membership.decide(standing)
        step = decision.step
        if acts and step is not None:
            if isinstance(step, Write):
                self.record = step.record
            elif isinstance(step, Restart):
                # The next pod has no log yet.
                (self.members.folder / f"{step.pod}.log").unlink()
            else:
                try:
                    await self.care.change(SPEC, self.members.keys, self.members.addresses, standing, step)
                except Unavailable:
                    # For some seconds after its members found each other, etcd does not let them change.
                    return standing, decision
            self.steps.append(step)
        return standing, decision

    async def until(self, holds: Callable[[Standing, Decision], bool], what: str) -> tuple[Standing, Decision]:
        """Turns, with a kubelet in between, until what is found holds."""

        async def check() -> tuple[Standing, Decision] | None:
            self.kubelet()
            found = await self.turn()
            return found if holds(*found) else None

        found: tuple[Standing, Decision] = await until(check, what, 120.0)
        return found

    async def whole(self) -> Standing:
        """Three voters that answer, and a record that is closed."""

        def holds(standing: Standing, decision: Decision) -> bool:
            return decision == Decision() and self.record.closed and len(standing.lists) == len(standing.voters) == 3

        return (await self.until(holds, "three voters"))[0]

    async def call(self, path: str, body: dict[str, str], pod: str = FIRST) -> dict[str, str]:
        etcd = await self.access.etcd("tenant", self.members.keys, pod, ADDRESS)
        answer = await etcd._client.transport.request("POST", path, body=json.dumps(body).encode(), timeout=10.0)
        return dict(json.loads(answer))

    async def put(self, key: str, pod: str = FIRST) -> None:
        await self.call("/v3/kv/put", {"key": _base64(key), "value": _base64("x")}, pod)

    async def has(self, key: str, pod: str) -> bool:
        return (await self.call("/v3/kv/range", {"key": _base64(key)}, pod)).get("count") == "1"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMembers]:
    processes = EtcdMembers(tmp_path_factory.mktemp("members"), SPEC)
    try:
        yield processes
    finally:
        processes.kill()


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
        bed.access = EtcdAccess(SystemClock(), ports=bed.members.http_ports)
        bed.care = Members(bed.access, lambda _, pod: bed.members.peer_url(pod))
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
