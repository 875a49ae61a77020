"""Whether a tenant is built, and which parts: one answer for each reconcile, computed once and passed on. Pure.

    Case ──> POLICIES, in their order; the first refusal counts
               ├─ none refuses ─────────────────────────> Admitted, as the tenant asks
               ├─ refused, but runs and may be held ────> Admitted, held to its class (`held`)
               └─ refused ──────────────────────────────> Refusal: nothing of what exists is changed

A refusal has the condition's fixed reason and names the field. The API server has already checked what the CRDs' schemas and
CEL rules check; the policies here check what needs a second object or the settings.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from bulkhead.api import names, privileges
from bulkhead.api.conditions import Reason
from bulkhead.api.moments import moment_of
from bulkhead.api.untrusted import mappings
from bulkhead.ledger.given import rules_of
from controller import allotment
from controller.decide import adopt, held, irreversible, versions
from controller.decide.case import Admitted, Case
from controller.decide.planespec import (
    POD_GROUP_VERSION,
    can_serve_pod_groups,
    drops_privileges,
    offers_pod_groups,
    plane_of,
)
from controller.inside.objects import unprivileged
from controller.pki.receivers import ReceiverUnusableError, check_authorities
from controller.refusal import Refusal
from controller.sections import section_of

Policy: TypeAlias = Callable[[Case], Refusal | None]


def admit(case: Case) -> Admitted | Refusal:
    """The result of the admission: the first refusal decides."""
    refusal = refuse(case)
    if refusal is None:
        claims = case.wants_nodes
        return Admitted(
            plane_of(case),
            case.slurm,
            claims_nodes=claims,
            nodes=case.nodes if claims else None,
            shares=case.shares,
            class_name=case.class_name,
        )
    if case.runs and held.holds(refusal, case.tenant_class):
        return held.hold(case, refusal)
    return refusal


def refuse(case: Case) -> Refusal | None:
    """The refusal of the first policy that refuses; None if none does."""
    return next((refusal for policy in POLICIES if (refusal := policy(case)) is not None), None)


def paused(case: Case) -> Refusal | None:
    """While the Tenant is paused, nothing changes."""
    until = case.spec.get("pausedUntil")
    ends = moment_of(until)
    if not until or (ends is not None and case.now >= ends):
        return None
    if ends is None:
        what = f"{until} is not a time that can be read, so nothing changes until it is corrected: 2026-01-31T12:00:00Z"
        return Refusal(Reason.PAUSED, f"spec.pausedUntil: paused, and {what}")
    return Refusal(Reason.PAUSED, f"spec.pausedUntil: paused, nothing changes until {until}")


def name(case: Case) -> Refusal | None:
    """The tenant's name must fit into the names of its namespaces."""
    try:
        names.check_tenant_name(str(case.tenant["metadata"]["name"]))
    except names.InvalidTenantNameError as error:
        return Refusal(Reason.INVALID_NAME, str(error))
    return None


def known_class(case: Case) -> Refusal | None:
    """The class must exist."""
    if case.tenant_class is not None:
        return None
    return Refusal(Reason.UNKNOWN_CLASS, f"spec.class: no TenantClass is named {case.spec.get('class')!r}")


def taken_back(case: Case) -> Refusal | None:
    """What was accepted and cannot go back must be in the spec as before."""
    return irreversible.refuse(case.spec, case.accepted)


def version(case: Case) -> Refusal | None:
    """The class and the installation must offer the version of Kubernetes."""
    if case.version in case.versions:
        return None
    if case.versions:
        message = f"spec.kubernetesVersion: {case.version} is not available; available: {', '.join(case.versions)}"
    else:
        installed = ", ".join(case.settings.kubernetes_versions) or "nothing"
        listed = ", ".join(map(str, case.bounds.get("kubernetesVersions") or ()))
        message = (
            f"class: spec.kubernetesVersions: {listed}; the installation offers {installed} (chart value kubernetesVersions)"
        )
    return Refusal(Reason.VERSION_UNAVAILABLE, message)


def version_step(case: Case) -> Refusal | None:
    """A plane never goes back a minor version nor skips one, whether Tenant, class or installation requests it."""
    fault = versions.fault(versions.running(case.tenant, case.existing), case.version, case.versions)
    if not fault:
        return None
    if case.spec.get("kubernetesVersion"):
        source = "spec.kubernetesVersion"
    elif case.bounds.get("kubernetesVersion"):
        source = "class: spec.kubernetesVersion"
    else:
        source = "the first of kubernetesVersions (class and chart value), which the Tenant gets because it names none"
    return Refusal(Reason.VERSION_SKEW, f"{source}: {fault}, in spec.kubernetesVersion of the Tenant or its class")


def pod_groups(case: Case) -> Refusal | None:
    """If the class offers PodGroups, the version must serve them."""
    if not offers_pod_groups(case.bounds) or can_serve_pod_groups(case.version):
        return None
    return Refusal(
        Reason.NOT_SUPPORTED,
        f"spec.kubernetesVersion: {case.version} does not serve the PodGroups that the class offers; {POD_GROUP_VERSION}x does",
    )


def dropped(case: Case) -> Refusal | None:
    """If privileges are to be removed from pods, the version must have the policies for that."""
    wanted = drops_privileges(case)
    if wanted == privileges.NEVER or unprivileged.served_by(case.version):
        return None
    return Refusal(
        Reason.NOT_SUPPORTED,
        f"spec.isolation.dropPrivileges: {wanted}, and {case.version} has no MutatingAdmissionPolicies for it; "
        f"v1.{unprivileged.LEAST_MINOR} and newer have them",
    )


def bounds(case: Case) -> Refusal | None:
    """No field may exceed the class; `bounds.POLICIES` checks each one."""
    return Refusal(Reason.OUT_OF_BOUNDS, "; ".join(excess.message for excess in case.excess)) if case.excess else None


def class_amounts(case: Case) -> Refusal | None:
    """The class itself must have quotas, defaults and tolerations that a host accepts."""
    return allotment.refuse_class(case.bounds)


def amounts(case: Case) -> Refusal | None:
    """The class must allow the quota of resources."""
    return allotment.refuse_asked(case.spec, case.bounds)


def replicas(case: Case) -> Refusal | None:
    """The plane must have a number of pods that etcd supports."""
    number = int(case.merged("controlPlane").get("replicas") or 1)
    if number in {1, 3}:
        return None
    return Refusal(Reason.OUT_OF_BOUNDS, f"spec.controlPlane.replicas: {number}; must be 1 or 3")


def placement(case: Case) -> Refusal | None:
    """The class may only narrow where planes run, and must not contradict the installation."""
    selector = section_of(section_of(case.bounds, "controlPlane"), "nodeSelector")
    contradiction = case.settings.plane_placement.contradicted(selector)
    if contradiction is None:
        return None
    key, ours, theirs = contradiction
    return Refusal(
        Reason.INVALID_CONFIGURATION,
        f"class: spec.controlPlane.nodeSelector[{key}]: {theirs}, but all planes of this installation run on nodes with {ours} "
        "(chart value planes.nodeSelector)",
    )


def pool(case: Case) -> Refusal | None:
    """Dedicated nodes must be a part of the host's nodes."""
    if not case.merged("nodes").get("dedicated") or case.pool:
        return None
    return Refusal(
        Reason.INVALID_CONFIGURATION,
        "spec.nodes.dedicated: needs a selector in the Tenant or its class: without one the pool is every node of the host",
    )


def receiver(case: Case) -> Refusal | None:
    """An API server must start with the certificates that verify the class's receiver of audit trails."""
    asked = section_of(section_of(case.bounds, "audit"), "webhook")
    try:
        if asked:
            check_authorities(str(asked.get("certificateAuthority") or ""))
    except ReceiverUnusableError as error:
        return Refusal(Reason.INVALID_CONFIGURATION, f"class: spec.audit.webhook.certificateAuthority: {error}; correct it")
    return None


def supported(case: Case) -> Refusal | None:
    """Fields without an implementation are refused: an accepted field must not be without effect."""
    if not section_of(case.spec, "hibernation").get("enabled"):
        return None
    return Refusal(Reason.NOT_SUPPORTED, "spec.hibernation.enabled: not available in this version")


def flavors(case: Case) -> Refusal | None:
    """The flavors in the tenant's quota must be those of its cohort."""
    known = {(flavor.resource, flavor.name) for flavor in rules_of(case.cohort or {}).flavors}
    for resource, quota in sorted(allotment.resources_of(case.spec).items()):
        for name in (str(flavor.get("name")) for flavor in mappings(section_of({resource: quota}, resource).get("flavors"))):
            if (resource, name) not in known:
                offered = ", ".join(sorted(name for of, name in known if of == resource)) or "none"
                named = section_of(case.spec, "quota").get("cohort")
                message = f"{name} is not a flavor of Cohort {named}: {offered}"
                return Refusal(Reason.INVALID_CONFIGURATION, f"spec.quota.resources[{resource}].flavors: {message}")
    return None


def slurm(case: Case) -> Refusal | None:
    """The Slurm cluster must be buildable as requested."""
    return case.slurm if isinstance(case.slurm, Refusal) else None


def namespaces(case: Case) -> Refusal | None:
    """The namespaces must be the tenant's own, or free."""
    if not case.foreign_namespaces:
        return None
    taken = ", ".join(case.foreign_namespaces)
    return Refusal(Reason.NAMESPACE_TAKEN, f"namespace {taken} exists and is not this tenant's; choose another name")


def adoption(case: Case) -> Refusal | None:
    """A retained plane is taken up by its identity, and by nothing else."""
    return adopt.refuse(adopt.claim_of(case.tenant, case.existing, case.retained), case.now)


def nodes(case: Case) -> Refusal | None:
    """Dedicated nodes must be free, and not more than the class allows."""
    return case.nodes.refusing if case.wants_nodes and case.nodes is not None else None


# Each policy may rely on those before it.
POLICIES: Final[tuple[Policy, ...]] = (
    paused,
    name,
    known_class,
    taken_back,
    version,
    version_step,
    pod_groups,
    dropped,
    bounds,
    class_amounts,
    amounts,
    flavors,
    replicas,
    placement,
    pool,
    receiver,
    supported,
    slurm,
    namespaces,
    adoption,
    nodes,
)
