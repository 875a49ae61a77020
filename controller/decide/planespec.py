"""From a Tenant and its class to the plane to build. Pure: defaults are merged in here, and nothing is refused."""

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from bulkhead.api import durations, names, privileges
from bulkhead.api.moments import moment_of
from bulkhead.api.objects import Obj
from bulkhead.api.planecpu import usual_cpu_limit
from bulkhead.api.planevolume import STORAGE_SIZE
from bulkhead.api.quantity import Amount, InvalidQuantityError, mebibytes, readable
from bulkhead.api.syncersettings import GRACE_SECONDS, POD_BYTES
from bulkhead.ledger.given import write
from bulkhead.ledger.model import Line, Share
from controller import allotment, cohorts
from controller.decide.audit import audit_of
from controller.decide.backup import backup_of
from controller.decide.bounds.controlplane import quota_mib
from controller.decide.bounds.quota import object_counts
from controller.decide.case import Case
from controller.decide.deletion import deletion_of
from controller.decide.exposure import exposure_of
from controller.decide.storage import claims_of, room
from controller.existing import Existing, Slot
from controller.plane import apiserver, etcd, rights
from controller.plane.authentication import ISSUERS, kept_keys
from controller.plane.budgets import COMPONENTS, Budget, Budgets, usual_budget
from controller.plane.sections import (
    DRAIN_SECONDS,
    Access,
    ControlPlane,
    Images,
    Installation,
    Isolation,
    Ledger,
    Network,
    Nodes,
    Offers,
    Quota,
    Storage,
    Syncing,
)
from controller.plane.spec import PLANE, PlaneSpec
from controller.plane.ways import Exposure, Revoked, Trusted
from controller.sections import section_of, text_or_none

# The only minor version with scheduling.k8s.io/v1alpha2: with its flags another API server would not even start.
POD_GROUP_VERSION: Final = "v1.36."
_MIN_MEMORY_LIMIT_MIB: Final = 32


def plane_of(case: Case) -> PlaneSpec:
    """The plane of an admitted Tenant, without its slice of the service range."""
    metadata = case.tenant["metadata"]
    spec = PlaneSpec(
        tenant=str(metadata["name"]),
        uid=str(metadata["uid"]),
        # Until the record of the plane was read, which facet `identity` does before anything depends on it.
        identity=str(metadata["uid"]),
        version=case.version,
        service_slice="",
        images=_images(case),
        control_plane=_control_plane(case),
        budgets=_budgets(case),
        storage=_storage(case),
        quota=_quota(case),
        nodes=_nodes(case),
        isolation=_isolation(case),
        offers=_offers(case),
        network=_network(case),
        installation=_installation(case),
        access=_access(case),
        backup=backup_of(case.merged("backup")),
        deletion=deletion_of(case.spec, case.bounds),
        syncing=_syncing(case),
    )
    spec = replace(spec, exposure=_exposure(case, spec.namespace), audit=audit_of(case, spec))
    return as_it_began(with_cohort(spec, case), case.existing)


def with_cohort(spec: PlaneSpec, case: Case, kept: Mapping[Line, Share] = MappingProxyType({})) -> PlaneSpec:
    """The plane with what its tenant lends and borrows; `kept` are shares that stay as they are recorded."""
    limits = dict(spec.quota.limits)
    given = cohorts.given(spec.tenant, case.spec, case.bounds, limits)
    if given is None:
        # If a tenant has left its cohort, its pods that still wait at the gate are admitted as before.
        admits = Slot("RoleBinding", spec.work_namespace, rights.LEDGER) in case.existing
        return replace(spec, ledger=replace(spec.ledger, admits=admits))
    resources = {resource for _, resource in kept}
    shares = {line: share for line, share in given.shares.items() if line[1] not in resources} | dict(kept)
    given = replace(given, shares=shares)
    ledger = Ledger(
        ceilings=_by_name(cohorts.ceilings(given, case.given, case.bounds, limits)),
        given=write(given),
        gated_resources=cohorts.gated_resources(case.spec, case.bounds),
        gated_gangs=cohorts.gangs(case.bounds),
        admits=True,
    )
    return replace(spec, ledger=ledger)


def as_it_began(spec: PlaneSpec, existing: Existing) -> PlaneSpec:
    """The plane with the volume template and the number of etcd members that it was started with.

    Claims cannot move, the template is immutable (`controller.decide.storage` grows the claims), and members are added by a
    migration (`controller.plane.membership`), only if the Tenant itself asks: another default of its class restarts no plane.
    How the API server ends changes only with its next image: no plane restarts just for that.
    """
    running = existing.get(Slot("StatefulSet", spec.namespace, PLANE))
    control, storage = spec.control_plane, spec.storage
    if running is None:
        return replace(spec, control_plane=replace(control, ends_soon=True))
    claims = running["spec"].get("volumeClaimTemplates") or [{}]
    began = section_of(claims[0], "spec")
    size = section_of(section_of(began, "resources"), "requests").get("storage") or storage.template_size
    return replace(
        spec,
        control_plane=replace(
            control,
            replicas=_members(running, control),
            ends_soon=apiserver.ends_soon(running, spec.images.kubernetes),
        ),
        storage=replace(storage, template_size=str(size), template_class=began.get("storageClassName")),
    )


def _members(running: Obj, control: ControlPlane) -> int:
    """The members that a running plane has, or gets."""
    began = etcd.members_of(running) or control.replicas
    return max(began, control.replicas) if control.grows else began


def _images(case: Case) -> Images:
    settings = case.settings
    return Images(
        bulkhead=settings.image_bulkhead,
        kubernetes=settings.image(settings.image_kubernetes, case.version),
        etcd=settings.image_etcd,
        coredns=settings.image_coredns,
        pull_policy=settings.image_pull_policy,
        pull_secrets=(names.PULL_SECRET,) if settings.pull_secrets else (),
        own=settings.slurm_images if settings.pull_secrets and case.slurm is not None else (),
    )


def _control_plane(case: Case) -> ControlPlane:
    settings, bounds = case.settings, section_of(case.bounds, "controlPlane")
    placement = settings.plane_placement.narrowed(section_of(bounds, "nodeSelector"))
    return ControlPlane(
        replicas=_replicas(case.merged("controlPlane")),
        grows=bool(section_of(case.spec, "controlPlane").get("replicas")),
        placement=placement.required(str(bounds.get("spread") or "")),
        priority_class=settings.plane_priority_class or None,
    )


def _replicas(control: Mapping[str, Any]) -> int:
    return int(control.get("replicas") or 1)


def _storage(case: Case) -> Storage:
    """The storage of a new plane: its volumes match its template."""
    asked = section_of(case.merged("controlPlane"), "storage")
    size = str(asked.get("size") or STORAGE_SIZE)
    class_name = str(asked.get("className") or case.settings.storage_class) or None
    return Storage(
        template_size=size,
        template_class=class_name,
        volume_size=size,
        volume_class=class_name,
        quota_mib=_quota_mib(case),
    )


def _quota_mib(case: Case) -> int:
    """The size of the store in MiB. If it follows the volume, then the volume that is there, not the one that it grows to."""
    asked = section_of(case.merged("controlPlane"), "storage")
    claims = claims_of(case.existing.values(), names.plane_namespace(str(case.tenant["metadata"]["name"])))
    return quota_mib({**asked, "size": room(str(asked.get("size") or STORAGE_SIZE), claims)})


def _quota(case: Case) -> Quota:
    bounds, offered = case.bounds, section_of(case.bounds, "quota")
    return Quota(
        gpu_resources=tuple(allotment.gpu_resources(bounds)),
        extended_resources=tuple(allotment.extended_resources(bounds)),
        limits=_by_name(allotment.limits(case.spec, bounds)),
        object_limits=_by_name(_object_limits(bounds, case.spec)),
        container_defaults=allotment.container_defaults(bounds),
        pod_bounds=allotment.pod_bounds(bounds),
        most_per_claim=allotment.most_per_claim(bounds),
        most_pod_bytes=int(readable(offered.get("maxPodBytes")) or POD_BYTES),
        most_endpoints=int(readable(offered.get("maxServiceEndpoints")) or 0),
        device_classes=tuple(allotment.device_classes(bounds).items()),
    )


def _nodes(case: Case) -> Nodes:
    offered = section_of(case.bounds, "nodes")
    return Nodes(
        selector=tuple(sorted(case.pool.items())),
        dedicated=case.wants_nodes,
        tolerations=tuple(offered.get("tolerations") or ()),
        allowed_tolerations=tuple(offered.get("allowedTolerations") or ()),
        drain_seconds=_drain_seconds(offered.get("drainDeadline")),
        grace_seconds=min(GRACE_SECONDS, durations.seconds(offered.get("maxGracePeriod")) or GRACE_SECONDS),
    )


def _drain_seconds(deadline: Any) -> int:
    """How long disruption budgets block a drain, in seconds; from the class."""
    if deadline == "Never":
        return -1
    found = durations.seconds(deadline)
    return DRAIN_SECONDS if found is None else found


def _syncing(case: Case) -> Syncing:
    offered, usual = section_of(case.bounds, "controlPlane"), Syncing()
    logs, sessions = (readable(offered.get(field)) for field in ("logRate", "sessionRate"))
    return Syncing(log_rate=int(logs or usual.log_rate), session_rate=int(sessions or usual.session_rate))


def _isolation(case: Case) -> Isolation:
    asked, offered = case.merged("isolation"), section_of(case.bounds, "isolation")
    # If the class sets it, it applies to all its tenants, and no tenant adds profiles.
    own_users = any(section_of(side, "isolation").get("userNamespaces") is True for side in (case.bounds, case.spec))
    # A class that prefers them bounds nothing: a Tenant may do without.
    declined = section_of(case.spec, "isolation").get("userNamespaces") is False
    return Isolation(
        pod_security=str(asked.get("podSecurity") or "baseline"),
        user_namespaces=own_users,
        prefer_user_namespaces=offered.get("preferUserNamespaces") is True and not own_users and not declined,
        drop_privileges=drops_privileges(case),
        seccomp_profiles=tuple(offered.get("allowedSeccompProfiles") or ()),
        apparmor_profiles=tuple(offered.get("allowedAppArmorProfiles") or ()),
        runtime_class=text_or_none(asked, "runtimeClassName"),
        allowed_runtime_classes=tuple(asked.get("allowedRuntimeClasses") or ()),
    )


def _offers(case: Case) -> Offers:
    bounds, ingress = case.bounds, section_of(case.bounds, "ingress")
    return Offers(
        default_priority_class=text_or_none(bounds, "priorityClassName") or case.settings.workload_priority_class or None,
        priority_classes=tuple(bounds.get("allowedPriorityClasses") or ()),
        storage_classes=tuple(bounds.get("allowedStorageClasses") or ()),
        default_storage_classes=case.default_storage_classes,
        snapshot_classes=tuple(bounds.get("allowedSnapshotClasses") or ()),
        ingress_classes=tuple(ingress.get("classes") or ()),
        ingress_domains=tuple(ingress.get("domains") or ()),
        ingress_controllers=tuple(ingress.get("controllerNamespaces") or ()),
        pod_groups=offers_pod_groups(bounds),
    )


def _network(case: Case) -> Network:
    return Network(
        egress_cidrs=tuple(section_of(case.merged("isolation"), "network").get("egressCIDRs") or ()),
        reserved=case.settings.reserved if case.reserved is None else case.reserved,
        reach_reserved=tuple(section_of(section_of(case.bounds, "isolation"), "network").get("reachReserved") or ()),
        pod_addresses=case.pod_addresses,
    )


def _installation(case: Case) -> Installation:
    settings = case.settings
    return Installation(
        system_namespace=settings.system_namespace,
        cluster_domain=settings.cluster_domain,
        dns_upstreams=settings.dns_upstreams,
        client_cidrs=settings.plane_client_cidrs,
        host_api=case.host_api,
        host_api_anywhere=settings.host_api_by == "Port",
        cluster_dns=settings.cluster_dns,
        metrics_from=settings.metrics_from,
        gpu_metrics=bool(settings.gpu_metrics),
        node_figures=bool(settings.node_figures),
        tracing=settings.tracing,
    )


def _access(case: Case) -> Access:
    asked = section_of(case.spec, "access")
    return Access(
        admins=tuple(asked.get("admins") or ()),
        issuers=_issuers(case),
        revoked=revoked_of(case.spec),
        certificates_revoked=str(asked.get("certificatesRevoked") or ""),
    )


def _exposure(case: Case, namespace: str) -> Exposure:
    """How the plane in `namespace` is reached from outside the host."""
    exposure = exposure_of(case.tenant, case.bounds, case.settings, case.existing, namespace)
    return replace(exposure, route_version=case.route_version)


def _issuers(case: Case) -> tuple[Trusted, ...]:
    """The identity providers, each with its present keys or, if it does not answer, its last ones."""
    kept = case.existing.get(Slot("ConfigMap", names.plane_namespace(str(case.tenant["metadata"]["name"])), ISSUERS))
    found = []
    for provider in case.providers:
        answer = case.issuers.get(provider.source)
        keys, trouble = (answer.keys, answer.trouble) if answer is not None else ("", "")
        found.append(Trusted(provider, keys or kept_keys(kept, provider), trouble, asked=answer is not None))
    return tuple(found)


def revoked_of(spec: Mapping[str, Any]) -> tuple[Revoked, ...]:
    """The users and groups whose tokens a Tenant revokes."""
    return tuple(map(_revoked, section_of(spec, "access").get("revoked") or ()))


def _revoked(entry: Mapping[str, Any]) -> Revoked:
    # One that cannot be read, which an API server may take, revokes all tokens, as none does.
    before = moment_of(entry.get("before"))
    moment = math.ceil(before.timestamp()) if before is not None else None
    return Revoked(str(entry.get("kind") or "User"), str(entry.get("name")), moment)


def offers_pod_groups(bounds: Mapping[str, Any]) -> bool:
    """Whether tenants of this class have PodGroups."""
    return section_of(bounds, "scheduling").get("podGroups") is True


def drops_privileges(case: Case) -> str:
    """Which pods lose the privileges that the host refuses."""
    return str(case.merged("isolation").get("dropPrivileges") or privileges.NEVER)


def can_serve_pod_groups(version: str) -> bool:
    """Whether planes of a version can serve PodGroups, with the flags for it."""
    return version.startswith(POD_GROUP_VERSION)


def _budgets(case: Case) -> Budgets:
    """The components' budgets from class and Tenant, merged over the defaults for such a store."""
    control = case.merged("controlPlane")
    quota, resources = _quota_mib(case), section_of(control, "resources")
    found: dict[str, Budget] = {}
    for field, attribute in COMPONENTS.items():
        asked = section_of(resources, field)
        requests, limits = section_of(asked, "requests"), section_of(asked, "limits")
        usual = usual_budget(attribute, quota, _replicas(control))
        cpu = str(requests.get("cpu", usual.cpu))
        found[attribute] = Budget(
            cpu=cpu,
            memory=str(requests.get("memory", usual.memory)),
            memory_limit_mib=_memory_limit(limits) or usual.memory_limit_mib,
            cpu_limit=text_or_none(limits, "cpu") or (usual_cpu_limit(attribute, cpu) if limits_cpu(case.bounds) else None),
            cores=usual.cores,
        )
    return Budgets(**found)


def limits_cpu(bounds: Mapping[str, Any]) -> bool:
    """Whether components without a CPU limit of their own get one in proportion to their request."""
    return section_of(bounds, "controlPlane").get("cpuLimits") != "None"


def _memory_limit(limits: Mapping[str, Any]) -> int | None:
    try:
        return max(_MIN_MEMORY_LIMIT_MIB, mebibytes(limits.get("memory")))
    except InvalidQuantityError:
        return None


def _object_limits(bounds: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Amount]:
    """Object counts: the tenant's, else those of its class."""
    wanted = section_of(section_of(spec, "quota"), "objects")
    return object_counts(bounds) | {str(name): Amount.read(number) for name, number in wanted.items()}


def _by_name(amounts: Mapping[str, Amount]) -> tuple[tuple[str, Amount], ...]:
    return tuple((name, amounts[name]) for name in sorted(amounts))
