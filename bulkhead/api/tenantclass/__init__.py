"""The TenantClass: an admin's template for tenants and the bounds they stay inside. Types only.

A section of a Tenant lies over the section of the same name here, and may only tighten it or choose from what is listed
(`controller.decide.bounds`). Images are chosen by the installation alone.
"""

from typing import Annotated, Final

from pydantic import Field

from bulkhead.api import labels
from bulkhead.api.backup import ClassBackup
from bulkhead.api.deletion import ClassDeletion
from bulkhead.api.exposure import ClassExposure
from bulkhead.api.fields import DEVICE_NAMES, ApiModel, DnsName, KubernetesVersion, ResourceName, Rule, model_rules, rules, text
from bulkhead.api.shares import SHARED, SHARED_CONFIG_MAPS, SharedConfigMaps, SharedSecrets
from bulkhead.api.tenantclass.access import ClassAccess
from bulkhead.api.tenantclass.audit import ClassAudit
from bulkhead.api.tenantclass.isolation import ClassIsolation
from bulkhead.api.tenantclass.networking import ClassIngress
from bulkhead.api.tenantclass.nodes import ClassNodes
from bulkhead.api.tenantclass.plane import ClassControlPlane
from bulkhead.api.tenantclass.quota import ClassQuota, ContainerDefaults, DeviceClassQuota
from bulkhead.api.tenantclass.scheduling import ClassScheduling
from bulkhead.api.tenantclass.status import TenantClassStatus

DeviceName = Annotated[str, text(253, r"^[a-z0-9][-a-z0-9.]*/[A-Za-z0-9][-A-Za-z0-9_.]*$")]

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
        None, description="Version of a tenant that names none; the installation's default if empty."
    )
    kubernetes_versions: Annotated[list[KubernetesVersion], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Versions that tenants may choose; by default all that the installation offers.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    control_plane: ClassControlPlane | None = Field(None, description="Size of the planes.")
    scheduling: ClassScheduling | None = Field(None, description="How tenants may schedule.")
    quota: ClassQuota | None = Field(None, description="Limits for the quota of a tenant.")
    gpu_resources: Annotated[list[DeviceName], Field(min_length=1, max_length=8)] = Field(
        [labels.GPU],
        description="Names of the resources that count as GPUs. Pods may request those that the chart's gpuResources also "
        "lists.",
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
        description="Other resources that pods may request: network devices such as rdma/hca, and huge pages such as "
        "hugepages-2Mi. A tenant has none of them unless its quota or the class's names them.",
        json_schema_extra={"x-kubernetes-list-type": "set", **rules(_NO_DEVICES, DEVICE_NAMES)},
    )
    access: ClassAccess | None = Field(None, description="Access to the tenants' APIs.")
    exposure: ClassExposure | None = Field(None, description="How a tenant's API server is reached from outside.")
    audit: ClassAudit | None = Field(
        None,
        description="The audit log of each plane. By default level Metadata, written to files that are lost with the pod. "
        "A change restarts these planes.",
    )
    backup: ClassBackup | None = Field(None, description="Snapshots of planes that are taken by themselves.")
    deletion: ClassDeletion | None = Field(None, description="How Tenants are deleted.")
    nodes: ClassNodes | None = Field(None, description="The pool of nodes that tenants use.")
    isolation: ClassIsolation | None = Field(None, description="How strictly tenants are isolated.")
    priority_class_name: DnsName | None = Field(None, description="PriorityClass of the host that every pod gets.")
    allowed_priority_classes: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="PriorityClasses of the host that pods may name.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    allowed_device_classes: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="DeviceClasses of the host that resource claims may name; none by default.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    device_class_quota: dict[ResourceName, DeviceClassQuota] | None = Field(
        None,
        max_length=16,
        description="What the devices of each allowed DeviceClass count against. Claims get no devices of a class that is not "
        "listed here.",
    )
    allowed_storage_classes: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="StorageClasses of the host that claims may name; by default only the host's default. Claims that name "
        "none get the default among these, or the only one; otherwise they wait.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    allowed_snapshot_classes: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="VolumeSnapshotClasses of the host that snapshots of claims may name; no snapshots by default.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    ingress: ClassIngress | None = Field(
        None, description="What tenants may publish with Ingresses; if empty, Ingresses stay in the plane."
    )
    shared_secrets: SharedSecrets | None = Field(
        None,
        description="Secrets of the host that are copied into tenants' planes, read-only, and kept up to date: credentials of "
        "registries, certificates. Of types Opaque, kubernetes.io/tls and kubernetes.io/dockerconfigjson.",
        json_schema_extra=SHARED,
    )
    shared_config_maps: SharedConfigMaps | None = Field(
        None,
        description="ConfigMaps of the host that are copied into tenants' planes, read-only, and kept up to date: bundles of "
        "CAs.",
        json_schema_extra=SHARED_CONFIG_MAPS,
    )
    container_defaults: ContainerDefaults | None = Field(None, description="Requests and limits of containers that set none.")


class TenantClass(ApiModel):
    """A template for tenants: defaults and upper bounds."""

    spec: TenantClassSpec = Field(description="Defaults and bounds.")
    status: TenantClassStatus | None = Field(None, description="The tenants of the class, as the controller last counted.")
