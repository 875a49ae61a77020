"""The report on a plane: whether its API server answers, whether it has its data, and which of its members serve. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bulkhead.api import planeidentity
from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from bulkhead.api.planeidentity import Recorded
from controller.plane import stranded
from controller.plane.spec import PLANE, PlaneSpec
from controller.plane.stranded import Strandings
from controller.tenant.facets.plane import members
from controller.tenant.facets.plane.members import Members
from controller.tenant.status import Report, was_true
from controller.verdict import Verdict, is_of, not_starting

# While a plane's data is lost or replaced, and after it came back: its syncer looks every 30 s.
_IDENTITY_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Found:
    """The state of a plane."""

    ready: bool = False  # it answers, and it has the objects that every plane starts with
    message: str = ""
    uid: str = ""  # of its data, as the plane reports it
    identity: Recorded = field(default_factory=Recorded)  # of its data, as the host has recorded it
    pods: Sequence[Obj] = ()  # of the plane, its syncer and its DNS
    pull_trouble: str = ""
    strandings: Strandings = field(default_factory=Strandings)
    again: float | None = None  # seconds after which it should be asked once more
    etcd_quorate: bool = False  # a quorum of its etcd members answers, whatever its pods show


def report(tenant: Obj, spec: PlaneSpec, found: Found) -> Report:
    """`tenant` has the previous status."""
    was, seen = was_true(tenant, ConditionType.PLANE_READY), _members(spec, found)
    why = _lost(tenant, found)
    formed = was or bool(planeidentity.reported_uid(tenant))
    lost = Verdict("False", Reason.DATA_LOST, _of_lost_data(tenant, why)) if why else None
    # The status keeps the identity for which the host's objects were created, until an admin accepts another one.
    uid = found.identity.uid or ("" if lost else found.uid)
    # It answers again, but its syncer may not have reported yet with which data.
    came_back = found.ready and not was
    return Report(
        conditions={ConditionType.PLANE_READY: lost or _plane(tenant, found, seen, was=was, formed=formed)},
        needed=(ConditionType.PLANE_READY,),
        fields={"planeClusterUID": uid} if uid else {},
        in_full={"versions": _versions(spec)},
        alarm=lost,
        remarks=(seen.note,) if seen.note else (),
        again=_IDENTITY_SECONDS if lost or came_back else found.again,
    )


def _lost(tenant: Obj, found: Found) -> str:
    """Why the plane's data is not the expected one; empty if it is."""
    return planeidentity.lost(found.identity, planeidentity.reported_uid(tenant), found.uid)


def _of_lost_data(tenant: Obj, lost: str) -> str:
    name = tenant["metadata"]["name"]
    return (
        f"{lost}. Nothing of the tenant is deleted on the host, and its pods run on. Restore the plane's volume; or check what "
        f"the host would lose, and continue with the present data: bulkhead tenant accept-data {name}"
    )


def _of_lost_quorum(tenant: Obj) -> str:
    return (
        "nothing is changed by itself: bring their pods back with their volumes; with a quorum the plane goes on. If their "
        f"volumes are lost, see what the others have, and continue: bulkhead tenant recover {tenant['metadata']['name']}"
    )


def _plane(tenant: Obj, found: Found, seen: Members, *, was: bool, formed: bool) -> Verdict:
    # After a recovery one member is a quorum, until the others are added.
    if found.ready and (seen.quorate or (found.etcd_quorate and seen.serving)):
        return _serving(seen)
    if formed and seen.wanted > 1 and not seen.quorate and not found.etcd_quorate:
        return Verdict("False", Reason.QUORUM_LOST, f"{_of_members(seen, '')}; {_of_lost_quorum(tenant)}")
    if (keeps := _keeps_down(tenant, found, seen, formed=formed)) is not None:
        return keeps
    silent = found.message or "the plane's pod is not ready"
    if was:
        return Verdict("False", Reason.PLANE_UNREACHABLE, _of_members(seen, silent))
    pods = [pod for pod in found.pods if is_of(pod, PLANE)]
    if not pods:
        return Verdict("False", Reason.PROVISIONING, "the plane's pod is being created")
    return Verdict("False", Reason.WAITING_FOR_PLANE, _of_members(seen, _waiting(pods[0], found)))


def _keeps_down(tenant: Obj, found: Found, seen: Members, *, formed: bool) -> Verdict | None:
    """What keeps the plane's pods from serving and does not end by itself; None if nothing is known of it."""
    name = str(tenant["metadata"]["name"])
    if formed and seen.wanted == 1 and (gone := stranded.of_the_only(name, f"bh-{name}", found.strandings)):
        return Verdict("False", Reason.NODE_LOST, gone)
    # If a quorum is up, trouble of one of several members is not the reason that a plane does not answer.
    trouble = None if seen.quorate else seen.trouble
    if trouble is None or trouble.reason is None:
        return None
    return not_starting(trouble.reason, _of_members(seen, trouble.message), found.pull_trouble)


def _serving(seen: Members) -> Verdict:
    if seen.down:
        return Verdict("True", Reason.MEMBERS_DOWN, f"the API server answers; {seen.note}")
    return Verdict("True", Reason.READY, "the API server answers and every container of the plane is ready")


def _waiting(pod: Obj, found: Found) -> str:
    waiting = [
        str(container["name"])
        for container in (pod.get("status") or {}).get("containerStatuses") or []
        if not container.get("ready")
    ]
    return f"not ready yet: {', '.join(waiting)}" if found.ready and waiting else found.message


def _members(spec: PlaneSpec, found: Found) -> Members:
    return members.look((pod for pod in found.pods if is_of(pod, PLANE)), spec.control_plane.replicas)


def _of_members(seen: Members, message: str) -> str:
    """Why a plane is not ready; with several members, each one that is down."""
    if seen.wanted == 1 or not seen.down:
        return message
    if seen.quorate:
        return f"{message}; {seen.note}"
    return f"{seen.serving} of the plane's {seen.wanted} members serve, and {seen.quorum} must: {seen.named}"


def _versions(spec: PlaneSpec) -> Obj:
    return {"kubernetes": spec.version, "etcd": _tag(spec.images.etcd), "bulkhead": _tag(spec.images.bulkhead)}


def _tag(image: str) -> str:
    """The tag of an image, without a digest."""
    return image.partition("@")[0].rpartition(":")[2][:32]
