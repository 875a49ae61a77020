"""Tells which flavors of a resource a workload may use, and which one a running pod uses.

    tenant, requested resources ──> choices, in the order of the tenant's preference ──> charge, placement
    pod with a node ──> the first flavor of which the node has all labels

The labels of a node decide as which flavor its devices count. A pod's annotation counts only if the node's labels match no
flavor. A workload that requests two resources with flavors gets a flavor of the same name in both, because a flavor is one kind
of node. A flavor that no Cohort lists has no nodes. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bulkhead.ledger.model import Amounts, Flavor, Node, Pod, Rules, Snapshot, Tenant


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to charge and place a workload."""

    name: str = ""
    # The flavor of each requested resource that has flavors.
    of: Mapping[str, str] = field(default_factory=dict)
    flavor: Flavor | None = None


_PLAIN = Choice()


class Flavors:
    """The flavors of all tenants."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._rules = snapshot.rules
        self._tenants = snapshot.tenants
        self._named = {name: named(tenant) for name, tenant in snapshot.tenants.items()}
        self._on: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}

    def choices(self, tenant: str, asks: Iterable[str]) -> tuple[Choice, ...]:
        """What a workload with these requests may use, preferred choices first; empty if its flavors have no name in common."""
        named = self._named.get(tenant)
        resources = sorted(resource for resource in asks if resource in named) if named else []
        if not named or not resources:
            return (_PLAIN,)
        names = [name for name in named[resources[0]] if all(name in named[resource] for resource in resources)]
        known = {(flavor.name, flavor.resource): flavor for flavor in self._rule(tenant).flavors}
        return tuple(
            Choice(
                name, dict.fromkeys(resources, name), known.get((name, resources[0])) or Flavor(name, resources[0], _NO_NODES)
            )
            for name in names
        )

    def best(self, tenant: str, asks: Iterable[str]) -> Mapping[str, str]:
        """The tenant's preferred flavor of each resource; empty if the flavors have no name in common."""
        choices = self.choices(tenant, asks)
        return choices[0].of if choices else {}

    def used(self, pod: Pod) -> Mapping[str, str]:
        """The flavor that an admitted or running pod uses, by resource."""
        named = self._named.get(pod.tenant)
        if not named:
            return {}
        return {name: self._of(pod, name, named[name]) for name in pod.asks if name in named}

    def _of(self, pod: Pod, resource: str, names: tuple[str, ...]) -> str:
        there = self._there(self._tenants[pod.tenant].cohort, pod.node).get(resource, ()) if pod.node else ()
        if pod.flavor in there or (not there and pod.flavor in names):
            return pod.flavor
        return next((name for name in there if name in names), names[0])

    def _there(self, cohort: str, node: str) -> Mapping[str, tuple[str, ...]]:
        """The flavors of a node, by resource, in the order of the cohort."""
        found = self._on.get((cohort, node))
        if found is None:
            found = {}
            there = self._nodes.get(node)
            for flavor in self._rules.get(cohort, _DEFAULT).flavors if there else ():
                if _is_of(there, flavor):
                    found[flavor.resource] = (*found.get(flavor.resource, ()), flavor.name)
            self._on[cohort, node] = found
        return found

    def _rule(self, tenant: str) -> Rules:
        return self._rules.get(self._tenants[tenant].cohort, _DEFAULT)


_DEFAULT = Rules()
# No label has that name.
_NO_NODES = {"": ""}


def _is_of(node: Node | None, flavor: Flavor) -> bool:
    return node is not None and all(node.labels.get(key) == value for key, value in flavor.node_labels.items())


def named(tenant: Tenant) -> dict[str, tuple[str, ...]]:
    """The flavors for which a tenant has a quota, by resource, in the order of preference."""
    found: dict[str, tuple[str, ...]] = {}
    for resource in sorted({resource for flavor, resource in tenant.shares if flavor}):
        there = sorted(flavor for flavor, name in tenant.shares if flavor and name == resource)
        preferred = dict.fromkeys(name for name in tenant.prefers.get(resource, ()) if name in there)
        found[resource] = tuple(preferred) or tuple(there)
    return found


def whole(asks: Iterable[Amounts]) -> dict[str, int]:
    """The sum of what pods request."""
    found: dict[str, int] = {}
    for amounts in asks:
        for name, amount in amounts.items():
            found[name] = found.get(name, 0) + amount
    return found
