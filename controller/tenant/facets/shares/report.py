"""The report on what the host shares with a tenant. Pure."""

from bulkhead.api.conditions import ConditionType
from controller.tenant.status import Report
from controller.verdict import Verdict


def report(verdict: Verdict | None) -> Report:
    """None: the host shares nothing with the tenant."""
    return Report(conditions={ConditionType.SHARES_APPLIED: verdict})
