"""Whether a live object still has what the chart gave it. Pure.

The server adds fields and defaults: only what the chart wrote is compared. Quantities are not compared, because the server
writes them in another way; no rule of the chart consists of any.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

# Kinds whose content is the platform's protection or right. Others must only exist.
COMPARED: Final = frozenset(
    {
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "NetworkPolicy",
        "PriorityLevelConfiguration",
        "FlowSchema",
        "PrometheusRule",
    }
)
_PARTS: Final = ("spec", "rules", "roleRef", "subjects", "aggregationRule")


def difference(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> str:
    """The path of the first field that differs from what the chart wrote; empty if none does."""
    # The rules of an aggregated ClusterRole are the server's.
    parts = [part for part in _PARTS if part != "rules" or not wanted.get("aggregationRule")]
    for part in parts:
        if part in wanted and (path := _differs(wanted[part], live.get(part), part)):
            return path
    return ""


def _differs(wanted: Any, live: Any, path: str) -> str:
    if _empty(wanted):
        return "" if _empty(live) else path
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        return next((found for key in wanted if (found := _differs(wanted[key], live.get(key), f"{path}.{key}"))), "")
    if _is_list(wanted) and _is_list(live):
        if len(wanted) != len(live):
            return path
        pairs = enumerate(zip(wanted, live, strict=True))
        return next((found for number, (one, other) in pairs if (found := _differs(one, other, f"{path}[{number}]"))), "")
    return "" if wanted == live else path


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping | Sequence) and len(value) == 0)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
