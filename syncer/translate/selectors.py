"""Label selectors on the host: the tenant's terms under host keys, ANDed with the marks of tenant and virtual namespace.

All of a tenant's pods share one host namespace, and other tenants' pods have namespaces of their own, so the namespace part
of a selector becomes a label term. A selector that is absent selects nothing and stays absent; an empty one selects all of
the scope.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from syncer.translate import metadata, schema
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import TenantView

LABEL_SELECTOR: Final = schema.Struct(
    {
        "matchLabels": schema.TEXT_MAP,
        "matchExpressions": schema.ListOf(
            schema.Struct(
                {
                    "key": schema.Text(317),
                    "operator": schema.OneOf(("In", "NotIn", "Exists", "DoesNotExist")),
                    "values": schema.ListOf(schema.Text(63)),
                }
            )
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What every translated selector is ANDed with."""

    labels: Mapping[str, str]
    expressions: tuple[Obj, ...] = field(default=())


def own_namespace(namespace: str, view: TenantView) -> Scope:
    """The pods of one virtual namespace."""
    return Scope({marks.TENANT: view.tenant, metadata.NAMESPACE_HASH: metadata.namespace_hash(namespace, view)})


def listed_namespaces(namespaces: list[str], view: TenantView) -> Scope:
    """The pods of several virtual namespaces."""
    hashes = sorted({metadata.namespace_hash(namespace, view) for namespace in namespaces})
    listed = {"key": metadata.NAMESPACE_HASH, "operator": "In", "values": hashes}
    return Scope({marks.TENANT: view.tenant}, (listed,))


def selected_namespaces(selector: Any, path: str, view: TenantView) -> Scope:
    """The pods of the virtual namespaces that a namespaceSelector selects; all of the tenant's where it is empty."""
    plain = schema.struct(selector, LABEL_SELECTOR, path)
    labels = {
        metadata.host_namespace_key(key): metadata.label_value(value, path)
        for key, value in plain.get("matchLabels", {}).items()
    }
    expressions = tuple(
        {**term, "key": metadata.host_namespace_key(term.get("key", ""))} for term in plain.get("matchExpressions", [])
    )
    return Scope({marks.TENANT: view.tenant, **labels}, expressions)


def all_namespaces(view: TenantView) -> Scope:
    """All of the tenant's pods."""
    return Scope({marks.TENANT: view.tenant})


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a virtual selector selects virtual labels; one that cannot be read selects everything."""
    terms = selector.get("matchExpressions") or ()
    wanted = selector.get("matchLabels") or {}
    if not isinstance(wanted, Mapping) or not isinstance(terms, (list, tuple)):
        return True
    return all(labels.get(key) == value for key, value in wanted.items()) and all(_holds(term, labels) for term in terms)


def _holds(term: Any, labels: Mapping[str, str]) -> bool:
    if not isinstance(term, Mapping) or not isinstance(term.get("key"), str):
        return True
    held, values = labels.get(term["key"]), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return held is not None and held in values
        case "NotIn":
            return held is None or held not in values
        case "Exists":
            return held is not None
        case "DoesNotExist":
            return held is None
        case _:
            return True


def label_selector(value: Any, path: str, scope: Scope, extra: tuple[Obj, ...] = ()) -> Obj | None:
    """A LabelSelector on the host; `extra` are expressions with virtual keys that join it."""
    if value is None:
        return None
    plain = schema.struct(value, LABEL_SELECTOR, path)
    chosen = host_labels(plain.get("matchLabels", {}), path) | dict(scope.labels)
    terms = [_expression(term, f"{path}.matchExpressions") for term in (*plain.get("matchExpressions", []), *extra)]
    unique: list[Obj] = []
    for term in (*terms, *scope.expressions):
        if term not in unique:
            unique.append(term)
    translated: Obj = {"matchLabels": dict(sorted(chosen.items()))}
    if unique:
        translated["matchExpressions"] = unique
    return translated


def host_labels(plain: Mapping[str, str], path: str) -> dict[str, str]:
    """Equality terms under host keys."""
    return {metadata.host_label_key(key, path): metadata.label_value(value, path) for key, value in plain.items()}


def label_keys(keys: Any, path: str, operator: str, labels: Mapping[str, str], selector: Any) -> tuple[Obj, ...]:
    """Turn matchLabelKeys (In) or mismatchLabelKeys (NotIn) as expressions, less what the plane's API server merged already."""
    if keys is None:
        return ()
    if selector is None:
        raise Untranslatable(Reason.MALFORMED, "needs a labelSelector beside it", path)
    merged = schema.struct(selector, LABEL_SELECTOR, path).get("matchExpressions", [])
    wanted = ({"key": key, "operator": operator, "values": [labels[key]]} for key in schema.texts(keys, path) if key in labels)
    return tuple(term for term in wanted if term not in merged)


def _expression(term: Obj, path: str) -> Obj:
    translated: Obj = {
        "key": metadata.host_label_key(term.get("key", ""), path),
        "operator": schema.copy(term.get("operator", ""), LABEL_SELECTOR_OPERATOR, path),
    }
    if term.get("values"):
        translated["values"] = [metadata.label_value(value, path) for value in term["values"]]
    return translated


LABEL_SELECTOR_OPERATOR: Final = schema.OneOf(("In", "NotIn", "Exists", "DoesNotExist"))
