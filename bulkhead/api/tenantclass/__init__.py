"""The TenantClass: an admin's template for tenants and the bounds they stay inside. Types only.

A section of a Tenant lies over the section of the same name here, and may only tighten it or choose from what is listed
(`controller.decide.bounds`). Images are chosen by the installation and by nobody else.
"""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from bulkhead.api import labels
from bulkhead.api.fields import (
    CIDRS,
    DEVICE_NAMES,
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
    KubernetesVersion,
    LabelKey,
    LabelValue,
    Quantity,
    ResourceName,
    Rule,
    StorageSize,
    TaintKey,
    model_rules,
    rules,
    text,
    whole_devices,
)
from bulkhead.api.slurm import MOST_NODES
from bulkhead.api.tenant import Network


class ClassStorage(ApiModel):
    """The volume under a plane's etcd."""

    size: StorageSize = Field("2Gi", description="Size of each etcd volume.")
    max_size: StorageSize | None = Field(None, description="Largest size that a tenant may ask for; size unless given.")
    class_name: DnsName | None = Field(None, description="StorageClass of the etcd volumes; the host's default unless given.")
    allowed_class_names: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="StorageClasses that a tenant may choose instead; none unless given.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


class ClassControlPlane(ApiModel):
    """Size of the planes."""

    replicas: Literal[1, 3] = Field(1, description="Number of plane pods: 1, or 3.")
    max_replicas: Literal[1, 3] | None = Field(
        None, description="Highest number of plane pods that a tenant may ask for; replicas unless given."
    )
    resources: Components | None = Field(None, description="Requests and limits for each component of the plane.")
    max_resources: Components | None = Field(
        None,
        description="The most that a tenant may ask for instead, each request and limit by itself; what resources says, or "
        "what is built in, unless given.",
    )
    storage: ClassStorage | None = Field(None, description="The volume under a plane's etcd.")


_OF_PODS: Final[Rule] = {
    "rule": "self.all(key, key in ['cpu', 'memory', 'ephemeral-storage'] || "
    "(!has(self[key].maxPerPod) && !has(self[key].maxLimitRequestRatio)))",
    "message": "maxPerPod and maxLimitRequestRatio are of cpu, memory and ephemeral-storage",
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
        description="Quota of a tenant that names none. Unless given, no GPUs, and maxNominal of everything else.",
    )
    max_nominal: Amount | None = Field(None, description="Highest nominal quota that a tenant of this class may have.")
    max_per_pod: Amount | None = Field(
        None, description="The most that one pod may request; of cpu, memory and ephemeral-storage."
    )
    max_limit_request_ratio: Amount | None = Field(
        None,
        description="How many times its request a container's limit may be, where it names one; of cpu, memory and "
        "ephemeral-storage. For a container without a limit there is containerDefaults.limits.",
    )
    max_per_claim: Amount | None = Field(
        None, description="The most that one PersistentVolumeClaim may request; of requests.storage."
    )


class ClassQuota(ApiModel):
    """Bounds on the quota of a tenant."""

    resources: dict[ResourceName, Bound] | None = Field(
        None,
        max_length=16,
        description="What tenants have of each resource, and how much at most: GPU resources, cpu, memory, ephemeral-storage, "
        "requests.storage and others. Where nothing is said of cpu, memory and storage, they have no ceiling.",
        json_schema_extra=rules(RESOURCE_KEYS, QUOTA_KEYS, *whole_devices("default", "maxNominal"), _OF_PODS, _OF_CLAIMS),
    )
    objects: dict[ResourceName, Count] | None = Field(
        None,
        max_length=32,
        description="Highest number of mirrored objects of each kind on the host; a tenant may ask for fewer. Kinds that are "
        "not listed have a built-in bound.",
        json_schema_extra=rules(RESOURCE_KEYS, OBJECT_KEYS),
    )


class Toleration(ApiModel):
    """A taint that pods of the class endure, as Kubernetes writes it."""

    model_config = model_rules(
        {
            "rule": r"!self.key.matches('(^|[.])bulkhead[.]dev/')",
            "message": "taints of bulkhead.dev are the platform's: nodes that are dedicated to a tenant bear them",
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
        None, description="How long a NoExecute taint is endured."
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
        description="Tolerations that pods may ask for, beside those of not-ready and unreachable nodes; what else they ask "
        "for does not reach the host.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    dedicated: bool | None = Field(
        None, description="Whether the pool of every tenant is its alone; each needs a selector of its own inside the class's."
    )
    max_dedicated: Count | None = Field(
        None,
        description="Most nodes that a tenant may have for itself alone; without it a tenant may ask for none, and one whose "
        "class has dedicated may have its whole pool.",
    )


class ClassNetwork(Network):
    """What the pods may reach beyond their own tenant, and what tenants may choose."""

    allowed_egress_cidrs: Annotated[list[Cidr], Field(max_length=32)] | None = Field(
        None,
        alias="allowedEgressCIDRs",
        description="Addresses outside the cluster that tenants may list themselves, besides egressCIDRs; none unless listed.",
        json_schema_extra=rules(CIDRS) | {"x-kubernetes-list-type": "set"},
    )
    reach_reserved: Annotated[list[Cidr], Field(max_length=32)] | None = Field(
        None,
        description="Addresses of the host itself, or of a metadata service, that egressCIDRs may open on purpose; none unless "
        "listed. Otherwise egressCIDRs opens no link-local addresses and none of the host's nodes, pods and services.",
        json_schema_extra=rules(CIDRS) | {"x-kubernetes-list-type": "set"},
    )


DeviceName = Annotated[str, text(253, r"^[a-z0-9][-a-z0-9.]*/[A-Za-z0-9][-A-Za-z0-9_.]*$")]
# No empty parts and none that begin with a dot: a path stays inside the folder, and has one spelling. No commas either.
SeccompProfile = Annotated[str, text(253, r"^[A-Za-z0-9_][-A-Za-z0-9._]*(/[A-Za-z0-9_][-A-Za-z0-9._]*)*$")]
AppArmorProfile = Annotated[str, text(253, r"^[A-Za-z0-9_/][-A-Za-z0-9._/]*$")]
_CONFINED: Final[Rule] = {
    "rule": "self.all(one, one != 'unconfined')",
    "message": "unconfined is no profile but the absence of one",
}


class ClassIsolation(ApiModel):
    """How hard tenants are kept apart."""

    pod_security: Literal["baseline", "restricted"] = Field(
        "baseline", description="Pod Security level that the host enforces on pods."
    )
    user_namespaces: bool | None = Field(None, description="Whether every pod runs in a user namespace of its own.")
    allowed_seccomp_profiles: Annotated[list[SeccompProfile], Field(max_length=16)] | None = Field(
        None,
        description="Seccomp profiles of the nodes that pods may name (type Localhost), by their paths below the kubelet's "
        "seccomp folder; none unless given. Pods that name none run under the container runtime's own.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    allowed_app_armor_profiles: Annotated[list[AppArmorProfile], Field(max_length=16)] | None = Field(
        None,
        description="AppArmor profiles loaded on the nodes that pods may name (type Localhost); none unless given.",
        json_schema_extra={"x-kubernetes-list-type": "set", **rules(_CONFINED)},
    )
    runtime_class_name: DnsName | None = Field(None, description="RuntimeClass that every pod runs with.")
    allowed_runtime_classes: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="RuntimeClasses of the host that pods may ask for, and that a tenant may choose instead of the class's.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    network: ClassNetwork | None = Field(None, description="What the pods may reach beyond their own tenant.")


class Exposure(ApiModel):
    """How a tenant's API server is reached."""

    type: Literal["ClusterIP"] = Field(
        "ClusterIP", description="Kind of Service in front of it. ClusterIP: by its service address."
    )


_OF_CONTAINERS: Final[Rule] = {
    "rule": "self.all(key, key in ['cpu', 'memory', 'ephemeral-storage'])",
    "message": "containers are given cpu, memory and ephemeral-storage; for what else they need they ask themselves",
}


class ContainerDefaults(ApiModel):
    """What a container gets that does not say."""

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
        description="Default requests. A little of cpu, memory and ephemeral-storage unless given: quotas count requests.",
        json_schema_extra=rules(_OF_CONTAINERS),
    )
    limits: dict[ResourceName, Quantity] | None = Field(
        None,
        max_length=8,
        description="Default limits; none unless given. A container that asks for more than its default limit and names no "
        "other is refused, and one that needs more memory is killed.",
        json_schema_extra=rules(_OF_CONTAINERS),
    )


class ClassSlurm(ApiModel):
    """Bounds on the Slurm clusters of tenants."""

    max_nodes: Annotated[int, Field(ge=0, le=MOST_NODES)] | None = Field(
        None, description="Most workers that the node sets of a tenant may have together."
    )


class ClassScheduling(ApiModel):
    """How tenants of this class may schedule."""

    modes: Annotated[list[Literal["Kubernetes", "Slurm"]], Field(min_length=1, max_length=2)] | None = Field(
        None,
        description="Modes that tenants may choose; all unless given.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    slurm: ClassSlurm | None = Field(None, description="Bounds on the Slurm clusters of tenants.")
    pod_groups: bool | None = Field(
        None,
        description="Whether tenants have the PodGroups of Kubernetes 1.36 (alpha): the host's scheduler places the pods of a "
        "group together or not at all. The host has to serve scheduling.k8s.io/v1alpha2.",
    )


def _apart(domains: list[str]) -> list[str]:
    """`domains`, if none lies below another: where `x.org` and `a.x.org` are given, tenant `a` would own what is `b`'s."""
    for one in domains:
        for other in domains:
            if one.endswith(f".{other}"):
                raise ValueError(f"{one} lies below {other}: one tenant's hosts would lie below another's")
    if len(set(domains)) < len(domains):
        raise ValueError("a domain is given twice")
    return domains


_APART: Final[Rule] = {
    "rule": "self.all(one, !self.exists(other, one.endsWith('.' + other)))",
    "message": "no domain may lie below another: one tenant's hosts would lie below another's",
}


class ClassIngress(ApiModel):
    """What tenants may publish with Ingresses, through controllers that run on the host."""

    classes: Annotated[list[DnsName], Field(min_length=1, max_length=16)] = Field(
        description="IngressClasses of the host that Ingresses may name; one that names none gets the only one.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    domains: Annotated[
        list[Annotated[DnsName, Field(max_length=190)]], Field(min_length=1, max_length=16), AfterValidator(_apart)
    ] = Field(
        description="Where tenants have hosts: for example.org, a tenant named t may use t.example.org and what lies below it.",
        json_schema_extra={"x-kubernetes-list-type": "set", **rules(_APART)},
    )
    controller_namespaces: Annotated[list[DnsLabel], Field(max_length=16)] | None = Field(
        None,
        description="Namespaces of the host whose pods, the ingress controllers, may reach the tenants' pods.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
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
        None, description="How many devices of the class all claims of a tenant may ask for together."
    )


_NO_DEVICES: Final[Rule] = {
    "rule": "self.all(key, key.startsWith('hugepages-') || (key.contains('/') && !key.contains('kubernetes.io/')))",
    "message": "a device's resource, such as rdma/hca, or huge pages, such as hugepages-2Mi",
}


class TenantClassSpec(ApiModel):
    """Defaults and bounds."""

    model_config = model_rules(
        {
            "rule": "!has(self.extendedResources) || self.extendedResources.all(key, !(key in self.gpuResources))",
            "message": "a resource is either of gpuResources or of extendedResources",
            "fieldPath": ".extendedResources",
        },
        {
            "rule": "!has(self.deviceClassQuota) || (has(self.allowedDeviceClasses) && "
            "self.deviceClassQuota.all(key, key in self.allowedDeviceClasses))",
            "message": "deviceClassQuota is of classes that allowedDeviceClasses lists",
            "fieldPath": ".deviceClassQuota",
        },
        {
            "rule": "!has(self.deviceClassQuota) || self.deviceClassQuota.all(key, "
            "!has(self.deviceClassQuota[key].resource) || self.deviceClassQuota[key].resource in self.gpuResources || "
            "(has(self.extendedResources) && self.deviceClassQuota[key].resource.contains('/') && "
            "self.deviceClassQuota[key].resource in self.extendedResources))",
            "message": "a device class stands for a resource of gpuResources or extendedResources",
            "fieldPath": ".deviceClassQuota",
        },
        {
            "rule": "!has(self.quota) || !has(self.quota.resources) || ['cpu', 'memory', 'ephemeral-storage'].all(key, "
            "!('limits.' + key in self.quota.resources) || (has(self.containerDefaults) && "
            "has(self.containerDefaults.limits) && key in self.containerDefaults.limits))",
            "message": "a quota of limits refuses pods without one: containerDefaults.limits must give it to them",
            "fieldPath": ".containerDefaults",
        },
        {
            "rule": "!has(self.kubernetesVersion) || !has(self.kubernetesVersions) || "
            "self.kubernetesVersion in self.kubernetesVersions",
            "message": "the default version must be one of kubernetesVersions",
            "fieldPath": ".kubernetesVersion",
        },
    )
    description: Annotated[str, Field(max_length=512)] | None = Field(None, description="What the class is for, for people.")
    kubernetes_version: KubernetesVersion | None = Field(
        None, description="Version of a tenant that names none; the installation's unless given."
    )
    kubernetes_versions: Annotated[list[KubernetesVersion], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Versions that tenants may choose; all that the installation offers unless given.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    control_plane: ClassControlPlane | None = Field(None, description="Size of the planes.")
    scheduling: ClassScheduling | None = Field(None, description="How tenants may schedule.")
    quota: ClassQuota | None = Field(None, description="Bounds on the quota of a tenant.")
    gpu_resources: Annotated[list[DeviceName], Field(min_length=1, max_length=8)] = Field(
        [labels.GPU],
        description="Names of the resources that count as GPUs.",
        json_schema_extra={"x-kubernetes-list-type": "set", **rules(DEVICE_NAMES)},
    )
    extended_resources: (
        Annotated[
            list[
                Annotated[
                    str, text(253, r"^(hugepages-[1-9][0-9]{0,5}(Ki|Mi|Gi)|[a-z0-9][-a-z0-9.]*/[A-Za-z0-9][-A-Za-z0-9_.]*)$")
                ]
            ],
            Field(max_length=16),
        ]
        | None
    ) = Field(
        None,
        description="Other resources that pods may ask for: network devices such as rdma/hca, and huge pages such as "
        "hugepages-2Mi. A tenant has none of one unless its quota, or the class's, names it.",
        json_schema_extra={"x-kubernetes-list-type": "set", **rules(_NO_DEVICES, DEVICE_NAMES)},
    )
    exposure: Exposure | None = Field(None, description="How a tenant's API server is reached.")
    nodes: ClassNodes | None = Field(None, description="The pool of nodes that tenants use.")
    isolation: ClassIsolation | None = Field(None, description="How hard tenants are kept apart.")
    priority_class_name: DnsName | None = Field(None, description="PriorityClass of the host that every pod gets.")
    allowed_priority_classes: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="PriorityClasses of the host that pods may ask for.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    allowed_device_classes: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="DeviceClasses of the host that resource claims may ask for; none unless given.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    device_class_quota: dict[ResourceName, DeviceClassQuota] | None = Field(
        None,
        max_length=16,
        description="What the devices of each allowed DeviceClass count against; of a class that is not here there are none.",
    )
    allowed_storage_classes: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="StorageClasses of the host that claims may ask for; the host's default one unless given. "
        "Claims that name none get the default one of those, which an only one is, or wait.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    allowed_snapshot_classes: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="VolumeSnapshotClasses of the host that snapshots of claims may ask for; no snapshots unless given.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    ingress: ClassIngress | None = Field(
        None, description="What tenants may publish with Ingresses; without it they stay in the plane."
    )
    container_defaults: ContainerDefaults | None = Field(None, description="What a container gets that does not say.")


class TenantClass(ApiModel):
    """A template for tenants, with the bounds they stay inside."""

    spec: TenantClassSpec = Field(description="Defaults and bounds.")
