"""Whether a tenant's audit trail reaches the receiver of its class, in the words of the status. Pure."""

from typing import Final

from bulkhead.api.conditions import ConditionType, Reason
from controller.plane import network
from controller.plane.auditlosses import Losses
from controller.plane.spec import PlaneSpec
from controller.plane.trail import Receiver
from controller.tenant.status import Report
from controller.verdict import Verdict

_WHY: Final = {
    "buffered": "did not fit into its buffer, because the receiver is too slow or away",
    "truncate": "were too large even without their bodies",
    "webhook": "were not accepted in 5 attempts",
}


def report(spec: PlaneSpec, losses: Losses | None) -> Report:
    """`losses` is None if the plane was not asked yet."""
    return Report(conditions={ConditionType.AUDIT_DELIVERED: verdict(spec, losses)})


def verdict(spec: PlaneSpec, losses: Losses | None) -> Verdict | None:
    """The verdict on the trail; None if the class names no receiver."""
    receiver = spec.audit.receiver if spec.audit is not None else None
    if receiver is None:
        return None
    if unusable := _unusable(spec, receiver):
        return Verdict("False", Reason.RECEIVER_UNUSABLE, unusable)
    return _delivered(receiver, losses)


def _unusable(spec: PlaneSpec, receiver: Receiver) -> str:
    if closed := network.receiver_closed(spec):
        return f"class: spec.audit.webhook: {closed}; no event is sent"
    now = "the previous credential is used" if receiver.credential else "events are sent without one"
    return f"{receiver.trouble}; until then {now}" if receiver.trouble else ""


def _delivered(receiver: Receiver, losses: Losses | None) -> Verdict:
    if losses is None:
        return Verdict("Unknown", Reason.WAITING_FOR_PLANE, "the plane has not reported its losses yet")
    if losses.unread:
        return Verdict("Unknown", Reason.PLANE_UNREADABLE, losses.unread)
    if not losses.count:
        return Verdict("True", Reason.READY, f"no event was lost on the way to {receiver.host}")
    why = ", ".join(f"{number} {_WHY[cause]}" for cause, number in losses.total if number)
    lost = f"lost since the API server started: {why}"
    if losses.growing:
        hint = "the plane runs on; check the receiver and its answers (log of container kube-apiserver)"
        return Verdict("False", Reason.EVENTS_LOST, f"{lost}; {hint}")
    return Verdict("True", Reason.READY, f"no event was lost recently on the way to {receiver.host}; {lost}")
