"""What a restore would do to a tenant, and every reason against it: found before anything is changed.

stored snapshot ──> read whole, with every check, into a file without a name ──┬─> what it knows
host ──> Tenant, class, slices, other restores, what the syncer has made ──────┴─> reasons, and what is lost
"""

import mmap
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import IO, TYPE_CHECKING, Any, Final

from bulkhead.api import conditions, labels, names
from bulkhead.api.conditions import ConditionType, Reason, RestoreCondition, find_condition
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.objects import Resource
from bulkhead.signing import Ring
from bulkhead.snapshots import contents, reading
from bulkhead.snapshots.bundle import Bundle
from bulkhead.snapshots.contents import ContentsError
from bulkhead.snapshots.judge import RefusedError, Taker
from bulkhead.snapshots.layout import MANIFEST, STORE, folder
from bulkhead.snapshots.manifest import Manifest
from bulkhead.snapshots.sealing import SealError
from bulkhead.snapshots.target import TargetError
from workstation.cli.output import Progress
from workstation.cli.tenant import volumeroom
from workstation.cli.tenant.snapshotsource import MOST_BYTES, Source

if TYPE_CHECKING:
    import pyrage

# A Tenant that is gone took what was revoked since with it; no snapshot knows that.
REVOKE_AGAIN: Final = "revoke again what was revoked since (bulkhead revoke)"
_MIB: Final = 1 << 20
_NAMED: Final = 10
_KINDS: Final[Mapping[str, tuple[Resource, str]]] = {
    "pods": (kinds.PODS, contents.PODS),
    "volume claims": (kinds.PERSISTENT_VOLUME_CLAIMS, contents.CLAIMS),
    "Services": (kinds.SERVICES, contents.SERVICES),
}


@dataclass(frozen=True, slots=True)
class Known:
    """Of one kind: what the host has and the snapshot knows, what only the host has, and what only the snapshot has."""

    both: int
    younger: tuple[str, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """A restore before it begins.

    envelope: the manifest as it is signed. tenant: the Tenant; None if it is made. resumed: an unfinished TenantRestore of the
    same snapshot. clone_of, made_tenant: the original and the Tenant of a clone. storage: the size of the volumes of a Tenant
    that is made, if another one than in the snapshot is asked for. reasons: why it is refused; empty if nothing speaks
    against it.
    """

    envelope: str = ""
    manifest: Manifest | None = None
    bundle: Bundle | None = None
    tenant: Obj | None = None
    resumed: Obj | None = None
    known: Mapping[str, Known] = field(default_factory=dict)
    clone_of: str = ""
    made_tenant: Obj | None = None
    storage: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored snapshot, what it takes to read it, and the file that takes its store."""

    source: Source
    ring: Ring
    keys: "list[pyrage.x25519.Identity]"
    spool: IO[bytes]


async def look(
    client: Client, tenant: str, stored: Stored, progress: Progress, *, discard: bool, storage: str = ""
) -> RestorePlan:
    """The plan; the store is in `stored.spool` afterwards, if it can be relied on."""
    there = await find(client, kinds.TENANTS, tenant)
    reasons: list[str] = []
    plan = RestorePlan(tenant=there, storage=storage)
    if there is not None and storage:
        reasons.append(f"--storage {storage}: the Tenant is here; raise its spec.controlPlane.storage.size instead")
    try:
        plan = await read(plan, tenant, stored, progress)
    except (RefusedError, SealError, TargetError, ContentsError) as error:
        reasons.append(str(error))
    if plan.manifest is not None:
        reasons += await _of_tenant(client, tenant, plan.manifest, plan.bundle, there)
        unfinished = await pending(client, tenant)
        resumed = next((request for request in unfinished if request["spec"]["manifest"] == plan.envelope), None)
        reasons += [
            f"restore {request['metadata']['name']} of the same tenant is at work: wait for it, or delete that TenantRestore"
            for request in unfinished
            if request is not resumed
        ]
        if resumed is None:
            reasons += await _of_room(client, tenant, plan, discard=discard)
        plan = replace(plan, resumed=resumed)
    known = await _known(client, tenant, stored.spool) if not reasons else {}
    return replace(plan, known=known, reasons=tuple(dict.fromkeys(reasons)))


def told(plan: RestorePlan, tenant: str, now: datetime) -> str:
    """What an admin has to know before they say yes."""
    found = plan.manifest
    assert found is not None  # noqa: S101 - a plan without reasons has one
    size, age = found.parts[STORE].plain / _MIB, ago(found.created, now)
    what = f"{size:.1f} MiB, Kubernetes {found.kubernetes}"
    lines = [f"tenant {tenant}: snapshot {found.snapshot} of {found.created}, {age} old ({what})"]
    if plan.tenant is None:
        lines.append(f"  The Tenant is made again, with slice {found.service_slice} and identity {found.identity}.")
        lines.append(f"  Its quota and its access are those of {found.created}: {REVOKE_AGAIN}.")
        return "\n".join([*lines, ""])
    lines.append("  Its API is away until the restored plane is ready. Its pods run on.")
    lines.append(f"  Lost: everything that was written to its API after {found.created}.")
    for what, known in plan.known.items():
        if known.both:
            lines.append(f"  {known.both:5} {what}: on the host and in the snapshot; they are adopted and stay as they are.")
        if known.younger:
            lines.append(f"  {len(known.younger):5} {what}: not in the snapshot: {few(known.younger)}.")
        if known.gone:
            lines.append(
                f"  {len(known.gone):5} {what}: in the snapshot and not on the host: {few(known.gone)}. They are made again."
            )
    if any(known.younger for known in plan.known.values()):
        lines.append(f"  What is not in the snapshot stays until you accept the data: bulkhead tenant accept-data {tenant}.")
    lines.append("  The content of its volumes is not part of a snapshot, and stays as it is.")
    return "\n".join([*lines, ""])


async def read(plan: RestorePlan, tenant: str, stored: Stored, progress: Progress) -> RestorePlan:
    """The plan with manifest, keys and store, all of them read and verified."""
    source, keys = stored.source, stored.keys
    status = mapping(mapping(plan.tenant).get("status"))
    runs = mapping(status.get("versions"))
    taker = Taker(
        most=MOST_BYTES,
        identity=text(status.get("planeIdentity")),
        kubernetes=text(runs.get("kubernetes")),
        etcd=text(runs.get("etcd")),
    )
    found = await reading.inspect(source.target, stored.ring, source.identity, source.name, taker)
    envelope = (await source.target.small(f"{folder(source.identity, source.name)}/{MANIFEST}")).decode("utf-8", "replace")
    bundle = await reading.plane(source.target, found, keys)
    done = 0
    async with aclosing(reading.store(source.target, found, keys)) as chunks:
        async for chunk in chunks:
            stored.spool.write(chunk)
            done += len(chunk)
            progress.show(f"tenant {tenant}: checked {done / _MIB:.1f} of {found.parts[STORE].plain / _MIB:.1f} MiB")
    stored.spool.flush()
    return replace(plan, manifest=found, envelope=envelope, bundle=bundle)


async def _of_tenant(client: Client, tenant: str, found: Manifest, bundle: Bundle | None, there: Obj | None) -> list[str]:
    reasons = []
    if found.tenant != tenant:
        reasons.append(f"it is of Tenant {found.tenant}: bulkhead tenant restore {found.tenant}")
    if there is None:
        wanted = text(mapping(bundle.tenant["spec"]).get("class")) if bundle is not None else ""
        if wanted and await find(client, kinds.TENANT_CLASSES, wanted) is None:
            reasons.append(f"there is no TenantClass {wanted}, which the Tenant names: create it first")
    else:
        ready = conditions.condition_of(there, ConditionType.READY)
        if ready.get("reason") == Reason.PAUSED:
            reasons.append("the tenant is paused: the controller touches nothing of it until it is resumed")
        if there["metadata"].get("deletionTimestamp"):
            reasons.append("the Tenant is being deleted")
    return [*reasons, *await _of_slice(client, tenant, found)]


async def _of_slice(client: Client, tenant: str, found: Manifest) -> list[str]:
    """Why the slice is not free; nothing if it is, or if it is the tenant's own."""
    wanted = ip_network(found.service_slice)
    for other in (await client.list(kinds.SERVICE_CIDRS)).items:
        cidrs = [ip_network(cidr) for cidr in mapping(other.get("spec")).get("cidrs") or []]
        own = other["metadata"]["name"] == names.plane_namespace(tenant)
        if own and wanted not in cidrs:
            return [f"its Services have addresses in {wanted}, and the tenant has slice {', '.join(map(str, cidrs))}"]
        marks = mapping(other["metadata"].get("labels"))
        # The host's own range covers everything, and is not a slice.
        if own or not any(map(wanted.overlaps, cidrs)):
            continue
        if marks.get(labels.TENANT):
            return [f"its slice {wanted} is taken by tenant {marks[labels.TENANT]}"]
        if marks.get(labels.LEFT_BY):
            return [
                f"Services of the host have addresses in its slice {wanted}: delete and recreate them (kubectl get ipaddresses)"
            ]
    return []


async def _of_room(client: Client, tenant: str, plan: RestorePlan, *, discard: bool) -> list[str]:
    """The volumes that are too small, of the plane that is here and of a Tenant that is made again."""
    assert plan.manifest is not None  # noqa: S101 - it was read
    store = plan.manifest.parts[STORE].plain
    claims = (await client.list(kinds.PERSISTENT_VOLUME_CLAIMS, names.plane_namespace(tenant))).items
    reasons = volumeroom.of_present(claims, store, discard=discard)
    if plan.tenant is None and plan.bundle is not None and not claims:
        spec = volumeroom.sized(mapping(plan.bundle.tenant["spec"]), plan.storage)
        reasons += await of_new_volumes(client, spec, plan.manifest, clone=False)
    return reasons


async def of_new_volumes(client: Client, spec: Mapping[str, Any], found: Manifest, *, clone: bool) -> list[str]:
    """Why the volumes that a Tenant of this spec gets are too small; nothing if its class is not here."""
    offer = await find(client, kinds.TENANT_CLASSES, text(spec.get("class")))
    return volumeroom.of_new(spec, mapping(offer.get("spec")), found.parts[STORE].plain, clone=clone) if offer else []


async def pending(client: Client, tenant: str) -> list[Obj]:
    """The TenantRestores of this tenant that are not finished."""
    return [request for request in (await client.list(kinds.TENANT_RESTORES)).items if is_pending(request, tenant)]


def is_pending(request: Obj, tenant: str) -> bool:
    """Whether a TenantRestore of this tenant is not finished."""
    found = find_condition(mapping(request.get("status")).get("conditions") or [], RestoreCondition.COMPLETE) or {}
    return mapping(request.get("spec")).get("tenant") == tenant and found.get("status") not in {"True", "False"}


async def _known(client: Client, tenant: str, spool: IO[bytes]) -> dict[str, Known]:
    with mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ) as store:
        inside = contents.uids(store, [resource for _, resource in _KINDS.values()])
    found = {}
    for what, (kind, resource) in _KINDS.items():
        mirrored = (await client.list_metadata(kind, names.work_namespace(tenant), label_selector=labels.MIRRORED)).items
        younger = [name for obj in mirrored if (name := contents.unknown(obj, inside[resource]))]
        there = {_virtual(obj) for obj in mirrored}
        # Only pods count here: not every claim and Service has a copy on the host.
        gone = sorted(inside[resource].keys() - there) if kind is kinds.PODS else []
        found[what] = Known(len(mirrored) - len(younger), tuple(sorted(younger)), tuple(gone))
    return found


def _virtual(obj: Obj) -> str:
    noted = mapping(obj["metadata"].get("annotations"))
    return f"{text(noted.get(labels.VIRTUAL_NAMESPACE))}/{text(noted.get(labels.VIRTUAL_NAME))}"


async def find(client: Client, resource: Resource, name: str) -> Obj | None:
    """An object without a namespace; None if it is not there."""
    try:
        return await client.get(resource, name)
    except NotFound:
        return None


def few(found: Iterable[str]) -> str:
    """The first of these, and how many more there are."""
    listed = list(found)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more


def ago(created: str, now: datetime) -> str:
    """How old something is."""
    try:
        seconds = int((now - datetime.fromisoformat(created).astimezone(UTC)).total_seconds())
    except ValueError:
        return "of unknown age and"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{max(seconds, 0)} s"
