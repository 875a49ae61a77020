"""Three real etcd members, a kubelet that starts what has ended, and the steps that a controller takes, for tests.

The kubelet starts members with the record's present values, and keeps the end of each log. A pod is started again under another
UID, and a claim that is deleted goes as soon as its pod has ended; then the pod has an empty volume.
"""

import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

from bulkhead.kube.errors import Unavailable
from bulkhead.work.clock import SystemClock
from controller.inside.etcdaccess import EtcdAccess
from controller.inside.members import Members
from controller.plane import corruption, memberrecord
from controller.plane.memberrecord import Record, Recovery, is_forgetful, is_refusal
from controller.plane.membership import Claim, Decision, Discard, Pod, Quarantine, Restart, Standing, Step, Write
from tests.kit.etcdmembers import ADDRESS, PODS, EtcdMembers
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

SPEC = plane_spec(control_plane={"replicas": 3})
ONE = plane_spec()
ROOM = 2 << 30
FIRST, SECOND, THIRD = PODS


@dataclass(slots=True)
class Volume:
    """The claim of a pod."""

    uid: str
    ends: bool = False


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
        self.generation = dict.fromkeys(PODS, 0)  # of each pod: a new one has another UID
        self.volumes = {pod: Volume(f"claim-0-{pod}") for pod in PODS}
        self.quarantined = ""
        self.one = ONE
        self.alone: set[str] = set()  # pods with the template of a plane of one member
        self.narrow: set[str] = set()  # pods whose volumes have no room

    def kubelet(self) -> None:
        """Start what should run; what has ended by itself only after a pause."""
        values = memberrecord.data(SPEC, self.record)
        for pod in PODS:
            ended = self.refuses(pod) or self.differs(pod) or self.forgot(pod)
            if ended and time.monotonic() < self.waits.setdefault(pod, time.monotonic() + 3.0):
                continue
            self.waits.pop(pod, None)
            if pod not in self.stopped and pod in self.alone:
                self.members.start(pod, spec=ONE)
            elif pod not in self.stopped:
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
        return tuple(self.pod(pod) for pod in there)

    def pod(self, pod: str) -> Pod:
        room = 1 if pod in self.narrow else self.room
        is_alone, differs = pod in self.alone, self.differs(pod)
        forgot = self.forgot(pod)
        tries = pod in self.waits and not differs and not forgot
        return Pod(pod, self.uid(pod), self.refuses(pod), tries, room, alone=is_alone, corrupt=differs, forgot=forgot)

    def differs(self, pod: str) -> bool:
        """Whether its etcd ended because it has other data than its peers."""
        return not self.members.runs(pod) and "found data inconsistency with peers" in self.members.log_tail(pod)

    def forgot(self, pod: str) -> bool:
        """Whether its etcd ended because it lacks what it has acknowledged."""
        return not self.members.runs(pod) and is_forgetful(self.members.log_tail(pod))

    def uid(self, pod: str) -> str:
        return f"uid-{self.generation[pod]}-{pod}"

    def replace(self, pod: str) -> None:
        """The pod has ended, and another one has its name; a claim that is being deleted goes now."""
        self.members.kill(pod)
        (self.members.folder / f"{pod}.log").unlink(missing_ok=True)
        self.generation[pod] += 1
        self.alone.discard(pod)
        if self.volumes[pod].ends:
            self.members.empty(pod)
            self.volumes[pod] = Volume(f"claim-{self.generation[pod]}-{pod}")

    def ask(self, pod: str) -> None:
        """An admin asks for the recovery from this member."""
        self.record = replace(self.record, recovery=Recovery(pod))

    def refuses(self, pod: str) -> bool:
        return not self.members.runs(pod) and is_refusal(pod, self.members.log_tail(pod))

    async def look(self) -> Standing:
        addresses = {pod: ADDRESS for pod in PODS if pod not in self.stopped}
        standing = await self.care.look(SPEC, self.members.keys, addresses, self.record, self.pods())
        claims = tuple(Claim(pod, volume.uid, volume.ends) for pod, volume in self.volumes.items())
        return replace(standing, claims=claims, quarantined=bool(self.quarantined))

    async def turn(self, *, acts: bool = True) -> tuple[Standing, Decision]:
        """One reconcile: what is found, and one step."""
        standing = await self.look()
        decision = corruption.decide(standing)
        if acts and decision.step is not None:
            try:
                await self._do(standing, decision.step)
            except Unavailable:
                # For some seconds after its members found each other, etcd does not let them change.
                return standing, decision
            self.steps.append(decision.step)
        return standing, decision

    async def _do(self, standing: Standing, step: Step) -> None:
        match step:
            case Write(record):
                self.record = record
            case Restart(pod, uid):
                if uid == self.uid(pod):
                    self.replace(pod)
            case Quarantine(words):
                self.quarantined = words
            case Discard(claim):
                volume = self.volumes[claim.pod]
                volume.ends = volume.ends or volume.uid == claim.uid
            case _:
                await self.care.change(SPEC, self.members.keys, self.members.addresses, standing, step)

    def new_controller(self) -> None:
        """Another process, with no connection and no memory."""
        self.access = EtcdAccess(SystemClock(), ports=self.members.http_ports)
        self.care = Members(self.access, lambda _, pod: self.members.peer_url(pod))

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

    async def put(self, key: str, pod: str = FIRST, *, value: str = "x") -> None:
        await self.call("/v3/kv/put", {"key": _base64(key), "value": _base64(value)}, pod)

    async def has(self, key: str, pod: str) -> bool:
        return (await self.call("/v3/kv/range", {"key": _base64(key)}, pod)).get("count") == "1"


@contextlib.asynccontextmanager
async def whole(members: EtcdMembers) -> AsyncIterator[Bed]:
    """Three voters with a key that was acknowledged, before anything goes wrong."""
    bed = Bed(members)
    await bed.whole()
    await bed.put("acknowledged")
    bed.steps.clear()
    yield bed
    await bed.access.close()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
