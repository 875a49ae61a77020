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
    name: DnsLabel = Field(description="What Tenants call it, for example h100.")
    resource: ResourceName = Field(description="The resource that it is a kind of, for example nvidia.com/gpu.")
    node_labels: Annotated[dict[LabelKey, LabelValue], Field(min_length=1, max_length=8)] = Field(
        description="Labels that its nodes carry, all of them. A node is of the first flavor of a resource that it fits.",
        json_schema_extra=rules(LABEL_KEYS),
    )


class CohortReclaim(ApiModel):
    """How what was lent comes back."""

    min_runtime: Duration = Field(
        "2m",
        description="A pod that borrows runs at least so long before it may be taken back.",
        json_schema_extra=rules(_between("0s", "168h")),
    )
    within: Duration = Field(
        "3m",
        description="From the decision to take a pod back to its end at the latest: until then the tenant's disruption budgets "
        "and the pod's own grace hold.",
        json_schema_extra=rules(_between("10s", "24h")),
    )


class CohortOverQuota(ApiModel):
    """What becomes of pods over a quota that was lowered."""

    policy: Literal["Keep", "Reclaim"] = Field(
        "Keep", description="Keep: they run until they end. Reclaim: they are taken back after the grace."
    )
    grace: Duration = Field(
        "10m",
        description="With Reclaim: from when a tenant holds more than it may to when that is taken back.",
        json_schema_extra=rules(_between("0s", "168h")),
    )


class CohortGangs(ApiModel):
    """How gangs are started."""

    bind_within: Duration = Field(
        "1m",
        description="A gang that was admitted and is not bound whole after so long is taken back whole, and admitted anew.",
        json_schema_extra=rules(_between("5s", "1h")),
    )


class CohortConsolidation(ApiModel):
    """Whether pods are moved to other nodes, so that a workload finds room among accelerators that are free in pieces."""

    policy: Literal["Never", "WhenBroken"] = Field(
        "Never",
        description="WhenBroken: for a workload that has quota and no room, single pods that something makes again and that "
        "fit elsewhere are taken back, and room on another node is kept for those that come in their stead: pods of the "
        "workload's own tenant, and where it is within its nominal quota, of tenants that borrow. Only smaller ones, none of "
        "higher priority, none before reclaim.minRuntime; until the time of reclaim.within disruption budgets hold.",
    )
    max_moves: int = Field(4, ge=1, le=32, description="With WhenBroken: how many pods are moved for one workload at most.")


class CohortSpec(ApiModel):
    """By what rules its tenants lend and take back."""

    flavors: Annotated[list[CohortFlavor], Field(max_length=MOST_FLAVORS)] | None = Field(
        None,
        description="Kinds of nodes that tenants have quotas of: a Tenant names them in quota.resources.<name>.flavors.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["resource", "name"]},
    )
    reclaim: CohortReclaim | None = Field(None, description="How what was lent comes back.")
    preemption: Literal["Nominal", "FairShare"] = Field(
        "FairShare",
        description="Who takes back. Nominal: only work within its tenant's nominal quota. FairShare: a tenant that would "
        "borrow too, from one that borrows more by weight.",
    )
    over_quota: CohortOverQuota | None = Field(None, description="What becomes of pods over a quota that was lowered.")
    gangs: CohortGangs | None = Field(None, description="How gangs are started.")
    consolidation: CohortConsolidation | None = Field(None, description="Whether pods are moved to make whole nodes free.")


class Cohort(ApiModel):
    """The rules by which the tenants of one cohort lend each other idle quota."""

    model_config = model_rules(_NAME)
    spec: CohortSpec = Field(description="By what rules its tenants lend and take back.")
    status: CohortStatus | None = Field(None, description="What the ledger last counted.")
