"""The report on a tenant's Slurm cluster. Pure."""

from bulkhead.api.conditions import ConditionType
from bulkhead.api.objects import Obj
from controller.slurm.decide.status import SlurmPart
from controller.tenant.status import Report


def report(tenant: Obj, part: SlurmPart | None, *, unseen: bool = False) -> Report:
    """Empty if the cluster was not looked at (`unseen`). Without a cluster (None), the condition and the field are removed.

    `tenant` has the previous status. None deletes a field in a merge patch.
    """
    if part is not None:
        before = (tenant.get("status") or {}).get("slurm")
        return Report(
            conditions={ConditionType.SLURM_READY: part.verdict},
            needed=(ConditionType.SLURM_READY,) if part.essential else (),
            fields={"slurm": dict(part.summary) if part.summary is not None else before},
        )
    return Report() if unseen else Report(conditions={ConditionType.SLURM_READY: None}, fields={"slurm": None})
