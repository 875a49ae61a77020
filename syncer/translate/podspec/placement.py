"""Where a tenant's own marks on its virtual nodes, cordons, taints and labels, leave a pod to go on the host.

The host's scheduler knows nothing of them. So they are worked into the pod's node affinity, by the names of nodes:

    cordoned, or tainted without a toleration   -> in every required term: `metadata.name NotIn` that node
    a selector that asks for a label of its own -> one term for each node that has it: `metadata.name In` that node

By name, and by those that match rather than those that do not, so that a node that comes later is not taken for one with the
label. Only keys that are on a node of the tenant now count; for whatever else a selector asks, the host decides.
The affinity of an existing pod cannot be changed: an annotation says what it was made with (`MADE_FOR`), and while the pod has
no node yet it is recreated when the marks change. While a pod has scheduling gates its tenant may change its node affinity: the
host pod of a gated pod says with which one it was made (`ASKED_WITH`), and is recreated for another.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings
from syncer.translate import metadata, schema
from syncer.translate.podspec import tolerations
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import TenantView

# On host pods: a hash of what the marks came to in its affinity; never changed afterwards.
MADE_FOR: Final = "bulkhead.dev/avoids"
# On host pods that were made with gates of their tenant: a hash of the node affinity that the virtual pod had; never changed.
ASKED_WITH: Final = "bulkhead.dev/node-affinity"
# Each name costs the host pod some 70 bytes.
MOST_NAMES: Final = 1000
_CORDON: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_KEEPING: Final = frozenset({"NoSchedule", "NoExecute"})
_NAME: Final = "metadata.name"
_TOLD: Final = 5


class Required(NamedTuple):
    """Required terms of a node affinity, empty for no wish, and the hash of what the tenant's marks came to in them."""

    terms: list[Obj]
    digest: str


def avoided(spec: Mapping[str, Any], view: TenantView) -> tuple[str, ...]:
    """The nodes from which the tenant's cordons and taints keep a pod that is not placed yet."""
    if not (view.cordoned or view.node_taints) or schema.text(spec.get("nodeName"), "spec.nodeName", 253):
        return ()
    own = tolerations.asked(spec)

    def endures(taint: Mapping[str, Any]) -> bool:
        return any(tolerations.tolerates(toleration, taint) for toleration in own)

    away = set() if endures(_CORDON) else set(view.cordoned)
    away |= {
        name
        for name, taints in view.node_taints.items()
        if any(taint.get("effect") in _KEEPING and not endures(taint) for taint in taints)
    }
    return tuple(sorted(away))


def required(terms: Sequence[Obj], selector: Mapping[str, str], away: Collection[str], view: TenantView) -> Required:
    """The required terms for a pod with these, with a node selector and with nodes to keep away from.

    `selector` is the pod's own, of which only the keys of the tenant's own labels count here.
    """
    keys = view.own_node_labels
    common = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(selector.items()) if key in keys]
    found: list[Obj] = []
    made_for: list[str] = [",".join(sorted(away))]
    # A term without requirements matches no node, and must go on doing so.
    alternatives = [(term, [*_expressions(term, keys), *(common if any(term.values()) else ())]) for term in terms]
    for term, asked in alternatives or ([({}, common)] if common else []):
        if not asked:
            found.append(_kept_away(term, away) if any(term.values()) else term)
            continue
        names = _matching(asked, view)
        made_for.append(",".join(names))
        found += [_at(_without(term, keys), name) for name in _reachable(term, names) if name not in away]
    if not terms and not common and away:
        found = [_kept_away({}, away)]
    if view.judges:
        _check_size(found)
    # Terms of which none is left match nothing, as opposed to no terms at all.
    return Required(found or ([{}] if terms or common else []), digest(made_for))


def preferred(weighted: Iterable[Obj], view: TenantView) -> list[Obj]:
    """Preferred terms: a wish for labels of the tenant's own is one for each node that has them."""
    found: list[Obj] = []
    keys = view.own_node_labels
    for weighted_term in weighted:
        term = weighted_term.get("preference") or {}
        asked = _expressions(term, keys)
        if not asked:
            found.append(weighted_term)
            continue
        names = _reachable(term, _matching(asked, view))
        found += [{**weighted_term, "preference": _at(_without(term, keys), name)} for name in names]
    return found[:MOST_NAMES]


def digest(made_for: Sequence[str]) -> str:
    """What `MADE_FOR` holds: nodes to keep away from, then for each term those that it chose; empty for none of both."""
    return metadata.digest(";".join(made_for)) if made_for[0] or len(made_for) > 1 else ""


def digest_of(host_pod: Obj) -> str:
    """What a host pod was made with."""
    return str(mapping(mapping(host_pod.get("metadata")).get("annotations")).get(MADE_FOR) or "")


def affinity_digest(virtual: Mapping[str, Any]) -> str:
    """What `ASKED_WITH` holds: a hash of the node affinity that a virtual pod asks for."""
    asked = mapping(mapping(mapping(virtual.get("spec")).get("affinity")).get("nodeAffinity"))
    return metadata.digest(json.dumps(asked, sort_keys=True, separators=(",", ":")))


def asks_otherwise(virtual: Obj, host_pod: Obj) -> bool:
    """Whether a virtual pod asks for another node affinity than it did when its host pod was made, behind a gate."""
    noted = mapping(mapping(host_pod.get("metadata")).get("annotations")).get(ASKED_WITH)
    return noted is not None and noted != affinity_digest(virtual)


def in_another_pool(desired: Obj, host_pod: Obj) -> bool:
    """Whether a host pod asks for other nodes than it would be made for: the pool was changed, or is dedicated no more."""
    wanted, asked = (_selector(pod) for pod in (desired, host_pod))
    return any(asked.get(key) != value for key, value in wanted.items()) or (
        marks.TENANT in asked and marks.TENANT not in wanted
    )


def _selector(host_pod: Obj) -> Mapping[str, Any]:
    return mapping(mapping(host_pod.get("spec")).get("nodeSelector"))


def is_pinned(host_pod: Obj, node: str) -> bool:
    """Whether the host can place a host pod on this node and on no other."""
    affinity = mapping(mapping(mapping(host_pod.get("spec")).get("affinity")).get("nodeAffinity"))
    terms = mappings(mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution")).get("nodeSelectorTerms"))
    return bool(terms) and all(_names_only(term, node) for term in terms)


def _names_only(term: Mapping[str, Any], node: str) -> bool:
    return any(
        _is(match_field, "In") and match_field.get("values") == [node] for match_field in mappings(term.get("matchFields"))
    )


def explanation(host_pod: Obj, view: TenantView) -> str:
    """Words for a pod that finds no node, where the tenant's own marks may be why; empty where they are not."""
    if not digest_of(host_pod):
        return ""
    tainted = (name for name, taints in view.node_taints.items() if any(taint.get("effect") in _KEEPING for taint in taints))
    return _names("cordoned", view.cordoned) + _names("tainted", tainted)


def _names(what: str, nodes: Iterable[str]) -> str:
    names = sorted(nodes)
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return f"; {what} in this cluster: {', '.join(names[:_TOLD])}{more}" if names else ""


def _expressions(term: Mapping[str, Any], keys: Collection[str]) -> list[Obj]:
    return [match_expression for match_expression in term.get("matchExpressions") or () if match_expression.get("key") in keys]


def _without(term: Mapping[str, Any], keys: Collection[str]) -> Obj:
    """The part of a term that the host evaluates."""
    left = [
        match_expression for match_expression in term.get("matchExpressions") or () if match_expression.get("key") not in keys
    ]
    fields = list(term.get("matchFields") or ())
    return ({"matchExpressions": left} if left else {}) | ({"matchFields": fields} if fields else {})


def _at(term: Obj, name: str) -> Obj:
    return {**term, "matchFields": [*term.get("matchFields", ()), {"key": _NAME, "operator": "In", "values": [name]}]}


def _kept_away(term: Obj, away: Collection[str]) -> Obj:
    # A field is compared with one value each; unlike the label of the hostname it is the node's name for certain.
    others = [{"key": _NAME, "operator": "NotIn", "values": [name]} for name in sorted(away)]
    return {**term, "matchFields": [*term.get("matchFields", ()), *others]} if others else term


def _matching(asked: Sequence[Obj], view: TenantView) -> list[str]:
    """The nodes whose labels of the tenant's own are as asked."""
    return [name for name in sorted(view.nodes) if all(_matches(term, view.node_labels.get(name, {})) for term in asked)]


def _reachable(term: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    """Those that the term's own fields do not exclude: a DaemonSet's pod names its one node."""
    only = [match_field.get("values") or () for match_field in term.get("matchFields") or () if _is(match_field, "In")]
    never = [match_field.get("values") or () for match_field in term.get("matchFields") or () if _is(match_field, "NotIn")]
    return (name for name in names if all(name in choice for choice in only) and not any(name in choice for choice in never))


def _is(field: Mapping[str, Any], operator: str) -> bool:
    return field.get("key") == _NAME and field.get("operator") == operator


def _matches(asked: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """One requirement of a node selector, as the scheduler reads it."""
    operator, value = asked.get("operator"), labels.get(asked["key"])
    values: Sequence[str] = asked.get("values") or ()
    if operator in {"NotIn", "DoesNotExist"}:
        return value is None or (operator == "NotIn" and value not in values)
    if value is None or operator == "Exists":
        return value is not None
    if operator == "In":
        return value in values
    return len(values) == 1 and _further(str(operator), value, values[0])


def _further(operator: str, value: str, bound: str) -> bool:
    try:
        return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
    except ValueError:
        return False


def _check_size(terms: Sequence[Obj]) -> None:
    count = sum(len(term.get("matchFields") or ()) for term in terms)
    if count > MOST_NAMES:
        raise Untranslatable(
            Reason.TOO_LARGE,
            f"with the cordons, taints and labels of this cluster's nodes the pod's node affinity would name {count} nodes, "
            f"and {MOST_NAMES} are the most; uncordon some, or ask for fewer in its affinity",
            "spec.affinity",
        )
