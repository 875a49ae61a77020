"""The record by which an etcd member with an empty volume may start, and as what. Pure.

    Founding ── a quorum has started ──> Closed <── the replacement has started ── Open(plane-2)
                                           ├──── plane-2's old member is removed, a learner added ────┘
                                           └── an admin asks for it ──> Recovery(plane-2) ── it leads alone ──> Closed

A member that lost its volume must not come back under its old ID: it has forgotten what it acknowledged, and could elect a
leader that lacks it. etcd does not check that. So the containers of a plane of three read two flags from this record, a
ConfigMap, at each start. A member that has data ignores both. One that has none finds its own name in the list only if it may
start; else etcd refuses, by its own check of its flags, and ends. A recovery (`controller.plane.quorumrecovery`) adds a third.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.api.planemembers import HEARD, NAME, RECOVER
from bulkhead.api.untrusted import mapping, text
from controller.plane.spec import ETCD_PEER_PORT, PEERS, PLANE, PlaneSpec

CONFIG_MAP: Final = NAME
STATE: Final = "state"
CLUSTER: Final = "cluster"
FORCE: Final = "force"
_OPEN: Final = "open"
_WITHOUT: Final = "without"
_DISCARDS: Final = "discards"
_FORMER: Final = "former"
# What etcd says if its name is not in the list, with its name behind it. Exactly a member without data says it.
_REFUSAL: Final = "couldn't find local name"
# What etcd says if its data is not that of its peers.
_CORRUPT: Final = "found data inconsistency with peers"
# What etcd says if it lacks entries that it has acknowledged to its leader, and the function that ends it so, further down.
_FORGOT: Final = re.compile(r"tocommit\(\d+\) is out of range|\(\*raftLog\)\.commitTo\(")
# The label by which a StatefulSet's controller says from which template a pod was made.
_REVISION: Final = "controller-revision-hash"
# A name that no pod has, and an address that nothing answers.
_NONE: Final = f"no-member=https://replaced.invalid:{ETCD_PEER_PORT}"


@dataclass(frozen=True, slots=True)
class Recovery:
    """A lost quorum is replaced by one member and its data; how far that is.

    former: the UID of the pod before it starts alone; empty until it is decided what is discarded.
    discards: the UIDs of the volume claims of all other members.
    forced: nothing of the others is left, so the member may start as the only one.
    """

    pod: str
    former: str = ""
    discards: tuple[str, ...] = ()
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """Which members without data may start: all while the cluster is founded, later at most the one in `open_for`."""

    founding: bool = False
    open_for: str = ""  # the name of a pod
    without: tuple[str, ...] = ()  # the pods that have no member yet while it is open; etcd compares the numbers
    recovery: Recovery | None = None
    heard: str = ""  # what was told to admins when it was read (`bulkhead.api.planemembers`)
    version: str = ""  # of the ConfigMap that was read

    @property
    def closed(self) -> bool:
        """Whether no member without data may start."""
        return not self.founding and not self.open_for


def pods_of(spec: PlaneSpec) -> tuple[str, ...]:
    """The names of a plane's pods."""
    return tuple(f"{PLANE}-{number}" for number in range(spec.control_plane.replicas))


def peer_url(spec: PlaneSpec, pod: str) -> str:
    """The URL at which a member's peers reach it; with one member there is none but itself."""
    if spec.control_plane.replicas == 1:
        return f"https://127.0.0.1:{ETCD_PEER_PORT}"
    return f"https://{pod}.{PEERS}.{spec.namespace}.svc:{ETCD_PEER_PORT}"


def config_map(spec: PlaneSpec, record: Record) -> Obj:
    """The record as the plane's pods read it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": spec.namespace, "labels": labels.made_for(spec.tenant, PLANE)},
        "data": data(spec, record),
    }


def data(spec: PlaneSpec, record: Record) -> dict[str, str]:
    """The flags, the pod for which the record is open, and the recovery. Every key each time: a patch keeps the others."""
    pods = pods_of(spec)
    if record.founding:
        members = {pod: pod for pod in pods}
    elif record.open_for:
        # etcd compares the URLs with those of the cluster, and looks for its own name alone.
        there = (pod for pod in pods if pod not in record.without)
        members = {pod: pod if pod == record.open_for else f"kept-{pod}" for pod in there}
    else:
        members = {}
    named = ",".join(f"{name}={peer_url(spec, pod)}" for pod, name in members.items())
    recovery = record.recovery or Recovery("")
    return {
        STATE: "new" if record.founding else "existing",
        CLUSTER: named or _NONE,
        FORCE: "true" if recovery.forced else "false",
        _OPEN: record.open_for,
        _WITHOUT: ",".join(record.without),
        RECOVER: recovery.pod,
        _FORMER: recovery.former,
        _DISCARDS: ",".join(recovery.discards),
    }


def read(found: Mapping[str, Any]) -> Record:
    """The record in a ConfigMap; one that is damaged is closed."""
    content = mapping(found.get("data"))
    version = text(mapping(found.get("metadata")).get("resourceVersion"))
    if content.get(STATE) == "new":
        return Record(founding=True, version=version)
    return Record(
        open_for=text(content.get(_OPEN)),
        without=_several(content.get(_WITHOUT)),
        recovery=_recovery(content),
        heard=text(content.get(HEARD)),
        version=version,
    )


def _several(given: object) -> tuple[str, ...]:
    return tuple(part for part in text(given).split(",") if part)


def _recovery(content: Mapping[str, Any]) -> Recovery | None:
    pod = text(content.get(RECOVER))
    if not pod:
        return None
    return Recovery(pod, text(content.get(_FORMER)), _several(content.get(_DISCARDS)), forced=content.get(FORCE) == "true")


def refused(pod: Obj) -> bool:
    """Whether the etcd of a pod ended because its volume is empty and the record is not open for it; not while it runs."""
    return tries(pod) and not any("running" in mapping(status.get("state")) for status in _etcd(pod))


def tries(pod: Obj) -> bool:
    """Whether the etcd of a pod ended so the last time, even if it runs now: it may be about to end so again."""
    return is_refusal(str(pod["metadata"]["name"]), _last_end(pod))


def forgot(pod: Obj) -> bool:
    """Whether the etcd of a pod ended the last time because it lacks what it has acknowledged, even if it runs now."""
    return is_forgetful(_last_end(pod))


def is_forgetful(message: str) -> bool:
    """Whether the end of a member's log says that it lacks what it has acknowledged."""
    return _FORGOT.search(message) is not None


def _last_end(pod: Obj) -> str:
    """The last words of the etcd of a pod when it ended the last time; empty if it never did."""
    for status in _etcd(pod):
        ended = mapping(mapping(status.get("state")).get("terminated"))
        end = ended or mapping(mapping(status.get("lastState")).get("terminated"))
        return text(end.get("message"))
    return ""


def corrupt(pod: Obj) -> bool:
    """Whether the etcd of a pod ended, and does not run, because it has other data than its peers."""
    return any(
        _CORRUPT in text(mapping(mapping(status.get(state)).get("terminated")).get("message"))
        for status in _etcd(pod)
        if "running" not in mapping(status.get("state"))
        for state in ("state", "lastState")
    )


def revision(stateful_set: Obj | None) -> str:
    """The revision of a StatefulSet's present template; empty while its controller has not seen that."""
    status = mapping((stateful_set or {}).get("status"))
    seen = stateful_set is not None and status.get("observedGeneration") == stateful_set["metadata"].get("generation")
    return text(status.get("updateRevision")) if seen else ""


def is_outdated(pod: Obj, present: str) -> bool:
    """Whether a pod was made from another template than the present one; False if either is unknown."""
    made = text((pod["metadata"].get("labels") or {}).get(_REVISION))
    return bool(present and made) and made != present


def runs_for(pod: Obj, now: datetime) -> float:
    """The seconds since the etcd of a pod has started; 0 if it does not run."""
    for status in _etcd(pod):
        try:
            began = datetime.fromisoformat(text(mapping(mapping(status.get("state")).get("running")).get("startedAt")))
            return max(0.0, (now - began).total_seconds())
        except (ValueError, TypeError):
            return 0.0
    return 0.0


def _etcd(pod: Obj) -> list[Obj]:
    return [status for status in (pod.get("status") or {}).get("containerStatuses") or [] if status.get("name") == "etcd"]


def is_refusal(name: str, message: str) -> bool:
    """Whether the end of a member's log says that it found no data and may not start."""
    return f'{_REFUSAL} "{name}"' in message.replace("\\", "")
