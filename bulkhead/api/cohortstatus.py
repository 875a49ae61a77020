"""The status of a Cohort, as the ledger writes it and people read it. Types only.

Sums over its tenants: `kubectl get cohorts` shows an admin on call whether anything waits, and for what.
"""

from typing import Annotated

from pydantic import Field

from bulkhead.api.fields import ApiModel, Count, DnsLabel, Quantity, text
from bulkhead.api.ledger import MOST_LINES_SHOWN, MOST_TENANTS_SHOWN
from bulkhead.api.tenantstatus import Condition


class CohortLine(ApiModel):
    """What all tenants of the cohort have of one resource together."""

    name: Annotated[str, text(317)] = Field(description="The resource, with @ and the flavor where it has flavors.")
    nominal: Quantity = Field(description="Their quotas.")
    used: Quantity = Field(description="What their pods use.")
    borrowed: Quantity = Field(description="What they use beyond their own quota.")
    lent: Quantity = Field(description="What others of the cohort use of their quotas.")
    waiting: Count = Field(description="Workloads that wait and request it: pods, and gangs as one.")


class CohortStatus(ApiModel):
    """What the ledger last counted."""

    observed_generation: Annotated[int, Field(ge=0)] = Field(0, description="Generation of the spec that was acted on.")
    conditions: Annotated[list[Condition], Field(max_length=8)] | None = Field(
        None,
        description="RulesWork: whether the rules can take effect.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    tenants: Count = Field(0, description="Tenants in it.")
    tenant_names: Annotated[list[DnsLabel], Field(max_length=MOST_TENANTS_SHOWN)] | None = Field(
        None, description="The first of them by name.", json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    waiting: Count = Field(0, description="Workloads that wait: pods, and gangs as one.")
    devices: Annotated[str, text(64)] | None = Field(
        None, description="Devices used and nominal, all resources together, in one text for tables: 20/28."
    )
    borrowed: Count = Field(0, description="Devices used beyond the tenant's own quota, all resources together.")
    resources: Annotated[list[CohortLine], Field(max_length=MOST_LINES_SHOWN)] | None = Field(
        None,
        description="The same by resource and flavor, devices first.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
