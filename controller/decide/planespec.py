"""From a Tenant and its class to the plane that is to be built. Pure: defaults are merged in here, and nothing is refused."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from bulkhead.api import durations, names, privileges
from bulkhead.api.quantity import Amount, InvalidQuantityError, mebibytes
from bulkhead.ledger.given import write
from bulkhead.ledger.model import Line, Share
from controller import allotment, cohorts
from controller.decide.bounds import object_counts, quota_mib
from controller.decide.case import Case
from controller.decide.exposure import exposure_of
from controller.decide.storage import claims_of, room
from controller.existing import Existing, Slot
from controller.plane import apiserver, etcd, rights
from controller.plane.authentication import ISSUERS, kept_keys
from controller.plane.spec import COMPONENTS, DRAIN_SECONDS, PLANE, STORAGE_SIZE, Budget, Images, PlaneSpec, usual_budget
from controller.plane.trail import Audit, Receiver
from controller.plane.ways import Revoked, Trusted
from controller.sections import section_of, text_or_none

# The only minor version with scheduling.k8s.io/v1alpha2: with its flags another API server would not even start.
POD_GROUP_VERSION: Final = "v1.36."
_LEAST_MIB: Final = 32


def plane_of(case: Case) -> PlaneSpec:
    """The plane of a Tenant in which nothing is to be refused, without its slice of the service range."""
    spec, bounds, settings = case.spec, case.bounds, case.settings
    isolation, control = case.merged("isolation"), case.merged("controlPlane")
    storage = section_of(control, "storage")
    size, storage_class = str(storage.get("size") or STORAGE_SIZE), str(storage.get("className") or settings.storage_class)
    tenant = str(case.tenant["metadata"]["name"])
    ingress = section_of(bounds, "ingress")
    made = PlaneSpec(
        tenant=tenant,
        uid=str(case.tenant["metadata"]["uid"]),
        version=case.version,
        service_slice="",
        images=Images(
            bulkhead=settings.image_bulkhead,
            kubernetes=settings.image(settings.image_kubernetes, case.version),
            etcd=settings.image_etcd,
            coredns=settings.image_coredns,
        ),
        image_pull_policy=settings.image_pull_policy,
        image_pull_secrets=(names.PULL_SECRET,) if settings.pull_secrets else (),
        own_images=settings.slurm_images if settings.pull_secrets and case.slurm is not None else (),
        placement=settings.plane_placement.narrowed(section_of(section_of(bounds, "controlPlane"), "nodeSelector")),
        replicas=int(control.get("replicas") or 1),
        storage_size=size,
        etcd_quota_mib=quota_mib(storage),
        storage_class=storage_class or None,
        volume_size=size,
        volume_class=storage_class or None,
        **_budgets(control, quota_mib(storage)),
        gpu_resources=tuple(allotment.gpu_resources(bounds)),
        extended_resources=tuple(allotment.extended_resources(bounds)),
        limits=_by_name(allotment.limits(spec, bounds)),
        object_limits=_by_name(_object_limits(bounds, spec)),
        container_defaults=allotment.container_defaults(bounds),
        pod_bounds=allotment.pod_bounds(bounds),
        most_per_claim=allotment.most_per_claim(bounds),
        node_selector=tuple(sorted(case.pool.items())),
        dedicated=case.wants_nodes,
        node_tolerations=tuple(section_of(bounds, "nodes").get("tolerations") or ()),
        allowed_tolerations=tuple(section_of(bounds, "nodes").get("allowedTolerations") or ()),
        drain_seconds=_drain_seconds(section_of(bounds, "nodes").get("drainDeadline")),
        egress_cidrs=tuple(section_of(isolation, "network").get("egressCIDRs") or ()),
        reserved=settings.reserved if case.reserved is None else case.reserved,
        reach_reserved=tuple(section_of(section_of(bounds, "isolation"), "network").get("reachReserved") or ()),
        pod_addresses=case.pod_addresses,
        pod_security=str(isolation.get("podSecurity") or "baseline"),
        # A class that asks for it asks it of all its tenants, and no tenant adds to its profiles.
        user_namespaces=any(section_of(each, "isolation").get("userNamespaces") is True for each in (bounds, spec)),
        drop_privileges=drops_privileges(case),
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
        host_api=case.host_api,
        host_api_anywhere=settings.host_api_by == "Port",
        metrics_from=settings.metrics_from,
        system_namespace=settings.system_namespace,
        admins=tuple(section_of(spec, "access").get("admins") or ()),
        issuers=_issuers(case),
        revoked=revoked_of(spec),
        certificates_revoked=str(section_of(spec, "access").get("certificatesRevoked") or ""),
        audit=_audit(bounds, room(size, claims_of(case.existing.values(), names.plane_namespace(tenant))), tenant),
    )
    exposure = exposure_of(case.tenant, bounds, settings, case.existing, made.namespace)
    made = with_cohort(made, case)
    made = replace(made, exposure=replace(exposure, route_version=case.route_version))
    return as_it_began(made, case.existing)


def with_cohort(spec: PlaneSpec, case: Case, kept: Mapping[Line, Share] = MappingProxyType({})) -> PlaneSpec:
    """A plane with what its tenant lends and borrows; `kept` are shares that stay as they are noted."""
    limits = dict(spec.limits)
    given = cohorts.given(spec.tenant, case.spec, case.bounds, limits)
    if given is None:
        # Pods that still wait at the gate of a tenant that has left its cohort are admitted as before.
        return replace(spec, ledger=Slot("RoleBinding", spec.work_namespace, rights.LEDGER) in case.existing)
    resources = {resource for _, resource in kept}
    shares = {line: share for line, share in given.shares.items() if line[1] not in resources} | dict(kept)
    given = replace(given, shares=shares)
    return replace(
        spec,
        given=write(given),
        ceilings=_by_name(cohorts.ceilings(given, case.given, case.bounds, limits)),
        gated_resources=cohorts.gated_resources(case.spec, case.bounds),
        gated_gangs=cohorts.gangs(case.bounds),
        ledger=True,
    )


def as_it_began(spec: PlaneSpec, existing: Existing) -> PlaneSpec:
    """A plane keeps the template of its volumes and the etcd members that it began with.

    Claims cannot move, the template never changes (`controller.decide.storage` grows the claims), and members that are merely
    added would be a second cluster. How its API server ends changes with its
    next image: no plane is restarted for that alone.
    """
    running = existing.get(Slot("StatefulSet", spec.namespace, PLANE))
    if running is None:
        return replace(spec, ends_soon=True)
    spec = replace(spec, ends_soon=apiserver.ends_soon(running, spec.images.kubernetes))
    claims = running["spec"].get("volumeClaimTemplates") or [{}]
    began = section_of(claims[0], "spec")
    size = section_of(section_of(began, "resources"), "requests").get("storage") or spec.storage_size
    return replace(
        spec,
        storage_class=began.get("storageClassName"),
        storage_size=str(size),
        replicas=etcd.members_of(running) or spec.replicas,
    )


def _drain_seconds(deadline: Any) -> int:
    """For how long budgets hold up a drain, as the class says it."""
    if deadline == "Never":
        return -1
    found = durations.seconds(deadline)
    return DRAIN_SECONDS if found is None else found


def _issuers(case: Case) -> tuple[Trusted, ...]:
    """The identity providers, each with the keys that it has now or, where it does not say, had at last."""
    kept = case.existing.get(Slot("ConfigMap", names.plane_namespace(str(case.tenant["metadata"]["name"])), ISSUERS))
    found = []
    for provider in case.providers:
        answer = case.issuers.get(provider.source)
        keys, trouble = (answer.keys, answer.trouble) if answer is not None else ("", "")
        found.append(Trusted(provider, keys or kept_keys(kept, provider), trouble, asked=answer is not None))
    return tuple(found)


def revoked_of(spec: Mapping[str, Any]) -> tuple[Revoked, ...]:
    """Whose tokens a Tenant says do not count."""
    return tuple(map(_revoked, section_of(spec, "access").get("revoked") or ()))


def _revoked(entry: Mapping[str, Any]) -> Revoked:
    before = entry.get("before")
    moment = math.ceil(datetime.fromisoformat(str(before)).timestamp()) if before else None
    return Revoked(str(entry.get("kind") or "User"), str(entry.get("name")), moment)


def _audit(bounds: Mapping[str, Any], volume: str, tenant: str) -> Audit | None:
    """The class's audit trail, no larger on etcd's volume than a quarter of it."""
    if "audit" not in bounds:
        return None
    asked = section_of(bounds, "audit")
    made = Audit(
        requests=asked.get("level") == "Request",
        sink=str(asked.get("sink") or "File"),
        file_mib=mebibytes(asked.get("maxSize") or "32Mi"),
        backups=int(asked.get("maxBackups") or 2),
        days=int(asked.get("maxAgeDays") or 30),
        retain=asked.get("retain") is True,
        receiver=_receiver(section_of(asked, "webhook"), tenant),
    )
    if not made.retain:
        return made
    return replace(made, file_mib=max(1, min(made.file_mib, mebibytes(volume) // 4 // (made.backups + 2))))


def _receiver(asked: Mapping[str, Any], tenant: str) -> Receiver | None:
    """Where the trail is sent, without the credential, which is read once the tenant may be built."""
    if not asked:
        return None
    return Receiver(
        url=str(asked["url"]).replace("{tenant}", tenant),
        address=str(asked["address"]),
        certificate_authority=str(asked["certificateAuthority"]),
        secret=str(asked["secretName"]),
        namespace=str(asked.get("namespace") or ""),
    )


def offers_pod_groups(bounds: Mapping[str, Any]) -> bool:
    """Whether tenants of this class have PodGroups."""
    return section_of(bounds, "scheduling").get("podGroups") is True


def drops_privileges(case: Case) -> str:
    """From whose pods the plane takes the privileges that the host refuses."""
    return str(case.merged("isolation").get("dropPrivileges") or privileges.NEVER)


def can_serve_pod_groups(version: str) -> bool:
    """Whether planes of a version do, with the flags for it."""
    return version.startswith(POD_GROUP_VERSION)


def _budgets(control: Mapping[str, Any], quota: int) -> dict[str, Any]:
    """What class or tenant say about the components' resources, over what is usual with such a store."""
    resources, replicas = section_of(control, "resources"), int(control.get("replicas") or 1)
    found: dict[str, Any] = {}
    for field, attribute in COMPONENTS.items():
        asked = section_of(resources, field)
        requests, limits = section_of(asked, "requests"), section_of(asked, "limits")
        usual = usual_budget(attribute, quota, replicas)
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


def _object_limits(bounds: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Amount]:
    """Object counts: what the tenant asks for, else what its class allows."""
    wanted = section_of(section_of(spec, "quota"), "objects")
    return object_counts(bounds) | {str(name): Amount.read(number) for name, number in wanted.items()}


def _by_name(amounts: Mapping[str, Amount]) -> tuple[tuple[str, Amount], ...]:
    return tuple((name, amounts[name]) for name in sorted(amounts))
