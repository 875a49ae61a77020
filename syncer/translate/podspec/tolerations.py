"""Which taints of host nodes a pod tolerates: of those that it asks for, what its tenant's class allows.

A taint reserves a node for some pods. So a toleration is copied as far as it lies inside one that the class allows:

    of one taint, allowed                -> copied
    wider than what is allowed           -> becomes what is allowed: `operator: Exists` without a key, which DaemonSets set by
                                            habit, is one toleration for each taint that the tenant may tolerate
    nothing of it allowed                -> dropped

Tolerations of the tenant's own taints (`nodemarks`) need not reach the host, which does not know them. `narrowed` describes
what was dropped, for the pod's status.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from syncer.translate import schema
from syncer.translate.reasons import Untranslatable
from syncer.translate.schema import ListOf, Number, OneOf, Struct, Text
from syncer.translate.view import TenantView

SCHEMA: Final = ListOf(
    Struct(
        {
            "key": Text(317),
            "operator": OneOf(("", "Equal", "Exists", "Lt", "Gt")),
            "value": Text(63),
            "effect": OneOf(("", "NoSchedule", "PreferNoSchedule", "NoExecute")),
            "tolerationSeconds": Number(),
        }
    )
)
NARROWED: Final = "TolerationsNarrowed"  # the reason of the event
_FIELD: Final = "spec.tolerations"
# The control plane sets these taints on nodes that fail; tolerating them for a while is every pod's right.
_EVERYBODYS: Final[tuple[Obj, ...]] = tuple(
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists"} for name in ("not-ready", "unreachable")
)
# DaemonSets ask for these beside them. A node that its admin cordons must run empty, and one under pressure must recover: their
# pods wait, as they always did, and no message says so.
_HOSTS_ALONE: Final = frozenset(
    f"node.kubernetes.io/{name}"
    for name in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable", "network-unavailable")
)
_TOLD: Final = 5


def of_pod(spec: Mapping[str, Any], view: TenantView) -> list[Obj]:
    """The enforced tolerations, then the tenant's as far as they are allowed; no duplicates."""
    found = [entry.to_obj() for entry in view.enforced_tolerations]
    for toleration in asked(spec):
        found += [allowed for allowed in _allowed_part(toleration, view) if allowed not in found]
    return found


def narrowed(spec: Mapping[str, Any], view: TenantView) -> str:
    """Which of a pod's tolerations were dropped, in the tenant's words; empty if none was."""
    try:
        wanted = asked(spec)
    except Untranslatable:
        return ""
    ours = _keys_of_own_taints(view) | _HOSTS_ALONE
    lost = [toleration for toleration in wanted if toleration.get("key") not in ours and not _passes(toleration, view)]
    if not lost:
        return ""
    names = list(dict.fromkeys(_words(toleration) for toleration in lost))
    allowed = [_words(toleration) for toleration in (*(entry.to_obj() for entry in _of_class(view)), *_EVERYBODYS)]
    return f"{_FIELD}: {_few(names)} not tolerated as asked: this tenant's pods may tolerate {_few(allowed)}"


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a toleration is one of the taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key", "") in ("", taint.get("key"))
    return bool(toleration.get("key") == taint.get("key") and toleration.get("value", "") == (taint.get("value") or ""))


def asked(spec: Mapping[str, Any]) -> list[Obj]:
    """What the pod itself asks for."""
    found: list[Obj] = schema.copy(spec.get("tolerations") or [], SCHEMA, _FIELD)
    return found


def _of_class(view: TenantView) -> tuple[Any, ...]:
    return (*view.enforced_tolerations, *view.allowed_tolerations)


def _allowed_part(toleration: Obj, view: TenantView) -> list[Obj]:
    """What a toleration and each that is allowed have in common."""
    limits = (*(entry.to_obj() for entry in _of_class(view)), *_EVERYBODYS)
    return [part for limit in limits if (part := _common(toleration, limit)) is not None]


def _passes(toleration: Obj, view: TenantView) -> bool:
    plain = _plain(toleration)
    return any(_plain(part) == plain for part in _allowed_part(toleration, view))


def _common(one: Obj, limit: Obj) -> Obj | None:
    """The toleration of the taints that both tolerate; None where there are none."""
    key, effect = _both(one, limit, "key"), _both(one, limit, "effect")
    if key is None or effect is None or not (one.get("key") or one.get("operator") == "Exists"):
        return None
    wide, bounded = one.get("operator") == "Exists", limit.get("operator") != "Exists"
    compared = limit if wide else one
    if not wide and bounded and (_operator(one) != "Equal" or one.get("value", "") != limit.get("value", "")):
        return None
    found: Obj = {"key": key, "operator": compared.get("operator", ""), "value": compared.get("value", ""), "effect": effect}
    seconds = [
        toleration["tolerationSeconds"] for toleration in (one, limit) if toleration.get("tolerationSeconds") is not None
    ]
    if seconds and effect == "NoExecute":
        found["tolerationSeconds"] = min(seconds)
    return {field: value for field, value in found.items() if value != ""}


def _both(one: Obj, other: Obj, field: str) -> str | None:
    """The narrower of two values of which an empty one means all; None where they exclude each other."""
    mine, theirs = str(one.get(field) or ""), str(other.get(field) or "")
    return None if mine and theirs and mine != theirs else mine or theirs


def _operator(toleration: Obj) -> str:
    return str(toleration.get("operator") or "Equal")


def _plain(toleration: Obj) -> tuple[Any, ...]:
    return (
        toleration.get("key", ""),
        _operator(toleration),
        toleration.get("value", ""),
        toleration.get("effect", ""),
        toleration.get("tolerationSeconds"),
    )


def _keys_of_own_taints(view: TenantView) -> frozenset[str]:
    return frozenset(str(taint.get("key")) for taints in view.node_taints.values() for taint in taints)


def _words(toleration: Obj) -> str:
    """A toleration in short: `key=value:effect`."""
    key, value, effect = toleration.get("key") or "every taint", toleration.get("value"), toleration.get("effect")
    return key + (f"={value}" if value else "") + (f":{effect}" if effect else "")


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return ", ".join(name[:128] for name in names[:_TOLD]) + more
