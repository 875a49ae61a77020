"""What is said of nodes that are the tenant's alone. Pure."""

from typing import Final

from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from controller.decide.dedicated import Finding
from controller.tenant.status import Report
from controller.verdict import Verdict

_MOST_NODES: Final = 64


def report(found: Finding | None, *, unseen: bool = False) -> Report:
    """Nothing where they were not looked at (`unseen`); without a claim (None) neither condition nor field is there.

    The tenant's API can be used all the same, and pods may wait for nodes.
    """
    if found is not None:
        return Report(conditions={ConditionType.NODES_DEDICATED: _nodes(found)}, fields=_field(found))
    return Report() if unseen else Report(conditions={ConditionType.NODES_DEDICATED: None}, fields={"dedicated": None})


def _nodes(found: Finding) -> Verdict:
    if found.complete:
        return Verdict("True", Reason.APPLIED, found.message())
    return Verdict("False", Reason.WAITING_FOR_NODES, found.message())


def _field(found: Finding) -> Obj:
    names = list(found.nodes[:_MOST_NODES])
    return {"dedicated": {"nodes": len(found.nodes), "gpus": found.gpus, "names": names, "waiting": len(found.waits)}}
