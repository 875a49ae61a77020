"""From a Tenant and its class to what is to be built, or to the reason why nothing is.

Pure. A refusal names the condition's fixed reason and the field, and the caller then changes nothing of what exists. The API
server has checked the shapes already (CRD schema and CEL); here stands what needs a second object or the settings.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bulkhead.api import names
from bulkhead.api.conditions import Reason
from bulkhead.api.quantity import InvalidQuantityError, mebibytes
from controller import allotment
from controller.decide.bounds import Question, beyond, object_counts
from controller.plane.addresses import Reserved
from controller.plane.spec import BUDGETS, COMPONENTS, STORAGE_SIZE, Budget, Images, Obj, PlaneSpec
from controller.refusal import Refusal
from controller.sections import over, section_of, text_or_none
from controller.settings import Settings
from controller.slurm.decide.resolve import UnresolvableError, resolve
from controller.slurm.spec import SlurmSpec

# The only minor version with scheduling.k8s.io/v1alpha2: with its flags another API server would not even start.
_POD_GROUP_VERSION = "v1.36."


def admit(
    tenant: Obj,
    tenant_class: Obj | None,
    settings: Settings,
    *,
    service_slice: str,
    host_api: tuple[tuple[str, int], ...] = (),
    reserved: tuple[Reserved, ...] | None = None,
    pod_addresses: tuple[str, ...] = (),
) -> PlaneSpec | Refusal:
    """The plane to build, or why not; `reserved` is what the installation knows and what was seen of the host."""
    refusal = refuse(tenant, tenant_class, settings)
    if refusal is not None or tenant_class is None:
        return refusal or Refusal(Reason.UNKNOWN_CLASS, "spec.class: no such TenantClass")
    return plane_of(
        tenant,
        tenant_class,
        settings,
        service_slice=service_slice,
        host_api=host_api,
        reserved=reserved,
        pod_addresses=pod_addresses,
    )


def plane_of(
    tenant: Obj,
    tenant_class: Obj,
    settings: Settings,
    *,
    service_slice: str,
    host_api: tuple[tuple[str, int], ...] = (),
    reserved: tuple[Reserved, ...] | None = None,
    pod_addresses: tuple[str, ...] = (),
) -> PlaneSpec:
    """The plane of a Tenant in which nothing is to be refused."""
    spec, bounds = section_of(tenant, "spec"), section_of(tenant_class, "spec")
    isolation, control = _merged(bounds, spec, "isolation"), _merged(bounds, spec, "controlPlane")
    storage = section_of(control, "storage")
    ingress = section_of(bounds, "ingress")
    version = _version(spec, bounds, settings)
    return PlaneSpec(
        tenant=str(tenant["metadata"]["name"]),
        uid=str(tenant["metadata"]["uid"]),
        version=version,
        service_slice=service_slice,
        images=Images(
            bulkhead=settings.image_bulkhead,
            kubernetes=settings.image_kubernetes.replace("{version}", version),
            etcd=settings.image_etcd,
            coredns=settings.image_coredns,
        ),
        image_pull_policy=settings.image_pull_policy,
        replicas=int(control.get("replicas") or 1),
        storage_size=str(storage.get("size") or STORAGE_SIZE),
        storage_class=str(storage.get("className") or settings.storage_class) or None,
        **_budgets(control),
        gpu_resources=tuple(allotment.gpu_resources(bounds)),
        extended_resources=tuple(allotment.extended_resources(bounds)),
        limits=tuple(sorted(allotment.limits(spec, bounds).items())),
        object_limits=tuple(sorted(_object_limits(bounds, spec).items())),
        container_defaults=allotment.container_defaults(bounds),
        pod_bounds=allotment.pod_bounds(bounds),
        most_per_claim=allotment.most_per_claim(bounds),
        node_selector=tuple(sorted(pool(tenant, tenant_class).items())),
        dedicated=wants_dedicated(tenant, tenant_class),
        node_tolerations=tuple(section_of(bounds, "nodes").get("tolerations") or ()),
        allowed_tolerations=tuple(section_of(bounds, "nodes").get("allowedTolerations") or ()),
        egress_cidrs=tuple(section_of(isolation, "network").get("egressCIDRs") or ()),
        reserved=settings.reserved if reserved is None else reserved,
        reach_reserved=tuple(section_of(section_of(bounds, "isolation"), "network").get("reachReserved") or ()),
        pod_addresses=pod_addresses,
        pod_security=str(isolation.get("podSecurity") or "baseline"),
        # A class that asks for it asks it of all its tenants, and its profiles are nobody's to add to.
        user_namespaces=any(section_of(each, "isolation").get("userNamespaces") is True for each in (bounds, spec)),
        seccomp_profiles=tuple(section_of(bounds, "isolation").get("allowedSeccompProfiles") or ()),
        apparmor_profiles=tuple(section_of(bounds, "isolation").get("allowedAppArmorProfiles") or ()),
        runtime_class=text_or_none(isolation, "runtimeClassName"),
        allowed_runtime_classes=tuple(isolation.get("allowedRuntimeClasses") or ()),
        workload_priority_class=text_or_none(bounds, "priorityClassName") or settings.workload_priority_class or None,
        allowed_priority_classes=tuple(bounds.get("allowedPriorityClasses") or ()),
        allowed_storage_classes=tuple(bounds.get("allowedStorageClasses") or ()),
        device_classes=tuple(allotment.device_classes(bounds).items()),
        allowed_snapshot_classes=tuple(bounds.get("allowedSnapshotClasses") or ()),
        ingress_classes=tuple(ingress.get("classes") or ()),
        ingress_domains=tuple(ingress.get("domains") or ()),
        ingress_controllers=tuple(ingress.get("controllerNamespaces") or ()),
        pod_groups=offers_pod_groups(bounds),
        plane_priority_class=settings.plane_priority_class or None,
        cluster_domain=settings.cluster_domain,
        dns_upstreams=settings.dns_upstreams,
        plane_client_cidrs=settings.plane_client_cidrs,
        host_api=host_api,
        system_namespace=settings.system_namespace,
        admins=tuple(section_of(spec, "access").get("admins") or ()),
    )


def refuse(tenant: Obj, tenant_class: Obj | None, settings: Settings) -> Refusal | None:
    """Why the tenant cannot be built, looking at no existing object but its class."""
    try:
        names.check_tenant_name(str(tenant["metadata"]["name"]))
    except names.InvalidTenantNameError as error:
        return Refusal(Reason.INVALID_NAME, str(error))
    spec = section_of(tenant, "spec")
    if tenant_class is None:
        return Refusal(Reason.UNKNOWN_CLASS, f"spec.class: no TenantClass is named {spec.get('class')!r}")
    bounds = section_of(tenant_class, "spec")
    version = _version(spec, bounds, settings)
    offered = offered_versions(bounds, settings)
    if version not in offered:
        return Refusal(
            Reason.VERSION_UNAVAILABLE,
            f"spec.kubernetesVersion: {version} cannot be had; available: {', '.join(offered) or 'none'}",
        )
    if offers_pod_groups(bounds) and not can_serve_pod_groups(version):
        return Refusal(
            Reason.NOT_SUPPORTED,
            f"spec.kubernetesVersion: {version} does not serve the PodGroups that the class offers; {_POD_GROUP_VERSION}x does",
        )
    found = beyond(Question(spec, bounds, settings.storage_class))
    if found:
        return Refusal(Reason.OUT_OF_BOUNDS, "; ".join(each.message for each in found))
    return allotment.refuse(spec, bounds) or _refuse_shape(spec, bounds) or _refuse_slurm(tenant, tenant_class, settings)


def slurm(tenant: Obj, tenant_class: Obj, settings: Settings) -> SlurmSpec | None:
    """The Slurm cluster of a tenant that was admitted; None when it has none."""
    try:
        return resolve(tenant, tenant_class, settings)
    except UnresolvableError:
        return None


def pool(tenant: Obj, tenant_class: Obj) -> dict[str, str]:
    """The labels of the nodes that a tenant uses."""
    nodes = _merged(section_of(tenant_class, "spec"), section_of(tenant, "spec"), "nodes")
    return {str(key): str(value) for key, value in section_of(nodes, "selector").items()}


def wants_dedicated(tenant: Obj, tenant_class: Obj) -> bool:
    """Whether the pool is to be the tenant's alone."""
    return _merged(section_of(tenant_class, "spec"), section_of(tenant, "spec"), "nodes").get("dedicated") is True


def offers_pod_groups(bounds: Mapping[str, Any]) -> bool:
    """Whether tenants of this class have PodGroups."""
    return section_of(bounds, "scheduling").get("podGroups") is True


def can_serve_pod_groups(version: str) -> bool:
    """Whether planes of a version do, with the flags for it."""
    return version.startswith(_POD_GROUP_VERSION)


def offered_versions(bounds: Mapping[str, Any], settings: Settings) -> tuple[str, ...]:
    """The versions that both the class and the installation offer."""
    listed = bounds.get("kubernetesVersions")
    if not listed:
        return settings.kubernetes_versions
    return tuple(version for version in settings.kubernetes_versions if version in listed)


def _refuse_shape(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> Refusal | None:
    replicas = int(_merged(bounds, spec, "controlPlane").get("replicas") or 1)
    if replicas not in {1, 3}:
        return Refusal(Reason.OUT_OF_BOUNDS, f"spec.controlPlane.replicas: {replicas}; 1 and 3 are possible")
    nodes = _merged(bounds, spec, "nodes")
    if nodes.get("dedicated") and not section_of(nodes, "selector"):
        return Refusal(
            Reason.INVALID_CONFIGURATION,
            "spec.nodes.dedicated: needs a selector, of tenant or class: without one the pool is every node of the host",
        )
    asked = {
        "spec.quota.cohort": section_of(spec, "quota").get("cohort"),
        "spec.access.oidc": section_of(spec, "access").get("oidc"),
        "spec.hibernation.enabled": section_of(spec, "hibernation").get("enabled"),
    }
    missing = next((field for field, value in asked.items() if value), None)
    # Saying no is honest; taking the field and doing nothing about it would be a promise broken in silence.
    return Refusal(Reason.NOT_SUPPORTED, f"{missing}: not available in this version") if missing else None


def _refuse_slurm(tenant: Obj, tenant_class: Obj, settings: Settings) -> Refusal | None:
    try:
        resolve(tenant, tenant_class, settings)
    except UnresolvableError as error:
        return Refusal(error.reason, str(error))
    return None


def paused(tenant: Obj, now: datetime) -> Refusal | None:
    """Whether the controller is asked to keep its hands off for now."""
    until = section_of(tenant, "spec").get("pausedUntil")
    if not until or now >= datetime.fromisoformat(str(until)):
        return None
    return Refusal(Reason.PAUSED, f"spec.pausedUntil: nothing is changed until {until}")


_LEAST_MIB = 32


def _budgets(control: Mapping[str, Any]) -> dict[str, Any]:
    """What class or tenant say about the components' resources, over the built-in budgets."""
    resources = section_of(control, "resources")
    found: dict[str, Any] = {}
    for field, attribute in COMPONENTS.items():
        asked = section_of(resources, field)
        if not asked:
            continue
        requests, limits = section_of(asked, "requests"), section_of(asked, "limits")
        usual = BUDGETS[attribute]
        found[attribute] = Budget(
            cpu=str(requests.get("cpu", usual.cpu)),
            memory=str(requests.get("memory", usual.memory)),
            memory_limit_mib=_memory_limit(limits) or usual.memory_limit_mib,
            cpu_limit=text_or_none(limits, "cpu"),
            cores=usual.cores,
        )
    return found


def _memory_limit(limits: Mapping[str, Any]) -> int | None:
    try:
        return max(_LEAST_MIB, mebibytes(limits.get("memory")))
    except InvalidQuantityError:
        return None


def _version(spec: Mapping[str, Any], bounds: Mapping[str, Any], settings: Settings) -> str:
    chosen = spec.get("kubernetesVersion") or bounds.get("kubernetesVersion")
    if chosen:
        return str(chosen)
    offered = offered_versions(bounds, settings)
    return offered[0] if offered else "none"


def _object_limits(bounds: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, str]:
    """Object counts: what the tenant asks for, else what its class allows."""
    wanted = section_of(section_of(spec, "quota"), "objects")
    return object_counts(bounds) | {str(name): str(value) for name, value in wanted.items()}


def _merged(bounds: Mapping[str, Any], spec: Mapping[str, Any], field: str) -> dict[str, Any]:
    """A section of the tenant's spec over the same section of its class."""
    return over(section_of(bounds, field), section_of(spec, field))
