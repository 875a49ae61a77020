"""The Tenant: what an admin asks for one tenant, and what the controller reports about it.

Types only. Fields that a class may set have no default here: an unset field means "as the class says", and a default would
hide that. CEL rules stand beside the fields they guard; what needs a second object is checked by the controller.
"""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from bulkhead.api import names
from bulkhead.api.access import Access
from bulkhead.api.backup import Backup
from bulkhead.api.deletion import DeletionPolicy
from bulkhead.api.exposure import Exposure
from bulkhead.api.fields import (
    CIDRS,
    DROPS,
    LABEL_KEYS,
    OBJECT_KEYS,
    OWN_POOL,
    QUOTA_KEYS,
    RESOURCE_KEYS,
    Amount,
    ApiModel,
    Cidr,
    Components,
    Count,
    DnsLabel,
    DnsName,
    DropPrivileges,
    KubernetesVersion,
    LabelKey,
    LabelValue,
    Moment,
    ResourceName,
    Rule,
    StorageSize,
    StoreQuota,
    model_rules,
    rules,
    text,
    whole_devices,
)
from bulkhead.api.shares import SHARED, ChosenShares
from bulkhead.api.slurm import Slurm
from bulkhead.api.tenantedits import EDITS
from bulkhead.api.tenantstatus import TenantStatus


class Storage(ApiModel):
    """The volume under the plane's etcd."""

    size: StorageSize | None = Field(
        None,
        description="Size of each etcd volume, for example 2Gi. It may grow but never shrink.",
    )
    quota: StoreQuota | None = Field(
        None,
        description="How much data the plane's store may hold, for example 1Gi; at most a quarter of the volume. By default "
        "the class's; if that has none, a quarter of the volume, at least 512Mi and at most 2Gi. A full store refuses new "
        "objects (condition StoreHasRoom). A change restarts the plane.",
    )
    class_name: DnsName | None = Field(None, description="StorageClass of the etcd volumes. Immutable.")


class ControlPlane(ApiModel):
    """The tenant's plane: etcd, API server and controller manager."""

    replicas: Literal[1, 3] | None = Field(
        None,
        description="Number of plane pods, each with its etcd member: 1 or 3. It may grow from 1 to 3, for which the plane "
        "starts again once, but never shrink.",
    )
    resources: Components | None = Field(None, description="Requests and limits for each component of the plane.")
    storage: Storage | None = Field(None, description="The volume under the plane's etcd.")


class Scheduling(ApiModel):
    """How work is scheduled inside the tenant."""

    mode: Literal["Kubernetes", "Slurm"] = Field(
        "Kubernetes",
        description="What schedules the tenant's work: Kubernetes, or a Slurm cluster inside the tenant. It may change at any "
        "time: workers are given back with their grace.",
    )
    slurm: Slurm | None = Field(
        None, description="The Slurm cluster; with mode Kubernetes the tenant has both, Slurm's partitions beside its pods."
    )


_LENDS_ITS_OWN: Final[Rule] = {
    "rule": "!has(self.lendingLimit) || !quantity(string(self.lendingLimit)).isGreaterThan(quantity(string(self.nominal)))",
    "message": "lendingLimit cannot be more than nominal: only own quota can be lent",
    "fieldPath": ".lendingLimit",
}
_DEVICES: Final = "quantity(string({0})).isInteger()"
_SUM: Final[Rule] = {
    "rule": "!has(self.flavors) || ("
    f"{_DEVICES.format('self.nominal')} && self.flavors.all(each, {_DEVICES.format('each.nominal')}) && "
    "self.flavors.map(each, quantity(string(each.nominal)).asInteger()).sum() == quantity(string(self.nominal)).asInteger())",
    "message": "nominal is the sum of the flavors' nominals",
    "fieldPath": ".nominal",
}
_BY_FLAVOR: Final[Rule] = {
    "rule": "!has(self.flavors) || (!has(self.borrowingLimit) && !has(self.lendingLimit))",
    "message": "with flavors, borrowingLimit and lendingLimit are of each flavor",
    "fieldPath": ".flavors",
}
_OF_COHORTS: Final = (
    ("borrowingLimit", "borrowingLimit needs a cohort to borrow from: set spec.quota.cohort"),
    ("lendingLimit", "lendingLimit needs a cohort to lend to: set spec.quota.cohort"),
    ("flavors", "flavors are those of a cohort: set spec.quota.cohort"),
)
_NEED_A_COHORT: Final[tuple[Rule, ...]] = tuple(
    {
        "rule": f"!has(self.resources) || has(self.cohort) || self.resources.all(key, !has(self.resources[key].{field}))",
        "message": message,
        "fieldPath": ".resources",
    }
    for field, message in _OF_COHORTS
)
# Pods request no other resource that a quota counts, so no pod could be evicted to give one back.
_LENT: Final[Rule] = {
    "rule": "self.all(key, (!has(self[key].borrowingLimit) && !has(self[key].lendingLimit)) || "
    "key in ['cpu', 'memory', 'ephemeral-storage'] || key.startsWith('hugepages-') || "
    "(key.contains('/') && !key.endsWith('/requests.storage')))",
    "message": "lent and borrowed is what pods request: cpu, memory, ephemeral-storage, huge pages, and devices",
}
_FLAVORED: Final[Rule] = {
    "rule": "self.all(key, !has(self[key].flavors) || (key.contains('/') && !key.endsWith('/requests.storage')))",
    "message": "flavors are of devices such as nvidia.com/gpu",
}


class FlavorQuota(ApiModel):
    """The tenant's share of one kind of node within a resource."""

    model_config = model_rules(_LENDS_ITS_OWN)
    name: DnsLabel = Field(description="The flavor, as the Cohort lists it.")
    nominal: Amount = Field(description="What the tenant may use of it at any time.")
    borrowing_limit: Amount | None = Field(
        None, description="How much it may use beyond nominal while others leave it idle; by default as much as they lend."
    )
    lending_limit: Amount | None = Field(
        None, description="How much of its nominal quota others may borrow; by default all of it."
    )


class ResourceQuota(ApiModel):
    """The tenant's share of one resource."""

    model_config = model_rules(_LENDS_ITS_OWN, _SUM, _BY_FLAVOR)
    nominal: Amount = Field(description="What the tenant may use at any time, for example 16 GPUs, or 512Gi of memory.")
    borrowing_limit: Amount | None = Field(
        None,
        description="How much it may use beyond nominal while others of its cohort leave it idle. By default, for devices as "
        "much as they lend; for cpu, memory and ephemeral-storage nothing.",
    )
    lending_limit: Amount | None = Field(
        None,
        description="How much of its nominal quota others of its cohort may borrow. By default, for devices all of it; for "
        "cpu, memory and ephemeral-storage nothing.",
    )
    flavors: Annotated[list[FlavorQuota], Field(min_length=1, max_length=8)] | None = Field(
        None,
        description="The same for each kind of node, in the order in which the tenant prefers them; pods go to the first that "
        "has room. If empty, nominal covers nodes of any kind.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )


class Quota(ApiModel):
    """What the tenant may use of the shared cluster."""

    model_config = model_rules(*_NEED_A_COHORT)
    cohort: DnsLabel | None = Field(
        None,
        description="The cohort, one that the class lists. Tenants of one cohort lend each other idle quota; a Cohort of this "
        "name sets the rules, if it exists.",
    )
    weight: Annotated[int, Field(ge=1, le=1000)] = Field(
        1, description="Share of the cohort's idle quota, relative to the other borrowers."
    )
    resources: dict[ResourceName, ResourceQuota] | None = Field(
        None,
        max_length=16,
        description="Quota of each resource by its name: nvidia.com/gpu, cpu, memory, ephemeral-storage, requests.storage. "
        "For a resource that is left out, the class's default applies; without one the tenant has no GPUs.",
        json_schema_extra=rules(
            RESOURCE_KEYS, QUOTA_KEYS, *whole_devices("nominal", "borrowingLimit", "lendingLimit"), _LENT, _FLAVORED
        ),
    )
    objects: dict[ResourceName, Count] | None = Field(
        None,
        max_length=32,
        description="Maximum number of mirrored objects of each kind on the host, for example pods: 1000; at most the class's.",
        json_schema_extra=rules(RESOURCE_KEYS, OBJECT_KEYS),
    )


class Nodes(ApiModel):
    """Which of the host's nodes the tenant sees and uses."""

    selector: dict[LabelKey, LabelValue] | None = Field(
        None,
        max_length=16,
        description="Labels a host node must carry, besides those of the class, to belong to the tenant's pool.",
        json_schema_extra=rules(LABEL_KEYS, OWN_POOL),
    )
    dedicated: bool | None = Field(
        None,
        description="Whether the pool is dedicated to this tenant: its nodes are tainted for all others, and its pods run "
        "only there.",
    )


class Network(ApiModel):
    """What the tenant's pods may reach beyond their own tenant."""

    egress_cidrs: Annotated[list[Cidr], Field(max_length=32)] | None = Field(
        None,
        alias="egressCIDRs",
        description="Addresses outside the cluster that the tenant's pods may reach; none unless listed.",
        json_schema_extra=rules(CIDRS) | {"x-kubernetes-list-type": "set"},
    )


class Isolation(ApiModel):
    """How hard the tenant's pods are kept apart from the host and from others."""

    pod_security: Literal["baseline", "restricted"] | None = Field(
        None, description="Pod Security level that the host enforces on the tenant's pods."
    )
    user_namespaces: bool | None = Field(None, description="Whether every pod runs in a user namespace of its own.")
    drop_privileges: DropPrivileges | None = Field(None, description=DROPS)
    runtime_class_name: DnsName | None = Field(None, description="RuntimeClass that every pod of the tenant runs with.")
    network: Network | None = Field(None, description="What the tenant's pods may reach beyond their own tenant.")


class Hibernation(ApiModel):
    """Stops the plane on request."""

    enabled: bool = Field(False, description="Whether the plane is scaled to zero, with its data kept.")


class TenantSpec(ApiModel):
    """The desired state."""

    class_: DnsName = Field(
        alias="class",
        description="Name of the TenantClass that gives defaults and upper bounds. Immutable once it has been applied.",
    )
    kubernetes_version: KubernetesVersion | None = Field(
        None,
        description="Version of the tenant's control plane, for example v1.36.3; the class's default if empty. A plane is "
        "never downgraded to an earlier minor version.",
    )
    control_plane: ControlPlane | None = Field(None, description="Size of the tenant's plane.")
    scheduling: Scheduling = Field(
        Scheduling(mode="Kubernetes", slurm=None), description="How work is scheduled inside the tenant."
    )
    quota: Quota | None = Field(None, description="What the tenant may use of the shared cluster; no GPUs by default.")
    nodes: Nodes | None = Field(None, description="Which of the host's nodes the tenant sees and uses.")
    isolation: Isolation | None = Field(None, description="How strictly the tenant's pods are isolated.")
    access: Access | None = Field(None, description="Access to the tenant's API.")
    shared_secrets: ChosenShares | None = Field(
        None,
        description="Secrets of the host that the class offers on request, or that go into other namespaces than the class "
        "says.",
        json_schema_extra=SHARED,
    )
    shared_config_maps: ChosenShares | None = Field(
        None,
        description="ConfigMaps of the host that the class offers on request, or that go into other namespaces than the class "
        "says.",
        json_schema_extra=SHARED,
    )
    exposure: Exposure | None = Field(None, description="How the tenant's API server is reached from outside of the host.")
    backup: Backup | None = Field(None, description="Snapshots of the plane that are taken by themselves.")
    hibernation: Hibernation | None = Field(None, description="Stops the plane on request.")
    paused_until: Moment | None = Field(
        None,
        description="Until this time the controller changes nothing of the tenant, for repairs by hand. Revocations still "
        "reach the plane, and its certificates are renewed.",
    )
    deletion_policy: DeletionPolicy | None = Field(
        None,
        description="What happens to the tenant's plane when the Tenant is deleted. Retain: its volumes, keys, identity and "
        "slice are kept for as long as the class says (deletion.retainFor); its pods end. By default, and at least, what the "
        "class says.",
    )
    adopt: Annotated[str, text(36, r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] | None = Field(
        None,
        description="Identity of a retained plane of a deleted Tenant of this name: the Tenant gets that plane instead of a "
        "new one, or is refused. It cannot change once the Tenant has a plane.",
    )


class Tenant(ApiModel):
    """A tenant of the cluster: an own Kubernetes control plane whose pods run on the shared nodes under a quota."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": f"size(self.metadata.name) <= {names.TENANT_NAME_LIMIT}",
                "message": f"metadata.name: at most {names.TENANT_NAME_LIMIT} characters",
            },
            {
                "rule": f"self.metadata.name.matches('{names.TENANT_NAME_PATTERN}')",
                "message": "metadata.name: lower-case letters, digits and '-', beginning with a letter, no dots",
            },
            {
                "rule": f"!(self.metadata.name in {list(names.RESERVED_TENANT_NAMES)}) && "
                f"!self.metadata.name.startsWith('{names.RESERVED_TENANT_PREFIX}')",
                "message": "metadata.name: this name is reserved for the system",
            },
            {
                "rule": f"!self.metadata.name.endsWith('{names.WORK_SUFFIX}')",
                "message": f"metadata.name: must not end in {names.WORK_SUFFIX}, which marks work namespaces",
            },
            *EDITS,
        )
    )
    spec: TenantSpec = Field(description="The desired state.")
    status: TenantStatus | None = Field(None, description="What the controller reports.")
