"""The report on what the host shares with a tenant. Pure."""

from typing import Final

from bulkhead.api.conditions import ConditionType, Reason
from controller.tenant.status import Report
from controller.verdict import Verdict

_ON_THE_WAY: Final = frozenset({Reason.PROVISIONING, Reason.PLANE_UNREACHABLE})


def report(verdict: Verdict | None, *, new: bool = False) -> Report:
    """None: the host shares nothing with the tenant. A `new` tenant is Ready once its shares no longer are on their way.

    A pod gets the Secrets to pull images with when it is created, so the first pod would never have them. What is wrong with a
    share keeps no tenant from being Ready.
    """
    awaited = new and verdict is not None and verdict.reason in _ON_THE_WAY
    conditions = {ConditionType.SHARES_APPLIED: verdict}
    return Report(conditions=conditions, needed=(ConditionType.SHARES_APPLIED,) if awaited else ())
