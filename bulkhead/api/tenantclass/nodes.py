"""The pool of nodes of a class, and the taints that its pods tolerate. Types only."""

from typing import Annotated, Literal

from pydantic import Field

from bulkhead.api.fields import LABEL_KEYS, OWN_POOL, ApiModel, Count, LabelKey, LabelValue, TaintKey, model_rules, rules, text


class Toleration(ApiModel):
    """A taint that pods of the class endure, as Kubernetes writes it."""

    model_config = model_rules(
        {
            "rule": r"!self.key.matches('(^|[.])bulkhead[.]dev/')",
            "message": "taints of bulkhead.dev are reserved: the platform sets them on nodes that are dedicated to a tenant",
            "fieldPath": ".key",
        },
        {
            "rule": "!self.key.startsWith('node-role.kubernetes.io/')",
            "message": "taints of node-role.kubernetes.io keep the host's own nodes, such as its control plane, from tenants: "
            "taint nodes that are theirs by another key",
            "fieldPath": ".key",
        },
        {
            "rule": "!has(self.value) || self.value == '' || !has(self.operator) || self.operator != 'Exists'",
            "message": "operator Exists compares no value",
            "fieldPath": ".value",
        },
        {
            "rule": "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "message": "tolerationSeconds needs effect NoExecute",
            "fieldPath": ".tolerationSeconds",
        },
    )
    key: TaintKey = Field(description="Key of the taint.")
    operator: Literal["Exists", "Equal"] | None = Field(None, description="How the key's value is compared.")
    value: LabelValue | None = Field(None, description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(None, description="Effect of the taint.")
    toleration_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = Field(
        None, description="How many seconds a NoExecute taint is tolerated."
    )


class ClassNodes(ApiModel):
    """The pool of nodes that tenants of this class use."""

    selector: dict[LabelKey, LabelValue] | None = Field(
        None,
        max_length=16,
        description="Labels a host node must carry to belong to the pool.",
        json_schema_extra=rules(LABEL_KEYS, OWN_POOL),
    )
    tolerations: Annotated[list[Toleration], Field(max_length=16)] | None = Field(
        None,
        description="Tolerations put on every pod, so that it may run on tainted nodes of the pool.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    allowed_tolerations: Annotated[list[Toleration], Field(max_length=16)] | None = Field(
        None,
        description="Tolerations that pods may have, besides those of not-ready and unreachable nodes; other tolerations are "
        "dropped on the host.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    dedicated: bool | None = Field(
        None,
        description="Whether the pool of every tenant is dedicated to it; each tenant then needs a selector of its own "
        "within the class's.",
    )
    drain_deadline: Annotated[str, text(6, r"^(Never|0s|[1-9][0-9]{0,4}(s|m|h))$")] | None = Field(
        None,
        description="How long disruption budgets of tenants may hold up the drain of a node, from its cordon; 1h by default. "
        "After that its pods may be evicted in spite of them. Never: budgets always hold.",
    )
    max_grace_period: Annotated[str, text(3, r"^([3-9][0-9]s|([1-9]|[1-5][0-9]|60)m|1h)$")] | None = Field(
        None,
        description="How long a pod of a tenant may go on after its deletion, 30s to 1h; 1h by default. Pods that ask for "
        "more get this, and an event says so. The deletion of a tenant waits as long for its pods.",
    )
    max_dedicated: Count | None = Field(
        None,
        description="Most nodes that may be dedicated to a tenant. If empty, a tenant may request none; with dedicated set by "
        "the class, it has its whole pool.",
    )
