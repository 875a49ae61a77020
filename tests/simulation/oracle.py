"""The invariants of the design, watched from outside: it sees both stores whole and knows nothing of the syncer's mind.

At every commit of the syncer:  I1 one host pod per virtual UID, made for a pod that exists, never run twice, needs first
                                I8 deleted only for a deletion that really happened; never by force; nothing that is not ours
                                I10 no secret outside of Secrets
                                a claim's data is not lost (`claims`)
                                no change reported as seen by the node that the host pod does not have
Once all is quiet:              `differences`, which `agreement` finds; that the syncer never wrote is one, since even a tenant
                                without anything has nodes
"""

import base64
from collections.abc import Iterator
from typing import Final

import msgspec

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, key_of, uid_of
from bulkhead.kube.resources import NODES, PODS, SECRETS
from syncer.settings import Settings
from tests.simulation.agreement import Agreement, NodeMarks
from tests.simulation.api import Api
from tests.simulation.claims import ClaimWatch
from tests.simulation.ledgeractor import gated
from tests.simulation.sides import KINDS, Sides, changes, ended, gpus, mounts, needs, origin_of, virtual_uid
from tests.simulation.store import Commit, Kind, kind_of

HOST_USER: Final = "syncer-host"
PLANE_USER: Final = "syncer-plane"
TAINT: Final = "example.com/mine"
_MARK: Final = "SECRET-TEXT-"
_SIGNS: Final = (b"SECRET-TEXT-", b"U0VDUkVULVRFWFQt", b"token of ", b"dG9rZW4gb2Yg")


def secret_text(value: str) -> str:
    """Data of a Secret that the oracle knows again wherever it turns up."""
    return base64.b64encode(f"{_MARK}{value}".encode()).decode()


class Oracle:
    """Checks every commit of both stores against the invariants, and keeps what breaks one in `violations`."""

    def __init__(self, host: Api, plane: Api, settings: Settings) -> None:
        self._sides = sides = Sides(host, plane, settings)
        self._host, self._plane, self._work = host, plane, sides.work
        self.violations: list[str] = []
        # Since the tenant's first cordon or taint, host pods that have no node yet may be recreated.
        self._avoiding = False
        # A replica that is behind, or a watch that replays the past, shows pods that are long gone. No API server does so.
        self.stale = False
        self.dead: set[str] = set()  # virtual UIDs whose deletion was asked for, or done
        self._born: dict[str, int] = {}  # virtual UID -> version at which it was created
        self._placed: set[str] = set()  # virtual pods of which the syncer told the plane where the host had placed them
        self._bound: set[str] = set()  # virtual pods that the tenant bound itself
        self._ever_placed: set[str] = set()  # virtual pods whose host pod had a node, or was ended with grace by the host
        self._mirrors: dict[str, list[str]] = {}  # virtual pod UID -> UIDs of its host pods, ever
        self._nodes_marked = NodeMarks()
        self._claims = ClaimWatch(host, plane, sides.work, self.violate)
        self._agreement = Agreement(sides, self._nodes_marked, self._claims)
        self.observed = False  # whether the syncer has written anything that was seen here
        self._taken: set[tuple[Kind, Key]] = set()  # host objects that others took away
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

    def differences(self) -> list[str]:
        """In what the two sides do not agree once all is quiet; where nothing was seen of the syncer, that nothing was."""
        found = [] if self.observed else ["nothing was seen of the syncer: it has written nothing into the plane"]
        return found + self._agreement.differences()

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
                self._nodes_marked.cordoned.pop(commit.key.name, None)
                self._nodes_marked.tainted.pop(commit.key.name, None)
            elif commit.user == "tenant":
                was, spec = ((each or {}).get("spec") or {} for each in (commit.before, commit.after))
                if was.get("unschedulable") != spec.get("unschedulable"):
                    self._nodes_marked.cordoned[commit.key.name] = spec.get("unschedulable") is True
                self._nodes_marked.tainted[commit.key.name] = any(each["key"] == TAINT for each in spec.get("taints") or ())
                self._avoiding = True
        if commit.user == PLANE_USER:
            self.observed = True
            self._leaks(commit)
            self._virtual_end(commit)
            self._seen(commit)
        if commit.kind == kind_of(PODS) and commit.after and commit.after["spec"].get("nodeName"):
            self._place(commit, uid)

    def _place(self, commit: Commit, uid: str) -> None:
        """A pod with a node in the plane: by the tenant's hand, or because the host placed it."""
        bound = not ((commit.before or {}).get("spec") or {}).get("nodeName")
        if bound and commit.user == "tenant":
            self._bound.add(uid)
        mirror = self._sides.mirror(uid)
        if commit.user == PLANE_USER and (bound or (mirror is not None and mirror["spec"].get("nodeName"))):
            self._placed.add(uid)

    def _virtual_end(self, commit: Commit) -> None:
        before, after = commit.before, commit.after
        if commit.kind != kind_of(PODS) or before is None:
            return
        ends = after is None or (after["metadata"].get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp"))
        uid = uid_of(before)
        if not ends:
            return
        mirror = self._sides.mirror(uid)
        node = before["spec"].get("nodeName")
        if mirror and not mirror["metadata"].get("deletionTimestamp") and mirror["spec"].get("nodeName") == node:
            self.violate(f"I1: virtual pod {commit.key} ended although its host pod lives")
        if mirror and after is None and node and mirror["spec"].get("nodeName") == node:
            running = not ended(before) and not ended(mirror)
            if running and mirror["metadata"].get("deletionGracePeriodSeconds") != 0:
                self.violate(f"I1: virtual pod {commit.key} is gone while its host pod still ends")
        if not self._mirrors.get(uid) and not before["metadata"].get("deletionTimestamp"):
            self.violate(f"I8: virtual pod {commit.key} was deleted by the syncer although no host pod was ever there")
        never = uid in self._bound and uid not in self._ever_placed
        if never and not before["metadata"].get("deletionTimestamp"):
            self.violate(f"I8: virtual pod {commit.key}, which the tenant bound, was deleted though the host never placed it")

    def _seen(self, commit: Commit) -> None:
        """A client that waits for a change takes the observed generation for one that the node has."""
        virtual = commit.after
        if commit.kind != kind_of(PODS) or virtual is None:
            return
        mirror = self._sides.mirror(uid_of(virtual))
        current = virtual["metadata"]["generation"] == virtual["status"].get("observedGeneration")
        if mirror and current and changes(mirror) != changes(virtual):
            self.violate(f"a change of {commit.key} is reported as seen, and its host pod does not have it")

    def _on_host(self, commit: Commit) -> None:
        if commit.kind == kind_of(PODS) and commit.before is None and commit.after is not None:
            self._new_pod(commit.after)
        if commit.after is not None:
            self._taken.discard((commit.kind, commit.key))
            spec, meta = commit.after.get("spec") or {}, commit.after["metadata"]
            if commit.kind == kind_of(PODS) and (spec.get("nodeName") or meta.get("deletionTimestamp")):
                self._ever_placed.add(virtual_uid(commit.after))
        if commit.user == HOST_USER and commit.kind == kind_of(PODS):
            self._gate(commit)
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
        for kind, key in needs(virtual or {}):
            held = self._plane.store.get(KINDS[kind], key)
            known = held is not None and self._born.get(uid_of(held), 0) < self._born[uid]
            place = self._sides.host_key(kind, key)
            # What others took away, the syncer may believe to be there until its cache shows it.
            taken = (kind_of(KINDS[kind]), place) in self._taken
            if known and not taken and self._host.store.get(KINDS[kind], place) is None:
                self.violate(f"host pod of {key_of(virtual or {})} made before its {kind} {key}")

    def _host_end(self, commit: Commit, before: Obj, after: Obj | None) -> None:
        uid = virtual_uid(before)
        kind = str(before["metadata"]["annotations"].get(marks.VIRTUAL_KIND))
        if kind == "Pod":
            moved = not before["spec"].get("nodeName") and (self._avoiding or gated(before) or uid in self._bound)
            if uid not in self.dead and not moved:
                self.violate(f"I8: host pod of {origin_of(before)} deleted although nobody deleted the virtual pod")
            if after is None and before["spec"].get("nodeName") and not ended(before):
                self.violate(f"I8: host pod of {origin_of(before)} forced away while its containers may run")
            return
        virtual = self._plane.store.get(KINDS[kind], origin_of(before)) if kind in KINDS else None
        if virtual is None or uid_of(virtual) != uid or virtual["metadata"].get("deletionTimestamp"):
            if kind in KINDS and uid not in self.dead:
                self.violate(f"I8: host {kind} of {origin_of(before)} deleted although nobody deleted the virtual one")
            return
        name = key_of(before).name
        if kind in {"ConfigMap", "Secret"} and any((kind, name) in mounts(each) for each in self._running()):
            self.violate(f"I8: host {kind} of {origin_of(before)} deleted under a host pod that runs with it")
        if kind == "Service" and virtual["spec"].get("clusterIP") == before["spec"].get("clusterIP"):
            self.violate(f"I8: host Service of {origin_of(before)} deleted although its virtual one lives")
        if (
            kind in {"ConfigMap", "Secret"}
            and virtual.get("type") == before.get("type")
            and self._in_use(kind, origin_of(before))
        ):
            self.violate(f"I8: host {kind} of {origin_of(before)} deleted although a pod needs it")

    def _gate(self, commit: Commit) -> None:
        """A pod that requests GPUs has the ledger's gate from the first moment, and only the ledger removes it."""
        before, after = commit.before, commit.after
        if before is None and after is not None and self._sides.waits_for_ledger and gpus(after) and not gated(after):
            self.violate(f"host pod of {origin_of(after)} made without the ledger's gate")
        if before is not None and after is not None and gated(before) and not gated(after):
            self.violate(f"the syncer let host pod {commit.key} pass the ledger's gate")

    def _running(self) -> Iterator[Obj]:
        for each in self._host.store.all(PODS, self._work):
            ends = each["metadata"].get("deletionTimestamp") or ended(each)
            if marks.is_mirrored(each) and not ends:
                yield each

    def _in_use(self, kind: str, key: Key) -> bool:
        live = (each for each in self._plane.store.all(PODS) if not ended(each))
        return any((kind, key) in needs(pod) and self._sides.mirror(uid_of(pod)) is not None for pod in live)

    def _leaks(self, commit: Commit) -> None:
        if commit.after is None:
            return
        secret = commit.kind == kind_of(SECRETS)
        raw = msgspec.json.encode(commit.after["metadata"] if secret else commit.after)
        if any(sign in raw for sign in _SIGNS):
            self.violate(f"I10: a secret stands in {commit.kind[1]} {commit.key}")
