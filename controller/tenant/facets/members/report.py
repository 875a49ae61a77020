"""The report on a plane's members: whether one is missing, and what is done about it. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mappings, text
from controller.plane.membership import Decision, Standing
from controller.tenant.status import Report
from controller.verdict import Verdict

_MAX_MESSAGE: Final = 200
_SOON_SECONDS: Final = 5.0
_LATER_SECONDS: Final = 15.0


def report(standing: Standing | None, decision: Decision | None, down: str, gone: str = "") -> Report:
    """`down` names the pods that do not serve, `gone` those whose node is away. Nothing is reported of a plane of one."""
    if standing is None or decision is None:
        return Report(conditions={ConditionType.DEGRADED: None})
    way = _on_its_way(standing, decision)
    if way is not None:
        return Report(conditions={ConditionType.DEGRADED: way}, again=_SOON_SECONDS)
    if not standing.quorate:
        # Perhaps they elect a leader. PlaneReady says if it lasts; what was reported stays.
        return Report(again=_SOON_SECONDS)
    found = verdict(standing, decision, down, gone)
    busy = decision.step is not None or decision.replacing or decision.moving or decision.rolling
    again = _SOON_SECONDS if busy or standing.record.founding else _LATER_SECONDS if found is not None else None
    return Report(conditions={ConditionType.DEGRADED: found}, again=again)


def _on_its_way(standing: Standing, decision: Decision) -> Verdict | None:
    """What is being done about the plane as a whole; None if nothing is."""
    if decision.recovering:
        return Verdict("True", Reason.RECOVERING, f"the plane is recovered from one member: {decision.recovering}")
    if decision.corrupt:
        return Verdict("True", Reason.CORRUPT, decision.corrupt)
    if decision.growing:
        return Verdict("True", Reason.GROWING, f"the plane is on its way from one member to three: {decision.growing}")
    if decision.rolling and not standing.quorate:
        return Verdict("True", Reason.MEMBERS_DOWN, f"too few members answer; {decision.rolling}")
    return None


def spread(pods: Iterable[Obj]) -> Verdict | None:
    """The condition MembersSpread of the plane's pods; None while they are not placed for another reason."""
    nodes: dict[str, list[str]] = {}
    for pod in pods:
        name, node = str(pod["metadata"]["name"]), text((pod.get("spec") or {}).get("nodeName"))
        if node:
            nodes.setdefault(node, []).append(name)
        elif words := _unplaced(pod):
            return Verdict("False", Reason.WAITING_FOR_NODES, f"{name} waits for a node: {words[:_MAX_MESSAGE]}")
    for node, members in sorted(nodes.items()):
        if len(members) > 1:
            words = f"{' and '.join(sorted(members))} are both on node {node}, so its failure may stop the plane"
            remedy = "give the host another node for planes, and delete one of these pods"
            return Verdict("False", Reason.SAME_NODE, f"{words}; {remedy}")
    return Verdict("True", Reason.READY, "each member is on a node of its own") if nodes else None


def _unplaced(pod: Obj) -> str:
    """Why the host's scheduler found no node for a pod; empty if it did not say so."""
    found = mappings((pod.get("status") or {}).get("conditions"))
    return next((text(item.get("message")) for item in found if _is_unschedulable(item)), "")


def _is_unschedulable(condition: Mapping[str, Any]) -> bool:
    return condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable"


def verdict(standing: Standing, decision: Decision, down: str, gone: str) -> Verdict | None:
    """The condition Degraded; None if every member serves."""
    if decision.replacing and not standing.record.founding:
        words = f"{decision.replacing} has an empty volume; it is added as a new member, and the others serve meanwhile"
        # While its node is silent, nothing is given up by itself.
        waits = f"{words}; {gone}" if gone and decision.step is None else words
        return Verdict("True", Reason.MEMBER_REPLACED, waits)
    if decision.moving:
        return Verdict("True", Reason.MEMBER_REPLACED, decision.moving)
    if decision.trouble:
        return Verdict("True", Reason.MEMBER_LOST, decision.trouble)
    return Verdict("True", Reason.MEMBERS_DOWN, down) if down else None
