"""The ledger as one more actor of the host, and what must hold of those who wait for it.

The actor is much simpler than the real one: it admits in the tenant's order as long as there are GPUs, gangs whole, and says of
all others why they wait. It takes back what it is told to, and may be slow.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bulkhead.api import labels as marks
from bulkhead.api import ledger
from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, key_of, uid_of
from bulkhead.kube.resources import PODS
from tests.simulation.api import Api, Refused
from tests.simulation.sides import Sides, ended, gpus, origin_of

SETTINGS: Final[Mapping[str, Any]] = {"gatedResources": ["nvidia.com/gpu"], "gatedGangs": True}
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_MERGE: Final = "application/merge-patch+json"


class Ledger:
    """Admits gated pods in the tenant's order while GPUs are left, and writes on the others why they wait."""

    def __init__(self, api: Api, work: str) -> None:
        self._api = api
        self._work = work
        self.gpus = 4
        # It judges no pods meanwhile.
        self.idle = False

    def step(self) -> None:
        """Admit what may be, and say of the rest why it waits."""
        pods = [each for each in self._api.store.all(PODS, self._work) if not ended(each)]
        waiting = [each for each in pods if gated(each)]
        if self.idle or not waiting:
            return
        room = self.gpus - sum(gpus(each) for each in pods if not gated(each))
        workloads: dict[object, list[Obj]] = {}
        for each in waiting:
            workloads.setdefault(_workload(each), []).append(each)
        for workload, members in sorted(workloads.items(), key=lambda found: min(_rank(each) for each in found[1])):
            there = [each for each in pods if _workload(each) == workload]
            asked = sum(gpus(each) for each in members)
            if len(there) < _size(members[0]):
                self._judge(members, "GangIncomplete", f"{len(there)} of {_size(members[0])} pods are there")
            elif any(map(held_back, members)):
                # It holds nothing, and no pod has to wait behind it.
                self._judge(members, "SchedulingGated", f"asks {asked}, {room} are free, and it is held back")
            elif asked > room or any(each["metadata"].get("deletionTimestamp") for each in members):
                self._judge(members, "QuotaExceeded", f"asks {asked}, and too few are free")
                room = 0
            else:
                room -= asked
                for each in members:
                    self._admit(each)

    def take_back(self, pod: Obj, cause: str = "ReclaimedBorrowed") -> None:
        """Announce it, and delete the pod."""
        note = ledger.write_reclaim(ledger.Reclaimed(self._api.now() + 60, cause, "another tenant needs it"))
        self._patch(pod, {"metadata": {"annotations": {ledger.RECLAIM: note}}}, _MERGE)
        with contextlib.suppress(Refused):
            self._api.do("DELETE", PODS, {}, namespace=self._work, name=key_of(pod).name, user="ledger")

    def _admit(self, pod: Obj) -> None:
        note = ledger.write_admitted(ledger.Admitted(self._api.now(), "node-a"))
        gates = [{"name": ledger.GATE, "$patch": "delete"}]
        self._patch(pod, {"metadata": {"annotations": {ledger.ADMITTED: note}}, "spec": {"schedulingGates": gates}}, _STRATEGIC)

    def _judge(self, pods: list[Obj], reason: str, message: str) -> None:
        note = ledger.write_verdict(reason, message)
        for each in pods:
            if each["metadata"]["annotations"].get(ledger.VERDICT) != note:
                self._patch(each, {"metadata": {"annotations": {ledger.VERDICT: note}}}, _MERGE)

    def _patch(self, pod: Obj, body: Obj, content_type: str) -> None:
        with contextlib.suppress(Refused):
            self._api.do("PATCH", PODS, body, namespace=self._work, name=key_of(pod).name, user="ledger",
                         content_type=content_type)  # fmt: skip


def gated(host: Obj) -> bool:
    """Whether a host pod has the ledger's gate."""
    return any(each["name"] == ledger.GATE for each in host["spec"].get("schedulingGates") or ())


def held_back(pod: Obj) -> bool:
    """Whether a pod has gates of others."""
    return any(each["name"] != ledger.GATE for each in pod["spec"].get("schedulingGates") or ())


def _size(host: Obj) -> int:
    return int(host["metadata"]["annotations"].get(ledger.GANG_SIZE, "1"))


def _workload(host: Obj) -> object:
    annotations = host["metadata"].get("annotations") or {}
    if marks.VIRTUAL_NAME not in annotations:
        return key_of(host)
    name = annotations.get(ledger.GANG)
    return (origin_of(host).namespace, name) if name else origin_of(host)


def _rank(pod: Obj) -> tuple[bool, int, str, str]:
    noted = (pod["metadata"].get("annotations") or {}).get(ledger.OWN_PRIORITY)
    priority = int(noted) if noted is not None else pod["spec"].get("priority", 0)
    return (held_back(pod), -priority, pod["metadata"]["creationTimestamp"], uid_of(pod))


# -- what must hold once all is quiet


def differences(sides: Sides, limit: int) -> Iterator[str]:
    """The host has the best of the waiting pods, gangs are whole, and every waiting pod has a message."""
    hosts = [each for each in sides.host.store.all(PODS, sides.work) if marks.is_mirrored(each) and not ended(each)]
    by_origin = {origin_of(each): each for each in hosts}
    used = sum(gpus(each) for each in sides.host.store.all(PODS, sides.work) if not ended(each))
    found: dict[object, list[Obj]] = {}
    # Of a gang its pods without GPUs count too: the best of all says where it stands.
    ranks: dict[object, tuple[bool, int, str, str]] = {}
    for virtual in sides.plane.store.all(PODS):
        if ended(virtual) or virtual["metadata"].get("deletionTimestamp"):
            continue
        name = _virtual_workload(virtual)
        ranks[name] = min(_rank(virtual), ranks.get(name, _rank(virtual)))
        if gpus(virtual):
            found.setdefault(name, []).append(virtual)
    waits = {name: [each for each in pods if key_of(each) not in by_origin] for name, pods in found.items()}
    worst = sorted(((ranks[name], name) for name in found if not waits[name]), key=str)
    for name, pods in found.items():
        asked = _least(pods)
        held = [by_origin[key_of(each)] for each in pods if key_of(each) in by_origin]
        # Of pods without GPUs a gang may be whole for less than what those with GPUs ask for.
        whole = sum(_workload(each) == name for each in hosts) >= _virtual_size(pods[0])
        if waits[name] and held and all(map(gated, held)) and asked > limit and not whole:
            yield f"half of {name} is on the host, and there is never room for all of it"
        rank = ranks[name]
        better = [other for other in found if waits[other] and ranks[other] < rank]
        # For a better one that waits there may be room some day.
        held_up = any(_least(found[other]) <= limit for other in better)
        if not waits[name] or asked > limit or len(pods) > _virtual_size(pods[0]) or held_up:
            continue
        free = limit - used + sum(
            sum(gpus(each) for each in found[other])
            for other_rank, other in worst
            if other_rank > rank and all(gated(by_origin[key_of(each)]) for each in found[other])
        )  # fmt: skip
        if asked - sum(map(gpus, held)) <= free:
            yield f"{name} waits in the plane, and what is worse than it has a place on the host"
    yield from _unsaid(sides, by_origin)


def _unsaid(sides: Sides, by_origin: Mapping[Key, Obj]) -> Iterator[str]:
    for key, host in by_origin.items():
        virtual = sides.plane.store.get(PODS, key)
        said = ledger.read_verdict(host["metadata"]["annotations"])
        if virtual is None or said is None or not gated(host):
            continue
        conditions = virtual["status"].get("conditions") or ()
        shown = next((each for each in conditions if each["type"] == "PodScheduled"), {})
        if (shown.get("reason"), shown.get("message")) != said:
            yield f"pod {key} says {shown.get('reason')}, and the ledger {said[0]}"


def _least(pods: list[Obj]) -> int:
    """What a workload asks for when just enough of its pods are there, those that are missing as little as any."""
    asked, size = sorted(map(gpus, pods)), _virtual_size(pods[0])
    return sum(asked[:size]) + asked[0] * max(0, size - len(asked))


def _virtual_size(virtual: Obj) -> int:
    return int((virtual["metadata"].get("annotations") or {}).get("kueue.x-k8s.io/pod-group-total-count", "1"))


def _virtual_workload(virtual: Obj) -> object:
    name = (virtual["metadata"].get("labels") or {}).get("kueue.x-k8s.io/pod-group-name")
    return (key_of(virtual).namespace, name) if name else key_of(virtual)
