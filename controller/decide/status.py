"""What a Tenant's status says: from one reconcile's findings to the whole status. Pure; time is passed in.

Every condition is always there. `Ready` repeats the first condition that is not true, so that one line is enough to
read the reason. A part that was ready before and is not now says so with another reason than one that never was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from bulkhead.api import names, planeidentity
from bulkhead.api.accelerators import count
from bulkhead.api.conditions import MESSAGE_LIMIT, ConditionType, Reason, is_true, set_condition
from bulkhead.api.ledger import line_name, read_standing
from bulkhead.api.planeidentity import Recorded
from bulkhead.api.quantity import shown
from controller.decide import accepted, auditing, egress, exposure, extras, held, members, storage, store
from controller.decide.dedicated import Finding
from controller.decide.extras import Refused
from controller.decide.members import Members
from controller.plane import quota
from controller.plane.auditlosses import Losses
from controller.plane.spec import DNS, PLANE, SYNCER, Obj, PlaneSpec
from controller.plane.storestate import Store
from controller.refusal import Refusal
from controller.slurm.decide.status import SlurmPart
from controller.verdict import Verdict, pod_trouble

PARTS = (
    ConditionType.NAMESPACES_READY,
    ConditionType.PKI_READY,
    ConditionType.PLANE_READY,
    ConditionType.SYNCER_READY,
    ConditionType.QUOTA_APPLIED,
    ConditionType.EGRESS_APPLIED,
)
_MOST_NODES = 64
_MOST_LINES = 128
_STANDING = ("nominal", "ceiling", "used", "borrowed", "lent")
Lines: TypeAlias = Mapping[tuple[str, str], Mapping[str, int]]


# Reported only of tenants that they are about.
_ASIDE = frozenset(
    {
        ConditionType.STORAGE_APPLIED,
        ConditionType.STORE_HAS_ROOM,
        ConditionType.EXPOSED,
        ConditionType.STORAGE_CLOSED,
        ConditionType.SHARES_APPLIED,
        ConditionType.ISSUERS_READY,
        ConditionType.AUDIT_DELIVERED,
    }
)


@dataclass(frozen=True, slots=True)
class Findings:
    """What a reconcile found out, as far as it came."""

    namespaces: tuple[Obj, ...] = ()
    pki: bool = False
    put_off: str = ""  # why certificates that are due are not renewed yet
    plane_ready: bool = False
    plane_message: str = ""
    plane_uid: str = ""
    identity: Recorded = field(default_factory=Recorded)  # of the plane's data, as the host remembers it
    deployments: Mapping[str, Obj] | None = None
    pods: tuple[Obj, ...] = ()
    quotas: Mapping[str, Obj] = field(default_factory=dict)  # by name
    tenant_class: Obj | None = None
    failure: Refusal | None = None
    pull_trouble: str = ""  # what is wrong with the host's own pull secrets
    held: Refusal | None = None  # why the tenant is not built as it asks, but held to its class
    edit: Refusal | None = None  # why it is not built as it asks, but as it did when it was accepted last
    unseen: tuple[ConditionType, ...] = ()  # parts that were not looked at, and stay as they were reported
    slurm: SlurmPart | None = None
    nodes: Finding | None = None  # of a tenant whose pool is its alone
    shares: Verdict | None = None  # of a tenant that the host shares anything with
    route: Obj | None = None  # the TLSRoute, of a tenant that a Gateway exposes
    gateway: Obj | None = None  # that its route names; empty where there is none, None where that is not known
    refused: tuple[Refused, ...] = ()  # by the host, of what the plane runs without, or of what never changes
    claims: tuple[Obj, ...] = ()  # of its etcd
    volumes: Mapping[str, str] | None = None  # by claim, why it does not grow; None where that was not tried
    store: Store | None = None  # of the plane, where it was looked at
    certificate_authority: str = ""  # PEM, of the plane's API server
    losses: Losses | None = None  # of its audit trail, where that is sent to a receiver and the plane answers


def refused(tenant: Obj, refusal: Refusal, now: datetime) -> Obj:
    """The status of a tenant that is not built as asked: only Ready changes, what runs goes on and says so itself."""
    return _with(tenant, {ConditionType.READY: Verdict("False", refusal.reason, refusal.message)}, now)


def terminating(tenant: Obj, message: str, *, blocked: bool, now: datetime) -> Obj:
    """The status of a tenant that is being taken down."""
    reason = Reason.TEARDOWN_BLOCKED if blocked else Reason.TERMINATING
    return _with(tenant, {ConditionType.READY: Verdict("False", reason, message)}, now)


def compute(tenant: Obj, spec: PlaneSpec, findings: Findings, now: datetime) -> Obj:
    """The whole status after a reconcile."""
    before = list((tenant.get("status") or {}).get("conditions") or [])
    verdicts = {
        ConditionType.NAMESPACES_READY: _namespaces(findings),
        ConditionType.PKI_READY: _pki(findings),
        ConditionType.PLANE_READY: _plane(spec, findings, was=is_true(before, ConditionType.PLANE_READY)),
        ConditionType.SYNCER_READY: _syncer(findings, was=is_true(before, ConditionType.SYNCER_READY)),
        ConditionType.QUOTA_APPLIED: _quota(spec, findings),
        ConditionType.EGRESS_APPLIED: egress.applied(spec),
    }
    lost = data_lost(tenant, findings)
    if lost:
        verdicts[ConditionType.PLANE_READY] = Verdict("False", Reason.DATA_LOST, _of_lost_data(tenant, lost))
    verdicts |= (aside := _aside(spec, findings))
    if findings.nodes is not None:
        # Its API can be used all the same, and pods may wait for nodes.
        verdicts[ConditionType.NODES_DEDICATED] = _nodes(findings.nodes)
    if findings.slurm is not None:
        verdicts[ConditionType.SLURM_READY] = findings.slurm.verdict
    verdicts[ConditionType.READY] = verdicts[ConditionType.PLANE_READY] if lost else _ready(spec, findings, verdicts)
    made = _with(tenant, verdicts, now) | summary(spec, findings, _applied(findings.tenant_class))
    if lost and not findings.identity.uid:
        # The one that was reported stays.
        made.pop("planeClusterUID", None)
    if findings.held is not None:
        # What was applied in full was this class, and what the plane runs are these versions.
        made |= {key: value for key, value in (tenant.get("status") or {}).items() if key in {"class", "versions"}}
    gone = _ASIDE - aside.keys() - frozenset(findings.unseen)
    made["conditions"] = [each for each in made["conditions"] if each["type"] not in gone]
    if ConditionType.NODES_DEDICATED not in findings.unseen:
        made |= _dedicated(findings.nodes, made["conditions"])
    if ConditionType.SLURM_READY not in findings.unseen:
        made |= _slurm(tenant, findings.slurm, made["conditions"])
    return made


def _ready(spec: PlaneSpec, findings: Findings, verdicts: Mapping[ConditionType, Verdict]) -> Verdict:
    """The first thing that keeps the tenant from being used as it asks; else that it can be used, and what goes on beside."""
    if findings.edit is not None:
        return accepted.verdict(findings.edit, findings.failure)
    if findings.held is not None:
        return _held(findings.held, findings.failure)
    if findings.failure is not None:
        return Verdict("False", findings.failure.reason, findings.failure.message)
    needed = [verdicts[part] for part in PARTS]
    needed += [findings.slurm.verdict] if findings.slurm is not None and findings.slurm.essential else []
    # The API of a full store answers, but takes no new objects.
    needed += [store.verdict(spec, findings.store)] if findings.store is not None and findings.store.full else []
    first = extras.stuck(findings.refused, spec) or next((each for each in needed if each.status != "True"), None)
    if first is not None:
        return first
    note = _members(spec, findings).note
    ready = f"the tenant's API server, syncer and DNS are ready{extras.besides(findings.refused, spec)}"
    return Verdict("True", Reason.READY, f"{ready}; {note}" if note else ready)


def _aside(spec: PlaneSpec, findings: Findings) -> dict[ConditionType, Verdict]:
    """Conditions that only some tenants have, and that do not count for Ready: the API can be used all the same."""
    unseen = ConditionType.EXPOSED in findings.unseen
    exposed = None if unseen else exposure.verdict(spec, findings.route, findings.refused, findings.gateway)
    tried = findings.volumes
    said = {
        ConditionType.STORAGE_APPLIED: storage.verdict(spec, findings.claims, tried) if tried is not None else None,
        ConditionType.EXPOSED: exposed,  # else from the host
        ConditionType.STORAGE_CLOSED: egress.storage(spec),
        ConditionType.SHARES_APPLIED: findings.shares,
        ConditionType.ISSUERS_READY: _issuers(spec) if spec.issuers else None,  # else by a certificate
        ConditionType.AUDIT_DELIVERED: auditing.verdict(spec, findings.losses),
        ConditionType.STORE_HAS_ROOM: store.verdict(spec, findings.store) if findings.store is not None else None,
    }
    return {condition: verdict for condition, verdict in said.items() if verdict is not None}


def data_lost(tenant: Obj, findings: Findings) -> str:
    """Why the plane's data is not what it was; empty where it is."""
    reported = str((tenant.get("status") or {}).get("planeClusterUID") or "")
    return planeidentity.lost(findings.identity, reported, findings.plane_uid)


def _of_lost_data(tenant: Obj, lost: str) -> str:
    name = tenant["metadata"]["name"]
    return (
        f"{lost}. Nothing of the tenant is deleted on the host, and its pods run on. Restore the plane's volume; or check what "
        f"the host would lose, and continue with the present data: bulkhead tenant accept-data {name}"
    )


def summary(spec: PlaneSpec, findings: Findings, applied_class: Mapping[str, Any]) -> Obj:
    """The fields beside the conditions."""
    limit = sum(spec.allotted[name].count for name in spec.gpu_resources)
    standing = read_standing(findings.quotas.get(names.POD_QUOTA, {}).get("metadata", {}).get("annotations") or {})
    lines = standing if spec.given else {}
    total = _held_gpus(spec, findings, lines)
    # The status keeps the identity that the host's objects were made for, until an admin accepts another one.
    uid = findings.identity.uid or findings.plane_uid
    identity = {"planeClusterUID": uid} if uid else {}
    authority = {"certificateAuthority": findings.certificate_authority} if findings.certificate_authority else {}
    return (
        identity
        | authority
        | {
            "endpoint": spec.endpoint,
            "tlsServerName": spec.tls_server_name,
            "hostnames": list(spec.exposure.names) or None,
            "versions": {
                "kubernetes": spec.version,
                "etcd": _tag(spec.images.etcd),
                "bulkhead": _tag(spec.images.bulkhead),
            },
            "class": dict(applied_class),
            "serviceSlice": spec.service_slice,
            "gpus": {"used": total, "limit": limit, "summary": f"{total}/{limit}", **_traded(spec, lines)},
            # None deletes a field in a merge patch.
            "quota": _standing(lines) or None,
        }
    )


def _held_gpus(spec: PlaneSpec, findings: Findings, lines: Lines) -> int:
    """GPUs that the tenant's pods hold. In the host's quota are those of pods, too, that only wait for the ledger."""
    used = (findings.quotas.get(names.POD_QUOTA, {}).get("status") or {}).get("used") or {}
    judged = {resource for _, resource in lines}
    return sum(
        sum(counts["used"] for (_, resource), counts in lines.items() if resource == name)
        if name in judged
        else count(used.get(f"requests.{name}"))
        for name in spec.gpu_resources
    )


def _traded(spec: PlaneSpec, lines: Lines) -> dict[str, int | None]:
    """What the tenant borrows and lends of GPUs, where it has a cohort."""
    found = [counts for (_, resource), counts in lines.items() if resource in spec.gpu_resources]
    return {part: sum(counts[part] for counts in found) for part in ("borrowed", "lent")} if found else {}


def _standing(lines: Lines) -> list[Obj]:
    return [
        {"name": line_name(*line)} | {part: shown(line[1], counts[part]) for part in _STANDING}
        for line, counts in sorted(lines.items(), key=lambda each: line_name(*each[0]))[:_MOST_LINES]
    ]


def _held(refusal: Refusal, failure: Refusal | None) -> Verdict:
    # The list of what is refused may be long, and the end of a message is cut off.
    long = len(refusal.message) > MESSAGE_LIMIT // 2
    refused = f"{held.NOTE}: {refusal.message}" if long else f"{refusal.message}; {held.NOTE}"
    return Verdict("False", refusal.reason, f"{failure.message}; {refused}" if failure is not None else refused)


def _nodes(found: Finding) -> Verdict:
    if found.complete:
        return Verdict("True", Reason.APPLIED, found.message())
    return Verdict("False", Reason.WAITING_FOR_NODES, found.message())


def _dedicated(found: Finding | None, conditions: list[Obj]) -> Obj:
    """The nodes that are the tenant's alone, beside their condition; without a claim neither is there."""
    if found is None:
        return {"dedicated": None, "conditions": [each for each in conditions if each["type"] != ConditionType.NODES_DEDICATED]}
    names = list(found.nodes[:_MOST_NODES])
    return {"dedicated": {"nodes": len(found.nodes), "gpus": found.gpus, "names": names, "waiting": len(found.waits)}}


def _slurm(tenant: Obj, slurm: SlurmPart | None, conditions: list[Obj]) -> Obj:
    """The cluster's part beside its condition; without a cluster neither is there. None deletes a field in a merge patch."""
    if slurm is None:
        return {"slurm": None, "conditions": [each for each in conditions if each["type"] != ConditionType.SLURM_READY]}
    before = (tenant.get("status") or {}).get("slurm")
    return {"slurm": dict(slurm.summary) if slurm.summary is not None else before}


def changed(tenant: Obj, status: Obj) -> bool:
    """Whether a status would say anything new."""
    before = tenant.get("status") or {}
    return any(before.get(key) != value for key, value in status.items())


def _namespaces(findings: Findings) -> Verdict:
    leaving = [str(each["metadata"]["name"]) for each in findings.namespaces if each["metadata"].get("deletionTimestamp")]
    if leaving:
        return Verdict("False", Reason.RESTARTING, f"namespace {leaving[0]} is being deleted and will be recreated")
    if len(findings.namespaces) < 2:
        return Verdict("False", Reason.PROVISIONING, "the namespaces are being created")
    return Verdict("True", Reason.READY, "both namespaces exist")


def _pki(findings: Findings) -> Verdict:
    if not findings.pki:
        return Verdict("False", Reason.PROVISIONING, "keys and certificates are being created")
    if findings.put_off:
        return Verdict("True", Reason.READY, f"every certificate exists; some are due and not renewed yet: {findings.put_off}")
    return Verdict("True", Reason.READY, "every certificate exists and is fresh")


def _plane(spec: PlaneSpec, findings: Findings, *, was: bool) -> Verdict:
    found = _members(spec, findings)
    if findings.plane_ready and found.quorate:
        if found.down:
            return Verdict("True", Reason.MEMBERS_DOWN, f"the API server answers; {found.note}")
        return Verdict("True", Reason.READY, "the API server answers and every container of the plane is ready")
    # What one of several members has is not why a plane does not answer whose quorum is up.
    trouble = None if found.quorate else found.trouble
    if trouble is not None and trouble.reason is not None:
        return _not_starting(trouble.reason, _of_members(found, trouble.message), findings)
    silent = findings.plane_message or "the plane's pod is not ready"
    if was:
        return Verdict("False", Reason.PLANE_UNREACHABLE, _of_members(found, silent))
    pods = [pod for pod in findings.pods if _is(pod, PLANE)]
    if not pods:
        return Verdict("False", Reason.PROVISIONING, "the plane's pod is being created")
    return Verdict("False", Reason.WAITING_FOR_PLANE, _of_members(found, _waiting(pods[0], findings)))


def _waiting(pod: Obj, findings: Findings) -> str:
    waiting = [str(each["name"]) for each in (pod.get("status") or {}).get("containerStatuses") or [] if not each.get("ready")]
    return f"not ready yet: {', '.join(waiting)}" if findings.plane_ready and waiting else findings.plane_message


def _members(spec: PlaneSpec, findings: Findings) -> Members:
    return members.look((pod for pod in findings.pods if _is(pod, PLANE)), spec.replicas)


def _of_members(found: Members, message: str) -> str:
    """Why a plane is not ready: of several members each that is down."""
    if found.wanted == 1 or not found.down:
        return message
    if found.quorate:
        return f"{message}; {found.note}"
    return f"{found.serving} of the plane's {found.wanted} members serve, and {found.quorum} must: {found.named}"


def _syncer(findings: Findings, *, was: bool) -> Verdict:
    waiting = [name for name in (SYNCER, DNS) if not _available((findings.deployments or {}).get(name))]
    if not waiting:
        return Verdict("True", Reason.READY, "the syncer and the tenant's DNS are ready")
    for pod in findings.pods:
        trouble = pod_trouble(pod) if any(_is(pod, name) for name in waiting) else None
        if trouble is not None:
            return _not_starting(*trouble, findings)
    return Verdict("False", Reason.RESTARTING if was else Reason.WAITING_FOR_SYNCER, f"not ready: {', '.join(waiting)}")


def _not_starting(reason: Reason, message: str, findings: Findings) -> Verdict:
    """Why a pod does not start; where its image cannot be pulled, the pull secrets may be why."""
    why = f"; {findings.pull_trouble}" if findings.pull_trouble and "Pull" in message else ""
    return Verdict("False", reason, message + why)


def _quota(spec: PlaneSpec, findings: Findings) -> Verdict:
    wanted = {str(each["metadata"]["name"]) for each in quota.resource_quotas(spec)}
    if missing := sorted(wanted - findings.quotas.keys()):
        return Verdict("False", Reason.PROVISIONING, f"being created: ResourceQuota {', '.join(missing)}")
    for name in sorted(wanted):
        there = findings.quotas[name]
        if (there.get("status") or {}).get("hard") != (there.get("spec") or {}).get("hard"):
            return Verdict("False", Reason.PROVISIONING, f"the host has not accepted ResourceQuota {name} yet")
    return Verdict("True", Reason.APPLIED, "the host enforces the quota")


def _issuers(spec: PlaneSpec) -> Verdict:
    troubles = [
        f"{each.provider.name} ({each.provider.source.url}): {each.trouble}; "
        + (
            "tokens signed with its last known keys still count"
            if each.keys
            else "no user can sign in with it until it answers"
        )
        for each in spec.issuers
        if each.trouble
    ]
    if troubles:
        return Verdict("False", Reason.ISSUER_SILENT, ". ".join(troubles))
    if shut := [
        each.provider.name for each in spec.issuers if each.provider.required_groups and not each.provider.groups_claim
    ]:
        missing = "requiredGroups is set, but the class names no claim with the groups (claims.groups)"
        return Verdict(
            "False", Reason.INVALID_CONFIGURATION, f"{', '.join(shut)}: {missing}; no user can sign in with it until it does"
        )
    if unknown := [each.provider.name for each in spec.issuers if not each.keys]:
        return Verdict("False", Reason.PROVISIONING, f"being asked for its keys: {', '.join(unknown)}")
    named = {str(each.get("name")) for each in spec.admins} | {each.name for each in spec.revoked}
    prefixes = tuple(each.provider.prefix for each in spec.issuers)
    strange = sorted(name for name in named if not name.startswith(prefixes))
    hint = f"; none of theirs is named {', '.join(strange)}: names begin with {', '.join(prefixes)}" if strange else ""
    users = ", ".join(each.provider.name for each in spec.issuers)
    return Verdict("True", Reason.READY, f"users of {users} may sign in{hint}")


def _applied(tenant_class: Obj | None) -> dict[str, Any]:
    """The class as it was applied."""
    if tenant_class is None:
        return {}
    meta = tenant_class["metadata"]
    return {
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "generation": int(meta.get("generation") or 0),
        "spec": tenant_class.get("spec") or {},
    }


def _available(deployment: Obj | None) -> bool:
    if deployment is None:
        return False
    status = deployment.get("status") or {}
    current = int(status.get("observedGeneration") or 0) >= int(deployment["metadata"].get("generation") or 0)
    return current and int(status.get("updatedReplicas") or 0) >= 1 and int(status.get("availableReplicas") or 0) >= 1


def _is(pod: Obj, component: str) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get("bulkhead.dev/component") == component)


def _with(tenant: Obj, verdicts: Mapping[ConditionType, Verdict], now: datetime) -> Obj:
    generation = int(tenant["metadata"].get("generation") or 0)
    conditions = list((tenant.get("status") or {}).get("conditions") or [])
    for type_, verdict in verdicts.items():
        conditions = set_condition(
            conditions, type_, verdict.status, verdict.reason, verdict.message, now=now, observed_generation=generation
        )
    return {"conditions": conditions, "observedGeneration": generation}


def _tag(image: str) -> str:
    """What an image is called after its name, without a digest."""
    return image.partition("@")[0].rpartition(":")[2][:32]
