"""All tenants: conditions, certificates, syncers, snapshots, and whether nodes offer what was promised. Pure."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

from bulkhead.api.conditions import ConditionType, Reason, condition_of, is_true
from bulkhead.api.quantity import readable
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.ledger import given
from workstation.doctor.facts import Seen
from workstation.doctor.judge.controller import leader
from workstation.preflight.facts import Obj, need
from workstation.preflight.findings import Finding, failed, ok, skipped, warning

_SOON: Final = timedelta(days=20)
_NOW: Final = timedelta(days=7)
_OVERDUE: Final = "BackupOverdue"


def ready(seen: Seen) -> Finding:
    """Every Tenant that is not paused is Ready, and none has lost data or a member of its plane."""
    tenants = [tenant for tenant in need(seen.cluster, "tenants") if not _going(tenant)]
    lost: list[str] = []
    others: list[str] = []
    degraded: list[str] = []
    for tenant in tenants:
        member = condition_of(tenant, ConditionType.DEGRADED)
        if is_true(_conditions(tenant), ConditionType.READY):
            if member.get("status") == "True":
                degraded.append(f"{_name(tenant)}: {text(member.get('reason'))}: {text(member.get('message'))}")
            continue
        condition = condition_of(tenant, ConditionType.READY)
        reason = text(condition.get("reason")) or "no status yet"
        told = f"{_name(tenant)}: {reason}"
        plane = condition_of(tenant, ConditionType.PLANE_READY)
        if plane.get("reason") == Reason.DATA_LOST:
            lost.append(told)
        elif reason != Reason.PAUSED:
            others.append(told)
    if lost:
        return failed(
            f"{len(lost)} planes lost their data", "bulkhead tenant why TENANT, before anything else", [*lost, *others]
        )
    if others:
        cause = f"{len(others)} of {len(tenants)} Tenants are not Ready"
        return warning(cause, "bulkhead tenant why TENANT", [*others, *degraded])
    if degraded:
        return warning(f"planes of {len(degraded)} Tenants are degraded", "bulkhead tenant why TENANT", degraded)
    return ok(f"{len(tenants)} Tenants")


def followed(seen: Seen) -> Finding:
    """The controller has seen the present generation of each Tenant."""
    behind = []
    for tenant in need(seen.cluster, "tenants"):
        generation = _count(mapping(tenant.get("metadata")).get("generation"))
        observed = _count(mapping(tenant.get("status")).get("observedGeneration"))
        if not _going(tenant) and observed < generation:
            behind.append(f"{_name(tenant)}: generation {generation}, acted on {observed}")
    if behind:
        cure = "run this again in a minute; if they are still behind, read the controller's log"
        return warning(f"changes of {len(behind)} Tenants were not acted on", cure, behind)
    return ok("all of them")


def certificates(seen: Seen) -> Finding:
    """No plane has a certificate or CA that ends within 20 days: all are renewed before."""
    samples = leader(seen, "bulkhead_tenant_certificate_end_seconds")
    now = seen.cluster.there or seen.cluster.here
    ends = sorted(
        (datetime.fromtimestamp(sample.value, UTC), sample.labels["tenant"], sample.labels["certificate"]) for sample in samples
    )
    soon = [f"{tenant}: {certificate} ends {end:%Y-%m-%d}" for end, tenant, certificate in ends if end - now < _SOON]
    if not ends:
        return skipped("the leader has reported no certificate yet", "run this again in a minute")
    cure = "docs/runbooks.md#bulkheadcertificateends: the renewal, due 30 days before the end, does not happen"
    if ends[0][0] - now < _NOW:
        return failed(f"certificates of {len(soon)} planes end soon, the first on {ends[0][0]:%Y-%m-%d}", cure, soon)
    if soon:
        return warning(f"certificates of {len(soon)} planes end within {_SOON.days} days", cure, soon)
    return ok(f"the first ends {ends[0][0]:%Y-%m-%d} ({ends[0][1]})")


def syncers(seen: Seen) -> Finding:
    """The syncer of each Tenant with a plane is ready and runs the controller's image."""
    controllers = need(seen.cluster, "controllers")
    image = _image(controllers[0]) if controllers else ""
    deployments = {text(mapping(obj.get("metadata")).get("namespace")): obj for obj in need(seen.cluster, "syncers")}
    down, old = [], []
    planes = [tenant for tenant in need(seen.cluster, "tenants") if mapping(tenant.get("status")).get("planeClusterUID")]
    for tenant in planes:
        if _going(tenant):
            continue
        deployment = deployments.get(f"bh-{_name(tenant)}")
        if deployment is None:
            down.append(f"{_name(tenant)}: has no syncer")
        elif not _count(mapping(deployment.get("status")).get("readyReplicas")):
            down.append(f"{_name(tenant)}: its syncer is not ready")
        elif image and _image(deployment) != image:
            old.append(f"{_name(tenant)}: {_image(deployment)}")
    if down:
        return failed(f"syncers of {len(down)} tenants do not run", "bulkhead tenant why TENANT", [*down, *old])
    if old:
        cure = "a paused or refused Tenant keeps its syncer; end the pause, or correct what refuses it"
        return warning(f"syncers of {len(old)} tenants run another image than the controller ({image})", cure, old)
    return ok(f"{len(planes)} syncers")


def snapshots(seen: Seen) -> Finding:
    """No Tenant reports that its snapshot is overdue."""
    overdue = [
        f"{_name(tenant)}: {text(condition.get('message'))}"
        for tenant in need(seen.cluster, "tenants")
        for condition in _conditions(tenant)
        if condition.get("reason") == _OVERDUE
    ]
    if overdue:
        return warning(
            f"snapshots of {len(overdue)} tenants are overdue", "docs/backup.md; bulkhead tenant why TENANT", overdue
        )
    return ok("none is reported")


def quota(seen: Seen) -> Finding:
    """The nominal quotas of all tenants are at most what the nodes have, for each kind of device."""
    promised: Counter[str] = Counter()
    for obj in need(seen.cluster, "work quotas"):
        tenant = given.tenant_of(obj) if _name(obj) == "tenant-quota" else None
        for (_, resource), share in (tenant.shares if tenant is not None else {}).items():
            promised[resource] += share.nominal
    offered: Counter[str] = Counter()
    for node in need(seen.cluster, "nodes"):
        for resource, amount in mapping(mapping(node.get("status")).get("allocatable")).items():
            if resource in promised:
                offered[resource] += int(readable(amount) or 0)
    short = [
        f"{resource}: {promised[resource]} promised, nodes have {offered[resource]}"
        for resource in sorted(promised)
        if promised[resource] > offered[resource]
    ]
    if short:
        cure = "add nodes, or lower quotas: pods of tenants within their quota may wait for ever"
        return warning("tenants were promised more than the nodes have", cure, short)
    return ok(
        ", ".join(f"{resource}: {promised[resource]} of {offered[resource]}" for resource in sorted(promised))
        or "no devices are promised"
    )


def _conditions(tenant: Obj) -> list[dict[str, object]]:
    return [dict(condition) for condition in mappings(mapping(tenant.get("status")).get("conditions"), 64)]


def _image(deployment: Obj) -> str:
    containers = mappings(mapping(mapping(mapping(deployment.get("spec")).get("template")).get("spec")).get("containers"), 8)
    return text(containers[0].get("image")) if containers else ""


def _going(tenant: Obj) -> bool:
    return bool(mapping(tenant.get("metadata")).get("deletionTimestamp"))


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _name(obj: Obj) -> str:
    return text(mapping(obj.get("metadata")).get("name"))
