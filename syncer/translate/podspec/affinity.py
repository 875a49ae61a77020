"""Affinity and topology spread on the host, every selector scoped to the tenant's own pods.

Without the scope a tenant's anti-affinity would keep other tenants off a node, and its affinity would find their pods. The
host has one namespace per tenant, so `namespaces` and `namespaceSelector` become label terms and are left out themselves.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from syncer.translate import schema, selectors
from syncer.translate.metadata import Identity
from syncer.translate.podspec import placement
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import ListOf, Number, OneOf, Struct, Text, Translated
from syncer.translate.view import TenantView

_KEY: Final = Text(317)
_WEIGHT: Final = Number(1, 100)
_TERM_EXPRESSIONS: Final = ListOf(
    Struct(
        {
            "key": _KEY,
            "operator": OneOf(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
            "values": ListOf(Text(253)),
        }
    )
)
_NODE_TERM: Final = Struct({"matchExpressions": _TERM_EXPRESSIONS, "matchFields": _TERM_EXPRESSIONS})
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_AFFINITY: Final = Struct(
    {
        _REQUIRED: Struct({"nodeSelectorTerms": ListOf(_NODE_TERM)}),
        _PREFERRED: ListOf(Struct({"weight": _WEIGHT, "preference": _NODE_TERM})),
    }
)
POD_TERM: Final = Struct(
    {
        "labelSelector": Translated("selectors"),
        "namespaces": Translated("_scope"),
        "namespaceSelector": Translated("_scope"),
        "matchLabelKeys": Translated("_pod_term"),
        "mismatchLabelKeys": Translated("_pod_term"),
        "topologyKey": _KEY,
    }
)
SPREAD: Final = Struct(
    {
        "maxSkew": Number(1, (1 << 31) - 1),
        "topologyKey": _KEY,
        "whenUnsatisfiable": OneOf(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": Translated("selectors"),
        "matchLabelKeys": Translated("spread"),
        "minDomains": Number(1, (1 << 31) - 1),
        "nodeAffinityPolicy": OneOf(("Honor", "Ignore")),
        "nodeTaintsPolicy": OneOf(("Honor", "Ignore")),
    }
)
_POD_AFFINITY: Final = Struct({_REQUIRED: Translated("_pod_affinity"), _PREFERRED: Translated("_pod_affinity")})
_WEIGHTED: Final = Struct({"weight": _WEIGHT, "podAffinityTerm": Translated("_pod_affinity")})
AFFINITY: Final = Struct(
    {
        "nodeAffinity": NODE_AFFINITY,
        "podAffinity": Translated("_pod_affinity"),
        "podAntiAffinity": Translated("_pod_affinity"),
    }
)


def affinity(
    spec: Mapping[str, Any],
    labels: Mapping[str, str],
    identity: Identity,
    view: TenantView,
    *,
    node: str = "",
    away: tuple[str, ...] = (),
) -> tuple[Obj, str]:
    """`affinity` on the host, and the hash of what the tenant's own marks on nodes came to in it (`placement`).

    `node` is the one node that the pod must run on, or empty, `away` those that it must not.
    """
    own = schema.mapping(spec.get("affinity"), "spec.affinity")
    translated = schema.struct(own, AFFINITY, "spec.affinity")
    for key in ("podAffinity", "podAntiAffinity"):
        if own.get(key) is not None:
            translated[key] = _pod_affinity(own[key], f"spec.affinity.{key}", labels, identity, view)
    made_for = _by_marks(translated, spec, view, away)
    if node:
        _pin(translated, node)
    return translated, made_for


def spread(spec: Mapping[str, Any], labels: Mapping[str, str], identity: Identity, view: TenantView) -> list[Obj]:
    """`topologySpreadConstraints` on the host; matchLabelKeys are merged, for newer hosts refuse both together."""
    scope = selectors.own_namespace(identity.namespace, view)
    found: list[Obj] = []
    for at, constraint in schema.items(spec.get("topologySpreadConstraints"), "spec.topologySpreadConstraints"):
        translated = schema.struct(constraint, SPREAD, at)
        selector = constraint.get("labelSelector")
        extra = selectors.label_keys(constraint.get("matchLabelKeys"), f"{at}.matchLabelKeys", "In", labels, selector)
        scoped = selectors.label_selector(selector, f"{at}.labelSelector", scope, extra)
        found.append(translated if scoped is None else translated | {"labelSelector": scoped})
    return found


def _pod_affinity(value: Any, path: str, labels: Mapping[str, str], identity: Identity, view: TenantView) -> Obj:
    own = schema.mapping(value, path)
    schema.struct(own, _POD_AFFINITY, path)
    translated: Obj = {}
    if own.get(_REQUIRED) is not None:
        terms = schema.items(own[_REQUIRED], f"{path}.{_REQUIRED}")
        translated[_REQUIRED] = [_pod_term(term, at, labels, identity, view) for at, term in terms]
    if own.get(_PREFERRED) is not None:
        translated[_PREFERRED] = []
        for at, weighted in schema.items(own[_PREFERRED], f"{path}.{_PREFERRED}"):
            term = schema.mapping(weighted.get("podAffinityTerm"), f"{at}.podAffinityTerm")
            host_term = _pod_term(term, f"{at}.podAffinityTerm", labels, identity, view)
            translated[_PREFERRED].append(schema.struct(weighted, _WEIGHTED, at) | {"podAffinityTerm": host_term})
    return translated


def _pod_term(term: Mapping[str, Any], path: str, labels: Mapping[str, str], identity: Identity, view: TenantView) -> Obj:
    translated = schema.struct(term, POD_TERM, path)
    selector = term.get("labelSelector")
    extra = (
        *selectors.label_keys(term.get("matchLabelKeys"), f"{path}.matchLabelKeys", "In", labels, selector),
        *selectors.label_keys(term.get("mismatchLabelKeys"), f"{path}.mismatchLabelKeys", "NotIn", labels, selector),
    )
    scoped = selectors.label_selector(selector, f"{path}.labelSelector", _scope(term, path, identity, view), extra)
    return translated if scoped is None else translated | {"labelSelector": scoped}


def _scope(term: Mapping[str, Any], path: str, identity: Identity, view: TenantView) -> selectors.Scope:
    listed = schema.texts(term.get("namespaces"), f"{path}.namespaces")
    selector = term.get("namespaceSelector")
    if selector is None:
        return selectors.listed_namespaces(listed, view) if listed else selectors.own_namespace(identity.namespace, view)
    if listed and selector != {}:
        raise Untranslatable(
            Reason.NOT_SUPPORTED, "namespaces and namespaceSelector cannot be combined; use one", f"{path}.namespaceSelector"
        )
    return selectors.selected_namespaces(selector, f"{path}.namespaceSelector", view)


def _by_marks(translated: Obj, spec: Mapping[str, Any], view: TenantView, away: tuple[str, ...]) -> str:
    """Work the tenant's own cordons, taints and labels of nodes into a node affinity."""
    selector = schema.text_map(spec.get("nodeSelector"), "spec.nodeSelector")
    own = translated.get("nodeAffinity") or {}
    terms = (own.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    found = placement.required(terms, selector, away, view)
    if found.terms != terms:
        translated.setdefault("nodeAffinity", {})[_REQUIRED] = {"nodeSelectorTerms": found.terms}
    if own.get(_PREFERRED):
        translated["nodeAffinity"][_PREFERRED] = placement.preferred(own[_PREFERRED], view)
    return found.digest


def _pin(translated: Obj, node: str) -> None:
    """AND the node into every required term: terms are alternatives of each other."""
    required = translated.setdefault("nodeAffinity", {}).setdefault(_REQUIRED, {})
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*term.get("matchFields", []), {"key": "metadata.name", "operator": "In", "values": [node]}]}
        for term in terms
    ]
