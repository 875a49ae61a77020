"""A tenant's NetworkPolicy on the host, and what makes it count there.

All of a tenant's pods share one host namespace, where the platform's own policies let them reach each other. Policies only
ever add up, so a tenant's policy isolates nothing as long as those hold. `isolation` therefore labels the pods that a policy
of the tenant selects; the platform's policies leave labelled pods out, and what the tenant's policies allow is what remains.

Peers are the tenant's own pods and nothing else: an empty peer list means "everyone" in the plane and "every pod of this
tenant" on the host, and address blocks are left out, because no rule of a tenant may open what the platform closed. Leaving out
only ever narrows: a rule whose peers are all left out is left out whole. The tenant is warned by an event (`remarks`).

The enforcer of policies works for all tenants, so what one of them writes is bounded: each policy, and all of them together.
What is beyond is refused, and the pods that it selects are isolated all the same: too much opens nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from syncer.translate import metadata, schema, selectors
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import INT_OR_TEXT, PORT, ListOf, OneOf, Struct, Translated
from syncer.translate.view import Isolating, TenantView

KIND: Final = "NetworkPolicy"
INGRESS_ISOLATED: Final = "bulkhead.dev/ingress-isolated"
EGRESS_ISOLATED: Final = "bulkhead.dev/egress-isolated"
_TYPES: Final = ("Ingress", "Egress")
_RULES: Final = 500
# Names, values, ports and address ranges: what a policy says, whatever it says it with.
MOST_TERMS: Final = 2000
MOST_TERMS_OF_TENANT: Final = 20_000

# Every field of a policy's spec of Kubernetes 1.36.
POLICY_SPEC: Final = Struct(
    {
        "podSelector": Translated("selectors"),
        "ingress": Translated("_rules"),
        "egress": Translated("_rules"),
        "policyTypes": ListOf(OneOf(_TYPES), 2),
    }
)
_PORTS: Final = ListOf(Struct({"protocol": OneOf(("", "TCP", "UDP", "SCTP")), "port": INT_OR_TEXT, "endPort": PORT}), 500)
_INGRESS: Final = Struct({"from": Translated("_peers"), "ports": _PORTS})
_EGRESS: Final = Struct({"to": Translated("_peers"), "ports": _PORTS})
PEER: Final = Struct(
    {"podSelector": Translated("_peer"), "namespaceSelector": Translated("_peer"), "ipBlock": Translated("remarks")}
)


@dataclass(frozen=True, slots=True)
class _Direction:
    """What differs between ingress and egress."""

    field: str
    peers: str
    rule: Struct


_DIRECTIONS: Final = (_Direction("ingress", "from", _INGRESS), _Direction("egress", "to", _EGRESS))


def to_host(virtual: Obj, view: TenantView) -> Obj:
    """The host NetworkPolicy for `virtual`."""
    identity = metadata.identity(KIND, virtual)
    own = schema.mapping(virtual.get("spec"), "spec")
    _check_size(own, identity, view)
    spec = schema.struct(own, POLICY_SPEC, "spec")
    scope = selectors.own_namespace(identity.namespace, view)
    spec["podSelector"] = selectors.label_selector(own.get("podSelector") or {}, "spec.podSelector", scope)
    spec["policyTypes"] = list(_types(own))
    for direction in _DIRECTIONS:
        rules = _rules(own.get(direction.field), direction, scope, view)
        if rules:
            spec[direction.field] = rules
    meta = metadata.host_metadata(identity, virtual, view)
    return {"apiVersion": "networking.k8s.io/v1", "kind": KIND, "metadata": meta, "spec": spec}


def terms(value: Any, most: int = MOST_TERMS) -> int:
    """How many names, values, ports and address ranges a policy consists of; counted no further than is needed to refuse it."""
    found, left = 0, [value]
    while left and found <= most:
        each = left.pop()
        inner = list(each.values()) if isinstance(each, Mapping) else each if isinstance(each, list) else []
        left.extend(inner)
        found += not inner
    return found


def beyond(policies: Iterable[Obj]) -> frozenset[tuple[str, str]]:
    """The namespaces and names of the policies for which a tenant's older ones leave no room."""
    sized = [(_age(policy), terms(policy.get("spec"))) for policy in policies]
    total, found = 0, set[tuple[str, str]]()
    for (_, namespace, name), size in sorted(sized):
        if size > MOST_TERMS:
            continue  # refused for itself
        if total + size > MOST_TERMS_OF_TENANT:
            found.add((namespace, name))
        else:
            total += size
    return frozenset(found)


def _age(policy: Obj) -> tuple[str, str, str]:
    meta = policy["metadata"]
    return str(meta.get("creationTimestamp", "")), str(meta.get("namespace", "")), str(meta.get("name", ""))


def _check_size(spec: Mapping[str, Any], identity: metadata.Identity, view: TenantView) -> None:
    if terms(spec) > MOST_TERMS:
        message = (
            f"more than {MOST_TERMS} names, values and ports: write fewer rules, peers, ports or labels, or several policies"
        )
        raise Untranslatable(Reason.TOO_LARGE, message, "spec")
    if (identity.namespace, identity.name) in view.policies_beyond:
        message = (
            f"all policies together have more than {MOST_TERMS_OF_TENANT} names, values and ports, and older ones come first"
        )
        raise Untranslatable(Reason.TOO_LARGE, message, "spec")


def remarks(virtual: Obj, _view: TenantView) -> list[str]:
    """The parts of a mirrored policy that do not reach the host, in the tenant's words."""
    spec = schema.mapping(virtual.get("spec"), "spec")
    blocks = any(
        peer.get("ipBlock") is not None
        for direction in _DIRECTIONS
        for at, rule in schema.items(spec.get(direction.field), f"spec.{direction.field}")
        for _, peer in schema.items(rule.get(direction.peers), at)
    )
    return ["ipBlock: address blocks are not passed to the host; the rule allows its other peers only"] if blocks else []


def isolating(virtual: Obj) -> Isolating | None:
    """Which pods a policy isolates in which directions; None if it is malformed."""
    spec = virtual.get("spec")
    if not isinstance(spec, Mapping):
        return None
    types = _types(spec)
    return Isolating(mapping(spec.get("podSelector")), "Ingress" in types, "Egress" in types)


def isolation(labels: Mapping[str, str], namespace: str, view: TenantView) -> dict[str, str]:
    """The labels of a host pod that tell the platform's policies to leave it to the tenant's."""
    found: dict[str, str] = {}
    for policy in view.network_policies.get(namespace, ()):
        if not selectors.selects(policy.selector, labels):
            continue
        if policy.ingress:
            found[INGRESS_ISOLATED] = "true"
        if policy.egress:
            found[EGRESS_ISOLATED] = "true"
    return found


def _types(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The directions, as an API server fills them in."""
    given = spec.get("policyTypes")
    if isinstance(given, list) and given:
        return tuple(type_ for type_ in _TYPES if type_ in given)
    return _TYPES if spec.get("egress") else ("Ingress",)


def _rules(value: Any, direction: _Direction, scope: selectors.Scope, view: TenantView) -> list[Obj]:
    found: list[Obj] = []
    for at, rule in schema.items(value, f"spec.{direction.field}", _RULES):
        translated = schema.struct(rule, direction.rule, at)
        peers = _peers(rule.get(direction.peers), f"{at}.{direction.peers}", scope, view)
        if peers:
            found.append(translated | {direction.peers: peers})
    return found


def _peers(value: Any, path: str, scope: selectors.Scope, view: TenantView) -> list[Obj]:
    peers = schema.items(value, path, _RULES)
    if not peers:
        return [{"podSelector": selectors.label_selector({}, path, selectors.all_namespaces(view))}]
    return [translated for at, peer in peers if (translated := _peer(peer, at, scope, view)) is not None]


def _peer(peer: Mapping[str, Any], path: str, scope: selectors.Scope, view: TenantView) -> Obj | None:
    schema.struct(peer, PEER, path)
    if peer.get("ipBlock") is not None:
        return None
    if peer.get("namespaceSelector") is not None:
        scope = selectors.selected_namespaces(peer["namespaceSelector"], f"{path}.namespaceSelector", view)
    return {"podSelector": selectors.label_selector(peer.get("podSelector") or {}, f"{path}.podSelector", scope)}


def by_namespace(policies: Iterable[Obj]) -> dict[str, tuple[Isolating, ...]]:
    """What `view.network_policies` holds."""
    found: dict[str, list[Isolating]] = {}
    for policy in policies:
        each = isolating(policy)
        if each is not None:
            found.setdefault(str(policy["metadata"].get("namespace", "")), []).append(each)
    return {namespace: tuple(entries) for namespace, entries in found.items()}
