"""What tenants and their pods, containers, claims and devices may have of each resource. Types only."""

from typing import Annotated, Final

from pydantic import Field

from bulkhead.api.fields import (
    OBJECT_KEYS,
    QUOTA_KEYS,
    RESOURCE_KEYS,
    Amount,
    ApiModel,
    Count,
    DnsLabel,
    PodBytes,
    Quantity,
    ResourceName,
    Rule,
    model_rules,
    rules,
    whole_devices,
)

_OF_PODS: Final[Rule] = {
    "rule": "self.all(key, key in ['cpu', 'memory', 'ephemeral-storage'] || "
    "(!has(self[key].maxPerPod) && !has(self[key].maxLimitRequestRatio)))",
    "message": "maxPerPod and maxLimitRequestRatio are of cpu, memory and ephemeral-storage",
}
_LENT: Final[Rule] = {
    "rule": "self.all(key, !has(self[key].maxBorrowing) || key in ['cpu', 'memory', 'ephemeral-storage'] || "
    "key.startsWith('hugepages-') || (key.contains('/') && !key.endsWith('/requests.storage')))",
    "message": "borrowed is what pods request: cpu, memory, ephemeral-storage, huge pages, and devices",
}
_OF_CLAIMS: Final[Rule] = {
    "rule": "self.all(key, key == 'requests.storage' || !has(self[key].maxPerClaim))",
    "message": "maxPerClaim is of requests.storage",
}


class Bound(ApiModel):
    """What tenants have of one resource, and the most that they and each of their pods may have."""

    model_config = model_rules(
        {
            "rule": "!has(self.default) || !has(self.maxNominal) || "
            "!quantity(string(self.default)).isGreaterThan(quantity(string(self.maxNominal)))",
            "message": "default is more than maxNominal",
            "fieldPath": ".default",
        },
        {
            "rule": "!has(self.maxLimitRequestRatio) || !quantity(string(self.maxLimitRequestRatio)).isLessThan(quantity('1'))",
            "message": "no limit is less than its request: at least 1",
            "fieldPath": ".maxLimitRequestRatio",
        },
    )
    default: Amount | None = Field(
        None,
        description="Quota of a tenant that sets none. By default no GPUs, and maxNominal of everything else.",
    )
    max_nominal: Amount | None = Field(None, description="Highest nominal quota that a tenant of this class may have.")
    max_borrowing: Amount | None = Field(
        None,
        description="The most that a tenant may use beyond its nominal quota while others of its cohort leave it idle, all "
        "flavors together. By default the tenant's own borrowingLimit.",
    )
    max_per_pod: Amount | None = Field(
        None, description="The most that one pod may request; of cpu, memory and ephemeral-storage."
    )
    max_limit_request_ratio: Amount | None = Field(
        None,
        description="Maximum ratio of a container's limit to its request, if it sets a limit; of cpu, memory and "
        "ephemeral-storage. containerDefaults.limits covers containers without a limit.",
    )
    max_per_claim: Amount | None = Field(
        None, description="The most that one PersistentVolumeClaim may request; of requests.storage."
    )


class ClassQuota(ApiModel):
    """Limits for the quota of a tenant."""

    cohorts: Annotated[list[DnsLabel], Field(max_length=32)] | None = Field(
        None,
        description="Cohorts that tenants may join to lend each other idle quota; none by default.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    resources: dict[ResourceName, Bound] | None = Field(
        None,
        max_length=16,
        description="What tenants have of each resource, and how much at most: GPU resources, cpu, memory, ephemeral-storage, "
        "requests.storage and others. cpu, memory and storage are unlimited unless they are set.",
        json_schema_extra=rules(
            RESOURCE_KEYS, QUOTA_KEYS, *whole_devices("default", "maxNominal", "maxBorrowing"), _OF_PODS, _OF_CLAIMS, _LENT
        ),
    )
    objects: dict[ResourceName, Count] | None = Field(
        None,
        max_length=32,
        description="Maximum number of mirrored objects of each kind on the host; a tenant may request fewer. Kinds that are "
        "not listed have a built-in limit.",
        json_schema_extra=rules(RESOURCE_KEYS, OBJECT_KEYS),
    )
    max_pod_bytes: PodBytes | None = Field(
        None,
        description="How large all pods of a tenant may be together on the host, those that have ended among them, 1Mi to "
        "192Mi; 128Mi by default. Pods that are there stay; new ones, and changes that make one larger, wait for room.",
    )
    max_service_endpoints: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        None,
        description="How many endpoints all Services of a tenant may have together on the host: of each Service its ports, "
        "once for each pod that it selects. By default 20 for each pod that the tenant may have (objects.pods), and at least "
        "20000. What is there stays; Services, and pods that Services select, wait for room.",
    )


_OF_CONTAINERS: Final[Rule] = {
    "rule": "self.all(key, key in ['cpu', 'memory', 'ephemeral-storage'])",
    "message": "containers are given cpu, memory and ephemeral-storage; for what else they need they ask themselves",
}


class ContainerDefaults(ApiModel):
    """Requests and limits of containers that set none."""

    model_config = model_rules(
        {
            "rule": "!has(self.requests) || !has(self.limits) || self.requests.all(key, !(key in self.limits) || "
            "!quantity(string(self.requests[key])).isGreaterThan(quantity(string(self.limits[key]))))",
            "message": "a default request is more than the default limit",
            "fieldPath": ".requests",
        }
    )
    requests: dict[ResourceName, Quantity] | None = Field(
        None,
        max_length=8,
        description="Default requests, because quotas count requests; by default a little cpu, memory and ephemeral-storage.",
        json_schema_extra=rules(_OF_CONTAINERS),
    )
    limits: dict[ResourceName, Quantity] | None = Field(
        None,
        max_length=8,
        description="Default limits; none by default. A container that requests more than its default limit and sets no other "
        "is refused, and one that uses more memory is killed.",
        json_schema_extra=rules(_OF_CONTAINERS),
    )


class DeviceClassQuota(ApiModel):
    """What devices of one DeviceClass count against."""

    model_config = model_rules(
        {
            "rule": "has(self.resource) != has(self.devices)",
            "message": "either resource or devices: devices count against a resource's quota, or have a number of their own",
        }
    )
    resource: ResourceName | None = Field(
        None, description="The resource that a device of the class stands for: each counts against the tenant's quota of it."
    )
    devices: Count | None = Field(
        None, description="How many devices of the class all claims of a tenant may request together."
    )
