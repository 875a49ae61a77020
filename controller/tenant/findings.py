"""What one reconcile found out, as far as it came, in the words of the status. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from bulkhead.api.conditions import ConditionType, Reason, is_true
from bulkhead.api.objects import Obj
from bulkhead.api.planeidentity import Recorded
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import ApiError, Conflict, Forbidden, KubeError, Unavailable, Unprocessable
from bulkhead.kube.objects import Resource
from controller.decide.case import Admitted
from controller.decide.extras import Refused
from controller.decide.status import Findings
from controller.decide.storage import claims_of
from controller.inside.access import PlaneHealth
from controller.plane.auditlosses import Losses
from controller.plane.pki import USERS, authority_secret
from controller.plane.secrets import SERVICE_ACCOUNT_SECRET, KeyMaterial
from controller.plane.spec import PLANE, PlaneSpec
from controller.plane.storestate import Store
from controller.refusal import Refusal
from controller.shares import status as shares_status
from controller.slurm.decide import status as slurm_status
from controller.slurm.ordering import Ordered
from controller.tenant.observe import Observed


@dataclass(frozen=True, slots=True)
class Shared:
    """What a Tenant's reconcile knows of what the host shares with it; nothing before the first look into its plane."""

    found: shares_status.Found | None


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a reconcile came."""

    observed: Observed
    keys: KeyMaterial | None = None  # once they were assembled
    put_off: str = ""  # why certificates that are due are not renewed yet
    health: PlaneHealth = field(default_factory=PlaneHealth)
    identity: Recorded = field(default_factory=Recorded)  # of the plane's data, as the host remembers it
    slurm: Ordered | None = None
    shares: Shared | None = None
    failure: Refusal | None = None
    pull_trouble: str = ""  # what is wrong with the host's own pull secrets
    protected: bool = False  # whether all that protects the tenant is in
    refused: tuple[Refused, ...] = ()  # by the host, of what the plane runs without, or of what never changes
    volumes: Mapping[str, str] | None = None  # by claim, why it does not grow; None where none was asked to
    losses: Losses | None = None
    store: Store | None = None
    gateway: Obj | None = None  # that its route names; empty where there is none, None where that is not known


def findings(spec: PlaneSpec, admitted: Admitted, reached: Reached, after: Iterable[tuple[Resource, Obj]]) -> Findings:
    """For the status; `after` is what there is on the host at the end."""
    health, nodes, tenant = reached.health, admitted.nodes, reached.observed.tenant
    there = {(resource, str(obj["metadata"]["name"])): obj for resource, obj in after}
    found = Findings(
        namespaces=tuple(obj for (resource, _), obj in there.items() if resource is kinds.NAMESPACES),
        pki=_pki(reached),
        put_off=reached.put_off,
        plane_ready=health.ready and health.bootstrapped,
        plane_message=health.message,
        plane_uid=health.cluster_uid,
        identity=reached.identity,
        deployments={name: obj for (resource, name), obj in there.items() if resource is kinds.DEPLOYMENTS},
        pods=tuple(obj for (resource, _), obj in there.items() if resource is kinds.PODS),
        quotas={name: obj for (resource, name), obj in there.items() if resource is kinds.RESOURCE_QUOTAS},
        tenant_class=reached.observed.tenant_class,
        failure=reached.failure,
        pull_trouble=reached.pull_trouble,
        refused=reached.refused,
        claims=claims_of(there.values(), spec.namespace),
        volumes=reached.volumes,
        held=admitted.held,
        edit=admitted.edit,
        losses=reached.losses,
        store=reached.store,
        gateway=reached.gateway,
        certificate_authority=reached.keys.authorities["serving"].certificate.decode() if reached.keys else "",
        slurm=_slurm(tenant, reached.slurm) if reached.slurm is not None else None,
        shares=shares_status.verdict(reached.shares.found) if reached.shares is not None else None,
        nodes=nodes if nodes is not None and nodes.refusing is None else None,
        route=next((obj for (resource, name), obj in there.items() if resource.kind == "TLSRoute" and name == PLANE), None),
    )
    return replace(found, unseen=_unseen(spec, admitted, reached, found))


def failure_of(error: KubeError | TimeoutError) -> Refusal:
    """Why a reconcile could not be finished."""
    if isinstance(error, Forbidden | Unprocessable | Conflict):
        return Refusal(Reason.HOST_REFUSED, f"the host refused an object: {error}")
    if isinstance(error, Unavailable | TimeoutError):
        return Refusal(Reason.HOST_UNAVAILABLE, f"the host's API did not answer: {error}")
    if isinstance(error, ApiError):
        return Refusal(Reason.HOST_REFUSED, f"the host's API: {error}")
    return Refusal(Reason.HOST_UNAVAILABLE, f"the host's API: {error}")


def _pki(reached: Reached) -> bool:
    """Whether the keys are there, written now or before; as reported before, where the reconcile did not come so far."""
    observed, failure = reached.observed, reached.failure
    if reached.keys is None:
        before = (observed.tenant.get("status") or {}).get("conditions") or []
        return failure is not None and is_true(before, ConditionType.PKI_READY)
    return failure is None or {SERVICE_ACCOUNT_SECRET, authority_secret(USERS)} <= observed.in_plane(kinds.SECRETS).keys()


def _unseen(spec: PlaneSpec, admitted: Admitted, reached: Reached, found: Findings) -> tuple[ConditionType, ...]:
    """The parts that were not looked at, of which the status goes on to report what it did before."""
    early: tuple[ConditionType, ...] = () if reached.protected else (ConditionType.EXPOSED,)
    if reached.volumes is None:
        early = (*early, ConditionType.STORAGE_APPLIED)
    if reached.store is None:
        early = (*early, ConditionType.STORE_HAS_ROOM)
    if admitted.held is None:
        return early
    nodes = (ConditionType.NODES_DEDICATED,) if spec.nodes.dedicated and found.nodes is None else ()
    slurm = (ConditionType.SLURM_READY,) if isinstance(admitted.slurm, Refusal) else ()
    return (*early, *nodes, *slurm)


def _slurm(tenant: Obj, slurm: Ordered) -> slurm_status.SlurmPart:
    before = (tenant.get("status") or {}).get("conditions") or []
    return slurm_status.part(slurm.found, slurm.spec, was=is_true(before, ConditionType.SLURM_READY))
