"""`Cohort`: by what rules tenants of one cohort lend each other idle quota and take it back. Types only.

A cohort needs no object: without one the defaults that stand here hold (`bulkhead.ledger.model.Rules` has the same). Which
tenants are of a cohort, their Tenants say, and their classes allow it.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from bulkhead.api.cohortstatus import CohortStatus
from bulkhead.api.fields import (
    DEVICE_NAMES,
    LABEL_KEYS,
    ApiModel,
    DnsLabel,
    LabelKey,
    LabelValue,
    ResourceName,
    Rule,
    model_rules,
    rules,
    text,
)

MOST_FLAVORS: Final = 64
Duration = Annotated[str, text(6, r"^(0s|[1-9][0-9]{0,4}(s|m|h))$")]

_NAME: Final[Rule] = {
    "rule": "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "message": "the name must be a DNS label of at most 63 characters, as Tenants name it in spec.quota.cohort",
}
_DEVICE: Final[Rule] = {
    "rule": f"{DEVICE_NAMES['rule'].replace('self.all', '[self.resource].all')} && !self.resource.startsWith('hugepages-')",
    "message": "a flavor is of a device such as nvidia.com/gpu, by the name by which containers ask for it",
    "fieldPath": ".resource",
}


def _between(least: str, most: str) -> Rule:
    return {
        "rule": f"duration(self) >= duration('{least}') && duration(self) <= duration('{most}')",
        "message": f"from {least} to {most}",
    }


class CohortFlavor(ApiModel):
    """A kind of node within one resource, of which tenants have a quota of its own."""

    model_config = model_rules(_DEVICE)
    name: DnsLabel = Field(description="Its name in Tenants, for example h100.")
    resource: ResourceName = Field(description="The resource that it is a kind of, for example nvidia.com/gpu.")
    node_labels: Annotated[dict[LabelKey, LabelValue], Field(min_length=1, max_length=8)] = Field(
        description="Labels that its nodes have, all of them. A node belongs to the first flavor of a resource that it fits.",
        json_schema_extra=rules(LABEL_KEYS),
    )


class CohortReclaim(ApiModel):
    """How lent quota is reclaimed."""

    min_runtime: Duration = Field(
        "2m",
        description="How long a pod that borrows runs at least before it may be evicted.",
        json_schema_extra=rules(_between("0s", "168h")),
    )
    within: Duration = Field(
        "3m",
        description="Longest time from the decision to evict a pod to its end. Until then the tenant's disruption budgets and "
        "the pod's grace period hold.",
        json_schema_extra=rules(_between("10s", "24h")),
    )


class CohortOverQuota(ApiModel):
    """What happens to pods over a quota that was lowered."""

    policy: Literal["Keep", "Reclaim"] = Field(
        "Keep", description="Keep: they run until they end. Reclaim: they are evicted after the grace."
    )
    grace: Duration = Field(
        "10m",
        description="With Reclaim: how long a tenant may hold more than its quota before pods are evicted.",
        json_schema_extra=rules(_between("0s", "168h")),
    )


class CohortGangs(ApiModel):
    """How gangs are started."""

    bind_within: Duration = Field(
        "1m",
        description="An admitted gang whose pods are not all bound within this time is evicted as a whole and admitted again.",
        json_schema_extra=rules(_between("5s", "1h")),
    )


class CohortConsolidation(ApiModel):
    """Whether pods are moved to other nodes, so that a workload finds room among accelerators that are free in pieces."""

    policy: Literal["Never", "WhenBroken"] = Field(
        "Never",
        description="WhenBroken: for a workload that has quota but no room, single pods that a controller recreates and that "
        "fit elsewhere are evicted, and room on another node is reserved for their replacements. These are pods of the "
        "workload's own tenant and, if the workload is within nominal quota, of tenants that borrow. They are smaller than the "
        "workload, not of higher priority, and have run for reclaim.minRuntime; disruption budgets hold for reclaim.within.",
    )
    max_moves: int = Field(4, ge=1, le=32, description="With WhenBroken: how many pods are moved for one workload at most.")


class CohortSpec(ApiModel):
    """The rules by which its tenants lend and reclaim quota."""

    flavors: Annotated[list[CohortFlavor], Field(max_length=MOST_FLAVORS)] | None = Field(
        None,
        description="Kinds of nodes that have their own quota: a Tenant names them in quota.resources.<name>.flavors.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["resource", "name"]},
    )
    reclaim: CohortReclaim | None = Field(None, description="How lent quota is reclaimed.")
    preemption: Literal["Nominal", "FairShare"] = Field(
        "FairShare",
        description="Which workloads may reclaim. Nominal: only those within their tenant's nominal quota. FairShare: also "
        "those that would borrow, from a tenant that borrows more by weight.",
    )
    over_quota: CohortOverQuota | None = Field(None, description="What happens to pods over a quota that was lowered.")
    gangs: CohortGangs | None = Field(None, description="How gangs are started.")
    consolidation: CohortConsolidation | None = Field(None, description="Whether pods are moved to free whole nodes.")


class Cohort(ApiModel):
    """The rules by which the tenants of one cohort lend each other idle quota."""

    model_config = model_rules(_NAME)
    spec: CohortSpec = Field(description="The rules by which its tenants lend and reclaim quota.")
    status: CohortStatus | None = Field(None, description="What the ledger last counted.")
