"""What a reconcile of one pod may come to: the closed union that `decide` returns and `reconcile` applies. Pure.

    ReadHost, ReadVirtual, Confirm,
    NotePlaced                       not decided yet: do this, and decide again
    Wait, Forget, ReleaseReferences  nothing is written
    ReportEnd                        host pod that had ended and is gone: the virtual pod stays, as ended
    CreateHost, Bind, Follow         forward
    Repin                            a step back first: the host pod, not placed yet, is recreated for the node in the plane
    AwaitEnd, EndHost                virtual pod pending deletion, its host pod there
    DeleteOrphan, DeletePredecessor  host pod without its virtual pod: only with the plane's own answer that it is gone
    DeleteVirtual                    virtual pod that is over: only with the host's own answer that its host pod is gone
    EvictVirtual, DeleteMisplaced    virtual pod whose host pod is there and leaves it no future

A deletion of a host pod that cannot be proven cannot be built: its proof is a field. `again` is after how many seconds to ask
for the end of a deleted host pod, None where an event shows it.
"""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion
from syncer.translate.origin import virtual_uid


def uid(pod: Obj) -> str:
    """The UID of a pod."""
    return str(pod["metadata"].get("uid", ""))


@dataclass(frozen=True, slots=True)
class Answer:
    """What an API server answered to a server-side read: a pod, or that it has none of that name."""

    pod: Obj | None

    def has(self, virtual: str) -> bool:
        """Whether the plane has the virtual pod of this UID."""
        return self.pod is not None and uid(self.pod) == virtual

    def host_pod_of(self, virtual: str) -> Obj | None:
        """The host pod of this virtual UID, where the host answered with it."""
        found = self.pod is not None and marks.is_mirrored(self.pod) and virtual_uid(self.pod) == virtual
        return self.pod if found else None


@dataclass(frozen=True, slots=True)
class ReadHost:
    """Ask the host which pod it has."""


@dataclass(frozen=True, slots=True)
class ReadVirtual:
    """Ask the plane which pod it has."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """The host confirmed the host pod that the cache shows, and has no later one: nothing more is expected."""

    host: Obj


@dataclass(frozen=True, slots=True)
class NotePlaced:
    """Record on the host that it placed the host pod of this virtual pod, before the plane learns of it."""

    virtual: Obj


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing now; seconds until the next try, None if an event will queue the pod again."""

    seconds: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Neither side has a pod: forget it."""


@dataclass(frozen=True, slots=True)
class ReleaseReferences:
    """The virtual pod has ended and has no host pod: it no longer needs what it refers to."""


@dataclass(frozen=True, slots=True)
class ReportEnd:
    """The host pod ended and was deleted before its end was seen: report it as it was last."""

    virtual: Obj


@dataclass(frozen=True, slots=True)
class CreateHost:
    """Create the host pod, after its group and what it refers to."""

    virtual: Obj


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the virtual pod to the node that the host chose."""

    virtual: Obj
    node: str


@dataclass(frozen=True, slots=True)
class Follow:
    """Both are there: queue the tokens, report the status, patch the host pod."""

    virtual: Obj
    host: Obj


@dataclass(frozen=True, slots=True)
class Repin:
    """Delete a host pod without a node, because the tenant has bound its virtual pod to one; it is recreated for that node."""

    virtual: Obj
    host: Obj


@dataclass(frozen=True, slots=True)
class AwaitEnd:
    """The host pod is ending as requested: report its status."""

    virtual: Obj
    host: Obj
    again: float | None


@dataclass(frozen=True, slots=True)
class EndHost:
    """Report the status, then delete the host pod of a virtual pod that is pending deletion."""

    virtual: Obj
    host: Obj
    grace: int | None
    again: float | None

    def __post_init__(self) -> None:
        if not is_pending_deletion(self.virtual) or uid(self.virtual) != virtual_uid(self.host):
            raise ValueError("the virtual pod of this host pod is not pending deletion")


@dataclass(frozen=True, slots=True)
class DeleteOrphan:
    """Delete a host pod whose virtual pod is gone, if the mass-delete breaker allows it."""

    why: ClassVar[str] = "virtual pod is gone"
    host: Obj
    absence: Answer
    grace: int | None
    again: float | None

    def __post_init__(self) -> None:
        _require_absence(self.host, self.absence)


@dataclass(frozen=True, slots=True)
class DeletePredecessor:
    """Delete a host pod whose virtual pod was replaced by another of its name, if the mass-delete breaker allows it."""

    why: ClassVar[str] = "virtual pod was replaced"
    host: Obj
    absence: Answer
    grace: int
    again: float | None

    def __post_init__(self) -> None:
        _require_absence(self.host, self.absence)


@dataclass(frozen=True, slots=True)
class DeleteVirtual:
    """Delete a virtual pod whose host pod is gone; with `lost`, first report that its result was not seen."""

    virtual: Obj
    absence: Answer
    lost: bool
    why: str

    def __post_init__(self) -> None:
        if self.absence.host_pod_of(uid(self.virtual)) is not None:
            raise ValueError("the host pod of this virtual pod is there")


@dataclass(frozen=True, slots=True)
class EvictVirtual:
    """The host deletes its pod: report the status, then delete the virtual pod with the same grace."""

    virtual: Obj
    host: Obj
    grace: int | None


@dataclass(frozen=True, slots=True)
class DeleteMisplaced:
    """Delete a virtual pod that is bound to another node than its host pod, which the host placed on `node`."""

    virtual: Obj
    node: str


Question: TypeAlias = ReadHost | ReadVirtual | Confirm | NotePlaced
Deletion: TypeAlias = EndHost | DeleteOrphan | DeletePredecessor | DeleteVirtual | EvictVirtual | DeleteMisplaced
Step: TypeAlias = Wait | Forget | ReleaseReferences | ReportEnd | CreateHost | Bind | Follow | Repin | AwaitEnd | Deletion
PodAction: TypeAlias = Question | Step


def _require_absence(host: Obj, absence: Answer) -> None:
    if absence.has(virtual_uid(host)):
        raise ValueError("the virtual pod of this host pod is there")
