"""The whole status of a tenant, from findings that a test makes up: its facets' reports, in their order, as one fold."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bulkhead.api.conditions import ConditionType
from bulkhead.api.objects import Obj
from bulkhead.api.planeidentity import Recorded
from controller.decide.dedicated import Finding
from controller.decide.extras import Refused
from controller.plane.auditlosses import Losses
from controller.plane.contents import Contents
from controller.plane.spec import PlaneSpec
from controller.plane.storestate import Store
from controller.refusal import Refusal
from controller.slurm.decide.status import SlurmPart
from controller.tenant.facets.audit import report as audit
from controller.tenant.facets.egress import report as egress
from controller.tenant.facets.exposure import report as exposure
from controller.tenant.facets.ground import report as ground
from controller.tenant.facets.issuers import report as issuers
from controller.tenant.facets.keys import report as keys
from controller.tenant.facets.nodes import report as nodes
from controller.tenant.facets.objects import report as objects
from controller.tenant.facets.plane import report as plane
from controller.tenant.facets.quota import report as quota
from controller.tenant.facets.shares import report as shares
from controller.tenant.facets.slurm import report as slurm
from controller.tenant.facets.store import report as store
from controller.tenant.facets.volumes import report as volumes
from controller.tenant.status import Ended, Report, fold, was_true
from controller.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of a reconcile, as far as it came."""

    namespaces: tuple[Obj, ...] = ()
    pki: bool = False
    put_off: str = ""
    plane_ready: bool = False
    plane_message: str = ""
    plane_uid: str = ""
    identity: Recorded = field(default_factory=Recorded)
    deployments: Mapping[str, Obj] = field(default_factory=dict)
    pods: tuple[Obj, ...] = ()
    quotas: Mapping[str, Obj] = field(default_factory=dict)
    tenant_class: Obj | None = None
    failure: Refusal | None = None
    pull_trouble: str = ""
    held: Refusal | None = None
    edit: Refusal | None = None
    unseen: tuple[ConditionType, ...] = ()
    slurm: SlurmPart | None = None
    nodes: Finding | None = None
    shares: Verdict | None = None
    route: Obj | None = None
    gateway: Obj | None = None
    refused: tuple[Refused, ...] = ()
    claims: tuple[Obj, ...] = ()
    volumes: Mapping[str, str] | None = None
    store: Store | None = None
    contents: Contents | None = None
    certificate_authority: str = ""
    losses: Losses | None = None


def reports(tenant: Obj, spec: PlaneSpec, found: Findings) -> tuple[Report, ...]:
    """The report of each facet, in the order of `controller.tenant.consists`."""
    seen = plane.Found(found.plane_ready, found.plane_message, found.plane_uid, found.identity, found.pods, found.pull_trouble)
    was = was_true(tenant, ConditionType.SYNCER_READY)
    return (
        nodes.report(found.nodes, unseen=ConditionType.NODES_DEDICATED in found.unseen),
        issuers.report(spec),
        ground.report(spec, found.namespaces, found.tenant_class),
        audit.report(spec, found.losses),
        keys.report(there=found.pki, put_off=found.put_off, authority=found.certificate_authority),
        plane.report(tenant, spec, seen),
        objects.followers(found.deployments, found.pods, found.pull_trouble, was=was, incomplete=found.identity.incomplete),
        quota.report(spec, found.quotas),
        egress.report(spec),
        slurm.report(tenant, found.slurm, unseen=ConditionType.SLURM_READY in found.unseen),
        store.report(spec, found.store, found.contents),
        objects.refusals(spec, found.refused),
        volumes.report(spec, found.claims, found.volumes),
        shares.report(found.shares),
        exposure.report(spec, found.route, found.refused, found.gateway, unseen=ConditionType.EXPOSED in found.unseen),
    )


def compute(tenant: Obj, spec: PlaneSpec, found: Findings, now: datetime) -> Obj:
    """The whole status after a reconcile."""
    ended = Ended(edit=found.edit, held=found.held, failure=found.failure)
    return fold(tenant, reports(tenant, spec, found), ended, now)
