"""The invariants of the design, watched from outside: it sees both stores whole and knows nothing of the syncer's mind.

At every commit of the syncer:  I1 one host pod per virtual UID, made for a pod that exists, never run twice, needs first
                                I8 deleted only for a deletion that really happened; never by force; nothing that is not ours
                                I10 no secret outside of Secrets
                                a claim's data is not lost (`claims`)
                                no change told as seen by the node that the host pod does not have
Once all is quiet:              `differences`: what of one side is missing, left over or different on the other
"""

import base64
from collections.abc import Iterator
from typing import Final

import msgspec

from bulkhead.api import labels as marks
from bulkhead.api import names
from bulkhead.kube.objects import Key, Obj, key_of, uid_of
from bulkhead.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, SECRETS, SERVICES
from syncer.settings import Settings
from syncer.translate.metadata import host_namespace_key
from syncer.translate.podspec import placement
from syncer.translate.references import of_pod
from tests.simulation import policies
from tests.simulation.api import Api
from tests.simulation.claims import ClaimWatch
from tests.simulation.kinds import GPU
from tests.simulation.origin import origin_of, virtual_uid
from tests.simulation.store import Commit, Kind, kind_of

HOST_USER: Final = "syncer-host"
PLANE_USER: Final = "syncer-plane"
TAINT: Final = "example.com/mine"
_MARK: Final = "SECRET-TEXT-"
_SIGNS: Final = (b"SECRET-TEXT-", b"U0VDUkVULVRFWFQt", b"token of ", b"dG9rZW4gb2Yg")
_FINAL: Final = ("Succeeded", "Failed")
_KINDS: Final = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS, "Service": SERVICES, "Pod": PODS}


def secret_text(value: str) -> str:
    """Data of a Secret that the oracle knows again wherever it turns up."""
    return base64.b64encode(f"{_MARK}{value}".encode()).decode()


class Oracle:
    """See the module."""

    def __init__(self, host: Api, plane: Api, settings: Settings) -> None:
        self._host = host
        self._plane = plane
        self._settings = settings
        self._work = settings.work_namespace
        self.violations: list[str] = []
        # Since the tenant's first cordon or taint, host pods that have no node yet may be made anew.
        self._avoiding = False
        # A replica that is behind, or a watch that tells the past again, shows pods that are long gone. No API server does so.
        self.stale = False
        self.dead: set[str] = set()  # virtual UIDs whose deletion was asked for, or done
        self._born: dict[str, int] = {}  # virtual UID -> version at which it was created
        self._placed: set[str] = set()  # virtual pods that were bound to a node
        self._mirrors: dict[str, list[str]] = {}  # virtual pod UID -> UIDs of its host pods, ever
        self._cordoned: dict[str, bool] = {}  # nodes that the tenant cordoned or uncordoned itself
        self._tainted: dict[str, bool] = {}  # the same for its taint
        self._claims = ClaimWatch(host, plane, self._work, self.violate)
        self._taken: set[tuple[Kind, Key]] = set()  # host objects that somebody else took away
        for each in (host, plane):
            for held in each.store.objects.values():
                for obj in held.values():
                    self._born.setdefault(uid_of(obj), 0)
        host.store.listeners.append(self._on_host)
        plane.store.listeners.append(self._in_plane)

    def violate(self, text: str) -> None:
        """Note that something happened that must not."""
        self.violations.append(text)

    def raise_violations(self) -> None:
        assert not self.violations, "; ".join(self.violations[:5])

    def host_key(self, kind: str, key: Key) -> Key:
        return Key(self._work, names.host_name(self._settings.tenant_uid, kind, key.namespace, key.name))

    # -- at every commit

    def _in_plane(self, commit: Commit) -> None:
        obj = commit.after or commit.before or {}
        uid = uid_of(obj)
        if commit.before is None:
            self._born[uid] = commit.version
        if commit.after is None or commit.after["metadata"].get("deletionTimestamp"):
            self.dead.add(uid)
        if commit.kind == kind_of(NODES):
            if commit.after is None:
                self._cordoned.pop(commit.key.name, None)
                self._tainted.pop(commit.key.name, None)
            elif commit.user == "tenant":
                was, spec = ((each or {}).get("spec") or {} for each in (commit.before, commit.after))
                if was.get("unschedulable") != spec.get("unschedulable"):
                    self._cordoned[commit.key.name] = spec.get("unschedulable") is True
                self._tainted[commit.key.name] = any(each["key"] == TAINT for each in spec.get("taints") or ())
                self._avoiding = True
        if commit.user == PLANE_USER:
            self._leaks(commit)
            self._virtual_end(commit)
            self._seen(commit)
        if commit.kind == kind_of(PODS) and commit.after and commit.after["spec"].get("nodeName"):
            self._placed.add(uid)

    def _virtual_end(self, commit: Commit) -> None:
        before, after = commit.before, commit.after
        if commit.kind != kind_of(PODS) or before is None:
            return
        ends = after is None or (after["metadata"].get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp"))
        uid = uid_of(before)
        if not ends:
            return
        mirror = self.mirror(uid)
        node = before["spec"].get("nodeName")
        if mirror and not mirror["metadata"].get("deletionTimestamp") and mirror["spec"].get("nodeName") == node:
            self.violate(f"I1: virtual pod {commit.key} ended although its host pod lives")
        if mirror and after is None and node and mirror["spec"].get("nodeName") == node:
            running = before["status"].get("phase") not in _FINAL and mirror["status"].get("phase") not in _FINAL
            if running and mirror["metadata"].get("deletionGracePeriodSeconds") != 0:
                self.violate(f"I1: virtual pod {commit.key} is gone while its host pod still ends")
        if not self._mirrors.get(uid) and not before["metadata"].get("deletionTimestamp"):
            self.violate(f"I8: virtual pod {commit.key} was deleted by the syncer although no host pod was ever there")

    def _seen(self, commit: Commit) -> None:
        """Whoever waits for a change takes a generation that is told as observed for one that the node has."""
        virtual = commit.after
        if commit.kind != kind_of(PODS) or virtual is None:
            return
        mirror = self.mirror(uid_of(virtual))
        current = virtual["metadata"]["generation"] == virtual["status"].get("observedGeneration")
        if mirror and current and _changes(mirror) != _changes(virtual):
            self.violate(f"a change of {commit.key} is told as seen, and its host pod does not have it")

    def _on_host(self, commit: Commit) -> None:
        if commit.kind == kind_of(PODS) and commit.before is None and commit.after is not None:
            self._new_pod(commit.after)
        if commit.after is not None:
            self._taken.discard((commit.kind, commit.key))
        if commit.user != HOST_USER or commit.key.namespace != self._work:
            if commit.after is None:
                self._taken.add((commit.kind, commit.key))
            return
        self._leaks(commit)
        self._claims.on_host(commit)
        before, after = commit.before, commit.after
        if before is not None and not marks.is_mirrored(before):
            self.violate(f"adopted or changed what is not ours: {commit.kind[1]} {commit.key}")
        if after is not None and not marks.is_mirrored(after):
            self.violate(f"unmarked object written: {commit.kind[1]} {commit.key}")
        if before is None:
            return
        ends = after is None or (after["metadata"].get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp"))
        if ends and marks.is_mirrored(before):
            self._host_end(commit, before, after)

    def _new_pod(self, host: Obj) -> None:
        if not marks.is_mirrored(host):
            return
        uid = virtual_uid(host)
        if uid not in self._born:
            self.violate(f"I1: host pod for a virtual pod that never was: {uid}")
        live = [each for each in self._host.store.all(PODS, self._work) if marks.is_mirrored(each) and virtual_uid(each) == uid]
        if len(live) > 1:
            self.violate(f"I1: {len(live)} host pods for virtual pod {uid}")
        if uid in self._placed and self._mirrors.get(uid) and not self.stale:
            self.violate(f"I1: virtual pod {uid} was placed before, and runs a second time")
        self._mirrors.setdefault(uid, []).append(uid_of(host))
        virtual = next((each for each in self._plane.store.all(PODS) if uid_of(each) == uid), None)
        for kind, key in _needs(virtual or {}):
            held = self._plane.store.get(_KINDS[kind], key)
            known = held is not None and self._born.get(uid_of(held), 0) < self._born[uid]
            place = self.host_key(kind, key)
            # What somebody else took away, the syncer may believe to be there until its cache is told.
            taken = (kind_of(_KINDS[kind]), place) in self._taken
            if known and not taken and self._host.store.get(_KINDS[kind], place) is None:
                self.violate(f"host pod of {key_of(virtual or {})} made before its {kind} {key}")

    def _host_end(self, commit: Commit, before: Obj, after: Obj | None) -> None:
        uid = virtual_uid(before)
        kind = str(before["metadata"]["annotations"].get(marks.VIRTUAL_KIND))
        if kind == "Pod":
            if uid not in self.dead and not (self._avoiding and not before["spec"].get("nodeName")):
                self.violate(f"I8: host pod of {origin_of(before)} deleted although nobody deleted the virtual pod")
            if after is None and before["spec"].get("nodeName") and before["status"].get("phase") not in _FINAL:
                self.violate(f"I8: host pod of {origin_of(before)} forced away while its containers may run")
            return
        virtual = self._plane.store.get(_KINDS[kind], origin_of(before)) if kind in _KINDS else None
        if virtual is None or uid_of(virtual) != uid or virtual["metadata"].get("deletionTimestamp"):
            if kind in _KINDS and uid not in self.dead:
                self.violate(f"I8: host {kind} of {origin_of(before)} deleted although nobody deleted the virtual one")
            return
        name = key_of(before).name
        if kind in {"ConfigMap", "Secret"} and any((kind, name) in _mounts(each) for each in self._running()):
            self.violate(f"I8: host {kind} of {origin_of(before)} deleted under a host pod that runs with it")
        if kind == "Service" and virtual["spec"].get("clusterIP") == before["spec"].get("clusterIP"):
            self.violate(f"I8: host Service of {origin_of(before)} deleted although its virtual one lives")
        if (
            kind in {"ConfigMap", "Secret"}
            and virtual.get("type") == before.get("type")
            and self._in_use(kind, origin_of(before))
        ):
            self.violate(f"I8: host {kind} of {origin_of(before)} deleted although a pod needs it")

    def _running(self) -> Iterator[Obj]:
        for each in self._host.store.all(PODS, self._work):
            ends = each["metadata"].get("deletionTimestamp") or each["status"].get("phase") in _FINAL
            if marks.is_mirrored(each) and not ends:
                yield each

    def _in_use(self, kind: str, key: Key) -> bool:
        live = (each for each in self._plane.store.all(PODS) if each["status"].get("phase") not in _FINAL)
        return any((kind, key) in _needs(pod) and self.mirror(uid_of(pod)) is not None for pod in live)

    def _leaks(self, commit: Commit) -> None:
        if commit.after is None:
            return
        secret = commit.kind == kind_of(SECRETS)
        raw = msgspec.json.encode(commit.after["metadata"] if secret else commit.after)
        if any(sign in raw for sign in _SIGNS):
            self.violate(f"I10: a secret stands in {commit.kind[1]} {commit.key}")

    def mirror(self, uid: str) -> Obj | None:
        """The host pod of a virtual UID."""
        pods = self._host.store.all(PODS, self._work)
        return next((each for each in pods if marks.is_mirrored(each) and virtual_uid(each) == uid), None)

    # -- once all is quiet

    def differences(self) -> list[str]:
        """Everything in which the two sides are not what they should be to each other."""
        found = [*self._pods(), *self._left_over(), *self._services(), *self._needed(), *self._tokens(), *self._nodes()]
        found += policies.differences(self._host, self._plane, self._work, self.host_key, self.mirror)
        return [*found, *self._claims.differences(self.host_key)]

    def _pods(self) -> Iterator[str]:
        for virtual in self._plane.store.all(PODS):
            key, host = key_of(virtual), self.mirror(uid_of(virtual))
            if host is None:
                if virtual["status"].get("phase") in _FINAL or self._refused(virtual):
                    continue
                yield f"pod {key} has no host pod"
                continue
            if not host["spec"].get("nodeName") and placement.digest_of(host) != placement.digest([",".join(self._avoided())]):
                yield f"pod {key} was made for other cordons than there are"
            for what, one, other in _compared(virtual, host):
                if one != other:
                    yield f"pod {key}: {what} is {one!r} above and {other!r} below"
            space = self._plane.store.get(NAMESPACES, Key("", key.namespace)) or {"metadata": {}}
            wanted = {host_namespace_key(name): value for name, value in (space["metadata"].get("labels") or {}).items()}
            below = {name: (host["metadata"].get("labels") or {}).get(name) for name in wanted}
            if wanted != below and virtual["status"].get("phase") not in _FINAL:
                yield f"pod {key}: the labels of its namespace are {below!r} below, and should be {wanted!r}"

    def _avoided(self) -> tuple[str, ...]:
        there = {key_of(each).name for each in self._host.store.all(NODES)}
        marked = (self._cordoned, self._tainted)
        return tuple(sorted(name for name in there if any(each.get(name) for each in marked)))

    def _refused(self, virtual: Obj) -> bool:
        """Whether the pod says why it does not run, and is right."""
        name = self.host_key("Pod", key_of(virtual))
        taken = self._host.store.get(PODS, name)
        conditions = virtual["status"].get("conditions") or ()
        told = any(each["type"] == "PodScheduled" and each["status"] == "False" and each.get("reason") for each in conditions)
        if taken is not None and not marks.is_mirrored(taken):
            return told
        hard = [(each.get("spec") or {}).get("hard") or {} for each in self._host.store.all(RESOURCE_QUOTAS, self._work)]
        limit = min((int(each[f"requests.{GPU}"]) for each in hard if f"requests.{GPU}" in each), default=1 << 30)
        used = sum(_gpus(each) for each in self._host.store.all(PODS, self._work) if each["status"].get("phase") not in _FINAL)
        return told and _gpus(virtual) > 0 and used + _gpus(virtual) > limit

    def _left_over(self) -> Iterator[str]:
        for kind, r in _KINDS.items():
            for host in self._host.store.all(r, self._work):
                if not marks.is_mirrored(host):
                    continue
                notes = host["metadata"]["annotations"]
                if notes.get(marks.VIRTUAL_KIND) != kind:
                    continue
                virtual = self._plane.store.get(r, origin_of(host))
                if virtual is None or (kind in {"Pod", "Service"} and uid_of(virtual) != virtual_uid(host)):
                    yield f"host {kind} of {origin_of(host)} has no virtual one"

    def _services(self) -> Iterator[str]:
        for virtual in self._plane.store.all(SERVICES):
            host = self._host.store.get(SERVICES, self.host_key("Service", key_of(virtual)))
            if host is None:
                yield f"service {key_of(virtual)} has no host service"
                continue
            for part in ("clusterIP", "ports"):
                if virtual["spec"].get(part) != host["spec"].get(part):
                    yield f"service {key_of(virtual)}: {part} differs"

    def _needed(self) -> Iterator[str]:
        wanted: set[tuple[str, Key]] = set()
        for virtual in self._plane.store.all(PODS):
            if self.mirror(uid_of(virtual)) is not None or virtual["status"].get("phase") not in _FINAL:
                wanted |= _needs(virtual)
        running = {need for pod in self._plane.store.all(PODS) if self.mirror(uid_of(pod)) for need in _needs(pod)
                   if pod["status"].get("phase") not in _FINAL}  # fmt: skip
        for kind in ("ConfigMap", "Secret"):
            r = _KINDS[kind]
            for host in self._host.store.all(r, self._work):
                who = host["metadata"].get("annotations", {}).get(marks.VIRTUAL_KIND)
                if marks.is_mirrored(host) and who == kind and (kind, origin_of(host)) not in wanted:
                    yield f"host {kind} of {origin_of(host)} is left although no pod refers to it"
        for kind, key in sorted(running):
            virtual_one = self._plane.store.get(_KINDS[kind], key)
            host_one = self._host.store.get(_KINDS[kind], self.host_key(kind, key))
            if virtual_one is None:
                continue
            if host_one is None or host_one.get("data") != virtual_one.get("data"):
                yield f"{kind} {key} is not on the host as it is in the plane"

    def _tokens(self) -> Iterator[str]:
        secrets = [each for each in self._host.store.all(SECRETS, self._work) if _kind(each) == "PodToken"]
        for each in secrets:
            mirror = self.mirror(virtual_uid(each))
            if mirror is None:
                yield f"token of a pod that is gone: {origin_of(each)}"
            elif mirror["status"].get("phase") in _FINAL:
                yield f"token of a pod that has ended: {origin_of(each)}"
            elif [owner["uid"] for owner in each["metadata"].get("ownerReferences") or ()] != [uid_of(mirror)]:
                yield f"token {origin_of(each)} is not owned by its host pod"
            for text in (each.get("data") or {}).values():
                if float(base64.b64decode(text).decode().rpartition(" ")[2]) < self._host.now():
                    yield f"token {origin_of(each)} has expired"
        have = {virtual_uid(each) for each in secrets}
        for virtual in self._plane.store.all(PODS):
            tokens = any("projected" in each for each in virtual["spec"].get("volumes") or ())
            mirror = self.mirror(uid_of(virtual))
            runs = mirror is not None and mirror["spec"].get("nodeName") and mirror["status"].get("phase") not in _FINAL
            if tokens and runs and uid_of(virtual) not in have:
                yield f"pod {key_of(virtual)} has no token"

    def _nodes(self) -> Iterator[str]:
        host = {key_of(each).name: each for each in self._host.store.all(NODES)}
        virtual = {key_of(each).name: each for each in self._plane.store.all(NODES)}
        for name in sorted(set(host) ^ set(virtual)):
            yield f"node {name} is on one side only"
        for name in sorted(set(host) & set(virtual)):
            here, below = ((each[name].get("spec") or {}).get("unschedulable") is True for each in (virtual, host))
            if here is not (below or self._cordoned.get(name, False)):
                yield f"node {name}: cordoned is {here} above, and {below} below"
            if bool((virtual[name].get("spec") or {}).get("taints")) is not self._tainted.get(name, False):
                yield f"virtual node {name}: its taints are {(virtual[name].get('spec') or {}).get('taints')}"
            if not (virtual[name].get("status") or {}).get("allocatable"):
                yield f"virtual node {name} has nothing to offer"


def _kind(host: Obj) -> str:
    return str((host["metadata"].get("annotations") or {}).get(marks.VIRTUAL_KIND, ""))


def _needs(virtual: Obj) -> set[tuple[str, Key]]:
    found = of_pod(virtual) if virtual else frozenset()
    return {(each.kind, Key(each.namespace, each.name)) for each in found if each.kind in {"ConfigMap", "Secret"}}


def _mounts(host: Obj) -> set[tuple[str, str]]:
    return {(each.kind, each.name) for each in of_pod(host)}


def _gpus(pod: Obj) -> int:
    asked = ((each.get("resources") or {}).get("requests") or {} for each in pod["spec"]["containers"])
    return sum(int(each.get(GPU, 0)) for each in asked)


def _changes(pod: Obj) -> list[object]:
    """What of a pod may change while it runs: its CPU, and its containers for debugging."""
    cpu = [((each.get("resources") or {}).get("requests") or {}).get("cpu") for each in pod["spec"]["containers"]]
    return [*cpu, *sorted(each["name"] for each in pod["spec"].get("ephemeralContainers") or ())]


def _compared(virtual: Obj, host: Obj) -> Iterator[tuple[str, object, object]]:
    for what, path in (("node", ("spec", "nodeName")), ("phase", ("status", "phase")), ("address", ("status", "podIP"))):
        yield what, virtual[path[0]].get(path[1]), host[path[0]].get(path[1])
    for what in ("deletionTimestamp",):
        yield what, bool(virtual["metadata"].get(what)), bool(host["metadata"].get(what))
    labels = virtual["metadata"].get("labels") or {}
    below = host["metadata"].get("labels") or {}
    yield "labels", labels, {key: below.get(key) for key in labels}
    if virtual["status"].get("phase") not in _FINAL and not virtual["metadata"].get("deletionTimestamp"):
        yield "what changes in place", _changes(virtual), _changes(host)
