"""The report on nodes that are dedicated to the tenant. Pure."""

from typing import Final

from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from controller.decide.dedicated import Finding
from controller.tenant.status import Report
from controller.verdict import Verdict

_MAX_NODES: Final = 64


def report(found: Finding | None, *, unseen: bool = False) -> Report:
    """Empty if the nodes were not looked at (`unseen`). Without a claim (None), the condition and the field are removed.

    Missing nodes do not affect Ready: the tenant's API works, and pods can wait for nodes.
    """
    if found is not None:
        return Report(conditions={ConditionType.NODES_DEDICATED: _nodes(found)}, fields=_field(found))
    return Report() if unseen else Report(conditions={ConditionType.NODES_DEDICATED: None}, fields={"dedicated": None})


def _nodes(found: Finding) -> Verdict:
    if found.complete:
        return Verdict("True", Reason.APPLIED, found.message())
    return Verdict("False", Reason.WAITING_FOR_NODES, found.message())


def _field(found: Finding) -> Obj:
    names = list(found.nodes[:_MAX_NODES])
    return {"dedicated": {"nodes": len(found.nodes), "gpus": found.gpus, "names": names, "waiting": len(found.waits)}}
