"""Two that cordon one virtual node, the host and the tenant, and what the tenant's cordon means for its pods.

`spec.unschedulable` above is the host's cordon or the tenant's. Whose it is stands on the virtual node itself, so that nothing
is forgotten in a crash: with the annotation `bulkhead.dev/cordoned-by: host` it is the host's alone, and goes with it; without
it the tenant wants it too, and it stays. Whatever the tenant writes there, it can deceive nobody but itself.

    host cordons, node open above     -> cordoned, annotated      tenant uncordons below a host's cordon -> cordoned, annotated
    host cordons, tenant has cordoned -> nothing to write         host uncordons                         -> open, if annotated

The host's scheduler knows nothing of a tenant's cordon. So a pod that the cordon would keep away is kept away by node affinity,
which a pod on the host cannot be given later: what it was made with is noted on it (`AVOIDS`).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bulkhead.api import labels as marks
from syncer.translate import metadata, scheduling, schema
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import Obj, TenantView

BY_HOST: Final = "host"
# On host pods: a hash of the nodes that its affinity was made to avoid; never changed afterwards.
AVOIDS: Final = "bulkhead.dev/avoids"
# Each costs the host pod some 70 bytes in each of the affinity's terms.
MOST_AVOIDED: Final = 1000
_TAINT: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_TOLD: Final = 5


class Cordon(NamedTuple):
    """What a virtual node should say."""

    unschedulable: bool
    host_alone: bool

    @property
    def note(self) -> str | None:
        """The value of the annotation."""
        return BY_HOST if self.host_alone else None


def settle(virtual: Obj, *, by_host: bool) -> Cordon:
    """What a virtual node should say that says `virtual` now."""
    held, alone = _unschedulable(virtual), note(virtual) == BY_HOST
    return Cordon(unschedulable=True, host_alone=alone or not held) if by_host else Cordon(held and not alone, host_alone=False)


def by_tenant(virtual: Obj) -> bool:
    """Whether the tenant itself wants a virtual node cordoned."""
    return _unschedulable(virtual) and note(virtual) != BY_HOST


def note(virtual: Obj) -> Any:
    """What the annotation of a virtual node says."""
    return _mapping(_mapping(virtual.get("metadata")).get("annotations")).get(marks.CORDONED_BY)


def avoided(spec: Mapping[str, Any], view: TenantView) -> tuple[str, ...]:
    """The nodes from which the tenant's cordons keep a pod that is not placed yet."""
    if not view.cordoned or schema.text(spec.get("nodeName"), "spec.nodeName", 253):
        return ()
    for toleration in schema.copy(spec.get("tolerations") or [], scheduling.TOLERATIONS, "spec.tolerations"):
        if scheduling.tolerates(toleration, _TAINT):
            return ()
    return tuple(sorted(view.cordoned))


def digest(nodes: tuple[str, ...]) -> str:
    """What `AVOIDS` holds; empty for none."""
    return metadata.digest(",".join(nodes)) if nodes else ""


def digest_of(host_pod: Obj) -> str:
    """What a host pod was made with."""
    return str(_mapping(_mapping(host_pod.get("metadata")).get("annotations")).get(AVOIDS) or "")


def keep_away(terms: list[Obj], nodes: tuple[str, ...]) -> list[Obj]:
    """Required terms of a node affinity, none: no wish, without the nodes."""
    if max(1, len(terms)) * len(nodes) > MOST_AVOIDED:
        raise Untranslatable(
            Reason.TOO_LARGE,
            f"{len(nodes)} nodes are cordoned, and a pod can be kept away from {MOST_AVOIDED} at most, "
            f"fewer where its node affinity has several terms; uncordon some",
            "spec.affinity",
        )
    if not terms:
        return [{"matchFields": _others(nodes)}]
    # A term without requirements matches no node, and must go on doing so.
    return [
        {**term, "matchFields": [*term.get("matchFields", []), *_others(nodes)]} if any(term.values()) else term
        for term in terms
    ]


def _others(nodes: tuple[str, ...]) -> list[Obj]:
    # A field is compared with one value each; unlike the label of the hostname it is the node's name for certain.
    return [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]


def told(host_pod: Obj, view: TenantView) -> str:
    """Words for a pod that finds no node, where cordons of the tenant may be why; empty where they are not."""
    if not digest_of(host_pod) or not view.cordoned:
        return ""
    names = sorted(view.cordoned)
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return f"; cordoned in this cluster: {', '.join(names[:_TOLD])}{more}"


def _unschedulable(node: Obj) -> bool:
    return _mapping(node.get("spec")).get("unschedulable") is True


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
