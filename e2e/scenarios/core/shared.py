"""Tenants that several files of the core suite use one after the other: each file leaves them without pods.

The files that share a tenant belong to one group (`order`), and name its function `ahead`. The tenant is deleted after the last
test of the group that does (`conftest`). A function here returns manifests, and `Fleet.begin` orders their tenants.
"""

from collections.abc import Sequence
from functools import cache

from e2e import tenants
from e2e.api import Obj
from e2e.fleet import Fleet
from e2e.install import SLICES
from e2e.names import GPU
from e2e.scenarios.core import receiver
from e2e.tenants import Tenant

GANG = 3
_EVERYWHERE = "e2e-everywhere"
OWN_CLASS = "e2e-own-class"
DRAIN_SECONDS = 8
DAMAGED = "e2e-drift"
AUDITED = "e2e-audited"
PAIR = ("e2e-one", "e2e-other")
_PAIRED, _LARGE = "e2e-paired", "e2e-large"
_COHORTS = ("e2e-flavors", "e2e-ledger", "e2e-theft")
SLICES_OF_NODE = 7


@cache
def with_pod_groups(fleet: Fleet) -> Obj:
    """The manifest of a tenant whose cluster has pod groups, with GPUs for a gang of `GANG` pods; its creation begins."""
    return fleet.order_of_own_class("e2e-groups", gpus=GANG, scheduling={"podGroups": True})


@cache
def with_every_address(fleet: Fleet) -> Obj:
    """The manifest of a tenant of a class that allows every address; its creation begins."""
    isolation = fleet.host.get("TenantClass", "standard")["spec"].get("isolation", {})
    return fleet.order_of_own_class(_EVERYWHERE, gpus=0, isolation=isolation | {"network": {"egressCIDRs": ["0.0.0.0/0"]}})


@cache
def in_a_cohort(fleet: Fleet) -> list[Obj]:
    """The manifests of two tenants that may run gangs, have slices and join the cohorts of tests.

    Each file says which cohort they join, and with which quotas (`tenants.give_quota`).
    """
    quota = fleet.host.get("TenantClass", "standard")["spec"]["quota"]
    resources = quota["resources"] | {SLICES: {"maxNominal": SLICES_OF_NODE}}
    offered = quota | {"cohorts": list(_COHORTS), "resources": resources}
    fleet.offer(_PAIRED, gpuResources=[GPU, SLICES], scheduling={"gangs": True}, quota=offered)
    return [tenants.manifest(name, gpus=0, tenant_class=_PAIRED) for name in PAIR]


def join(fleet: Fleet, pair: list[Obj], cohort: str, rules: Obj, resources: Sequence[Obj]) -> list[Tenant]:
    """The two tenants of `in_a_cohort`, each with its resources, in a cohort of these rules."""
    fleet.lend(cohort, rules)
    joined = [fleet.take(manifest) for manifest in pair]
    for tenant, own in zip(joined, resources, strict=True):
        tenants.give_quota(fleet.host, tenant.name, {"cohort": cohort, "resources": own})
    return joined


@cache
def of_its_own_class(fleet: Fleet) -> Obj:
    """The manifest of a tenant whose class, of the same name, bounds no number of GPUs; its creation begins.

    An admin's drain of a node waits for its budgets for `DRAIN_SECONDS`.
    """
    standard = fleet.host.get("TenantClass", "standard")["spec"]
    resources = {name: bounds for name, bounds in standard["quota"]["resources"].items() if name != GPU}
    nodes = standard.get("nodes", {}) | {"drainDeadline": f"{DRAIN_SECONDS}s"}
    return fleet.order_of_own_class(OWN_CLASS, gpus=0, quota=standard["quota"] | {"resources": resources}, nodes=nodes)


def damaged(_: Fleet) -> Obj:
    """The manifest of a tenant that tests damage and repair."""
    return tenants.manifest(DAMAGED, gpus=2)


@cache
def of_the_controller(fleet: Fleet) -> list[Obj]:
    """The manifests of two tenants that go too far.

    The plane of the first answers without an end. The second sends pods that are as large as an API server accepts: it is in a
    cohort, so that the ledger watches all pods of the host, and has no GPU.
    """
    quota = fleet.host.get("TenantClass", "standard")["spec"]["quota"] | {"cohorts": [_LARGE]}
    fleet.offer(_LARGE, quota=quota)
    own = {"cohort": _LARGE, "resources": {GPU: {"nominal": 0}}}
    return [tenants.manifest("e2e-hostile", gpus=1), tenants.manifest("e2e-large-pods", tenant_class=_LARGE, quota=own)]


@cache
def audited(fleet: Fleet) -> list[Obj]:
    """The manifests of two tenants of class `AUDITED`, which send their audit trail to files that stay, and to a receiver.

    The receiver, too, begins to start.
    """
    audit = {"level": "Request", "retain": True, "webhook": receiver.start(fleet)}
    # By mistake the class also offers the receiver's credential to its tenants: its type is never shared.
    fleet.offer(AUDITED, audit=audit, sharedSecrets=[{"name": receiver.SECRET}])
    return [tenants.manifest(f"{AUDITED}-{letter}", gpus=0, tenant_class=AUDITED) for letter in "ab"]
