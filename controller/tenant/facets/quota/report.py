"""The report on a tenant's quota: whether the host enforces it, and what is used, borrowed and lent. Pure."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from bulkhead.api import names
from bulkhead.api.accelerators import count
from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.ledger import line_name, read_standing
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import shown
from controller.plane import quota
from controller.plane.spec import PlaneSpec
from controller.tenant.status import Report
from controller.verdict import Verdict

_MAX_LINES: Final = 128
_STANDING: Final = ("nominal", "ceiling", "used", "borrowed", "lent")
Lines: TypeAlias = Mapping[tuple[str, str], Mapping[str, int]]


def report(spec: PlaneSpec, quotas: Mapping[str, Obj]) -> Report:
    """`quotas` are the tenant's ResourceQuotas on the host, by name."""
    return Report(
        conditions={ConditionType.QUOTA_APPLIED: _applied(spec, quotas)},
        needed=(ConditionType.QUOTA_APPLIED,),
        fields=_fields(spec, quotas),
    )


def _fields(spec: PlaneSpec, quotas: Mapping[str, Obj]) -> Obj:
    limit = sum(spec.quota.allotted[name].count for name in spec.quota.gpu_resources)
    standing = read_standing(quotas.get(names.POD_QUOTA, {}).get("metadata", {}).get("annotations") or {})
    lines = standing if spec.ledger.given else {}
    total = _held_gpus(spec, quotas, lines)
    return {
        "gpus": {"used": total, "limit": limit, "summary": f"{total}/{limit}", **_traded(spec, lines)},
        # None deletes a field in a merge patch.
        "quota": _standing(lines) or None,
    }


def _held_gpus(spec: PlaneSpec, quotas: Mapping[str, Obj], lines: Lines) -> int:
    """GPUs that the tenant's running pods hold. The host's quota also counts pods that still wait for the ledger."""
    used = (quotas.get(names.POD_QUOTA, {}).get("status") or {}).get("used") or {}
    judged = {resource for _, resource in lines}
    return sum(
        sum(counts["used"] for (_, resource), counts in lines.items() if resource == name)
        if name in judged
        else count(used.get(f"requests.{name}"))
        for name in spec.quota.gpu_resources
    )


def _traded(spec: PlaneSpec, lines: Lines) -> dict[str, int | None]:
    """How many GPUs the tenant borrows and lends, if it has a cohort."""
    found = [counts for (_, resource), counts in lines.items() if resource in spec.quota.gpu_resources]
    return {part: sum(counts[part] for counts in found) for part in ("borrowed", "lent")} if found else {}


def _standing(lines: Lines) -> list[Obj]:
    return [
        {"name": line_name(*line)} | {part: shown(line[1], counts[part]) for part in _STANDING}
        for line, counts in sorted(lines.items(), key=lambda item: line_name(*item[0]))[:_MAX_LINES]
    ]


def _applied(spec: PlaneSpec, quotas: Mapping[str, Obj]) -> Verdict:
    wanted = {str(wanted_quota["metadata"]["name"]) for wanted_quota in quota.resource_quotas(spec)}
    if missing := sorted(wanted - quotas.keys()):
        return Verdict("False", Reason.PROVISIONING, f"being created: ResourceQuota {', '.join(missing)}")
    for name in sorted(wanted):
        there = quotas[name]
        if (there.get("status") or {}).get("hard") != (there.get("spec") or {}).get("hard"):
            return Verdict("False", Reason.PROVISIONING, f"the host has not accepted ResourceQuota {name} yet")
    return Verdict("True", Reason.APPLIED, "the host enforces the quota")
