"""What must hold once all is quiet: host and plane say the same of everything that is on both, and neither has an orphan."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, key_of, uid_of
from bulkhead.kube.resources import NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, SECRETS, SERVICES
from syncer.translate.metadata import host_label_key, host_namespace_key
from syncer.translate.podspec import placement
from tests.simulation import ledgeractor, policies
from tests.simulation.claims import ClaimWatch
from tests.simulation.kinds import GPU
from tests.simulation.sides import KINDS, Sides, changes, ended, gpus, needs, origin_of, virtual_uid


@dataclass(slots=True)
class NodeMarks:
    """What the tenant itself did to nodes, by their names."""

    cordoned: dict[str, bool] = field(default_factory=dict)
    tainted: dict[str, bool] = field(default_factory=dict)


class Agreement:
    """Compares host and plane, and lists each difference in words."""

    def __init__(self, sides: Sides, nodes_marked: NodeMarks, claims: ClaimWatch) -> None:
        self._sides = sides
        self._host, self._plane, self._work = sides.host, sides.plane, sides.work
        self._nodes_marked = nodes_marked
        self._claims = claims

    def differences(self) -> list[str]:
        """Everything in which the two sides are not what they should be to each other."""
        found = [*self._pods(), *self._orphans(), *self._services(), *self._needed(), *self._tokens(), *self._nodes()]
        found += ledgeractor.differences(self._sides, self._limit()) if self._sides.waits_for_ledger else []
        return [*found, *policies.differences(self._sides), *self._claims.differences(self._sides.host_key)]

    def _pods(self) -> Iterator[str]:
        for virtual in self._plane.store.all(PODS):
            key, host = key_of(virtual), self._sides.mirror(uid_of(virtual))
            if host is None:
                if ended(virtual) or self._refused(virtual):
                    continue
                yield f"pod {key} has no host pod"
                continue
            waits = not host["spec"].get("nodeName")
            bound = virtual["spec"].get("nodeName") or ""
            if waits and bound and not placement.is_pinned(host, bound):
                yield f"pod {key} was bound to {bound} by the tenant, and its host pod may go elsewhere"
            if waits and not bound and placement.digest_of(host) != placement.digest([",".join(self._avoided())]):
                yield f"pod {key} was made for other cordons than there are"
            for what, one, other in _compared(virtual, host):
                if one != other and not (what == "node" and waits):
                    yield f"pod {key}: {what} is {one!r} in the plane and {other!r} on the host"
            space = self._plane.store.get(NAMESPACES, Key("", key.namespace)) or {"metadata": {}}
            wanted = {host_namespace_key(name): value for name, value in (space["metadata"].get("labels") or {}).items()}
            there = {name: (host["metadata"].get("labels") or {}).get(name) for name in wanted}
            if wanted != there and not ended(virtual):
                yield f"pod {key}: the labels of its namespace are {there!r} on the host, and should be {wanted!r}"

    def _avoided(self) -> tuple[str, ...]:
        there = {key_of(each).name for each in self._host.store.all(NODES)}
        marked = (self._nodes_marked.cordoned, self._nodes_marked.tainted)
        return tuple(sorted(name for name in there if any(each.get(name) for each in marked)))

    def _refused(self, virtual: Obj) -> bool:
        """Whether the pod says why it does not run, and is right."""
        name = self._sides.host_key("Pod", key_of(virtual))
        taken = self._host.store.get(PODS, name)
        conditions = virtual["status"].get("conditions") or ()
        says = any(each["type"] == "PodScheduled" and each["status"] == "False" and each.get("reason") for each in conditions)
        if taken is not None and not marks.is_mirrored(taken):
            return says
        bound = virtual["spec"].get("nodeName")
        if bound and self._host.store.get(NODES, Key("", bound)) is None:
            return says
        used = sum(gpus(each) for each in self._host.store.all(PODS, self._work) if not ended(each))
        if self._sides.waits_for_ledger:
            # Whether it is right: `ledgeractor.differences`.
            return says and gpus(virtual) > 0
        return says and gpus(virtual) > 0 and used + gpus(virtual) > self._limit()

    def _limit(self) -> int:
        hard = [(each.get("spec") or {}).get("hard") or {} for each in self._host.store.all(RESOURCE_QUOTAS, self._work)]
        return min((int(each[f"requests.{GPU}"]) for each in hard if f"requests.{GPU}" in each), default=1 << 30)

    def _orphans(self) -> Iterator[str]:
        for kind, r in KINDS.items():
            for host in self._host.store.all(r, self._work):
                if not marks.is_mirrored(host):
                    continue
                annotations = host["metadata"]["annotations"]
                if annotations.get(marks.VIRTUAL_KIND) != kind:
                    continue
                virtual = self._plane.store.get(r, origin_of(host))
                if virtual is None or (kind in {"Pod", "Service"} and uid_of(virtual) != virtual_uid(host)):
                    yield f"host {kind} of {origin_of(host)} has no virtual one"

    def _services(self) -> Iterator[str]:
        for virtual in self._plane.store.all(SERVICES):
            host = self._host.store.get(SERVICES, self._sides.host_key("Service", key_of(virtual)))
            if host is None:
                yield f"service {key_of(virtual)} has no host service"
                continue
            for part in ("clusterIP", "ports"):
                if virtual["spec"].get(part) != host["spec"].get(part):
                    yield f"service {key_of(virtual)}: {part} differs"

    def _needed(self) -> Iterator[str]:
        wanted: set[tuple[str, Key]] = set()
        for virtual in self._plane.store.all(PODS):
            if self._sides.mirror(uid_of(virtual)) is not None or not ended(virtual):
                wanted |= needs(virtual)
        running = {need for pod in self._plane.store.all(PODS) if self._sides.mirror(uid_of(pod)) for need in needs(pod)
                   if not ended(pod)}  # fmt: skip
        for kind in ("ConfigMap", "Secret"):
            r = KINDS[kind]
            for host in self._host.store.all(r, self._work):
                who = host["metadata"].get("annotations", {}).get(marks.VIRTUAL_KIND)
                if marks.is_mirrored(host) and who == kind and (kind, origin_of(host)) not in wanted:
                    yield f"host {kind} of {origin_of(host)} is an orphan: no pod refers to it"
        for kind, key in sorted(running):
            virtual_one = self._plane.store.get(KINDS[kind], key)
            host_one = self._host.store.get(KINDS[kind], self._sides.host_key(kind, key))
            if virtual_one is None:
                continue
            if host_one is None or host_one.get("data") != virtual_one.get("data"):
                yield f"{kind} {key} is not on the host as it is in the plane"

    def _tokens(self) -> Iterator[str]:
        secrets = [each for each in self._host.store.all(SECRETS, self._work) if _kind(each) == "PodToken"]
        for each in secrets:
            mirror = self._sides.mirror(virtual_uid(each))
            if mirror is None:
                yield f"token of a pod that is gone: {origin_of(each)}"
            elif ended(mirror):
                yield f"token of a pod that has ended: {origin_of(each)}"
            elif [owner["uid"] for owner in each["metadata"].get("ownerReferences") or ()] != [uid_of(mirror)]:
                yield f"token {origin_of(each)} is not owned by its host pod"
            for text in (each.get("data") or {}).values():
                if float(base64.b64decode(text).decode().rpartition(" ")[2]) < self._host.now():
                    yield f"token {origin_of(each)} has expired"
        have = {virtual_uid(each) for each in secrets}
        for virtual in self._plane.store.all(PODS):
            tokens = any("projected" in each for each in virtual["spec"].get("volumes") or ())
            mirror = self._sides.mirror(uid_of(virtual))
            runs = mirror is not None and mirror["spec"].get("nodeName") and not ended(mirror)
            if tokens and runs and uid_of(virtual) not in have:
                yield f"pod {key_of(virtual)} has no token"

    def _nodes(self) -> Iterator[str]:
        host = {key_of(each).name: each for each in self._host.store.all(NODES)}
        virtual = {key_of(each).name: each for each in self._plane.store.all(NODES)}
        for name in sorted(set(host) ^ set(virtual)):
            yield f"node {name} is on one side only"
        for name in sorted(set(host) & set(virtual)):
            here, there = ((each[name].get("spec") or {}).get("unschedulable") is True for each in (virtual, host))
            if here is not (there or self._nodes_marked.cordoned.get(name, False)):
                yield f"node {name}: cordoned is {here} in the plane, and {there} on the host"
            if bool((virtual[name].get("spec") or {}).get("taints")) is not self._nodes_marked.tainted.get(name, False):
                yield f"virtual node {name}: its taints are {(virtual[name].get('spec') or {}).get('taints')}"
            if not (virtual[name].get("status") or {}).get("allocatable"):
                yield f"virtual node {name} has nothing to offer"


def _kind(host: Obj) -> str:
    return str((host["metadata"].get("annotations") or {}).get(marks.VIRTUAL_KIND, ""))


def _compared(virtual: Obj, host: Obj) -> Iterator[tuple[str, object, object]]:
    for what, path in (("node", ("spec", "nodeName")), ("phase", ("status", "phase")), ("address", ("status", "podIP"))):
        yield what, virtual[path[0]].get(path[1]), host[path[0]].get(path[1])
    for what in ("deletionTimestamp",):
        yield what, bool(virtual["metadata"].get(what)), bool(host["metadata"].get(what))
    labels = virtual["metadata"].get("labels") or {}
    there = host["metadata"].get("labels") or {}
    yield "labels", labels, {key: there.get(host_label_key(key, "")) for key in labels}
    if not ended(virtual) and not virtual["metadata"].get("deletionTimestamp"):
        yield "what changes in place", changes(virtual), changes(host)
