"""The report on a plane's members: whether one is missing, and what is done about it. Pure."""

from typing import Final

from bulkhead.api.conditions import ConditionType, Reason
from controller.plane.membership import Decision, Standing
from controller.tenant.status import Report
from controller.verdict import Verdict

_SOON_SECONDS: Final = 5.0
_LATER_SECONDS: Final = 15.0


def report(standing: Standing | None, decision: Decision | None, down: str) -> Report:
    """`down` names the pods that do not serve. Nothing is reported of a plane that has only one member."""
    if standing is None or decision is None:
        return Report(conditions={ConditionType.DEGRADED: None})
    if decision.recovering:
        words = f"the plane is recovered from one member: {decision.recovering}"
        return Report(conditions={ConditionType.DEGRADED: Verdict("True", Reason.RECOVERING, words)}, again=_SOON_SECONDS)
    if decision.growing:
        words = f"the plane is on its way from one member to three: {decision.growing}"
        return Report(conditions={ConditionType.DEGRADED: Verdict("True", Reason.GROWING, words)}, again=_SOON_SECONDS)
    if not standing.quorate:
        # Perhaps they elect a leader. PlaneReady says if it lasts; what was reported stays.
        return Report(again=_SOON_SECONDS)
    found = verdict(standing, decision, down)
    busy = decision.step is not None or decision.replacing
    again = _SOON_SECONDS if busy or standing.record.founding else _LATER_SECONDS if found is not None else None
    return Report(conditions={ConditionType.DEGRADED: found}, again=again)


def verdict(standing: Standing, decision: Decision, down: str) -> Verdict | None:
    """The condition Degraded; None if every member serves."""
    if decision.replacing and not standing.record.founding:
        words = f"{decision.replacing} has an empty volume; it is added as a new member, and the others serve meanwhile"
        return Verdict("True", Reason.MEMBER_REPLACED, words)
    if decision.trouble:
        return Verdict("True", Reason.MEMBER_LOST, decision.trouble)
    return Verdict("True", Reason.MEMBERS_DOWN, down) if down else None
