"""What a clone would be, and every reason against it: found before anything is made.

stored snapshot ──> read whole, with every check, into a file without a name ──> what comes along, and what stays behind
host ──> the name, its namespaces, the class, other restores; and whether the host takes the Tenant ──> reasons
"""

import base64
import mmap
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import IO, Final

from bulkhead.api import labels, names
from bulkhead.api.backup import FORBIDDEN
from bulkhead.api.objects import Obj
from bulkhead.api.slurmmode import has_slurm
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.snapshots import cloning, contents
from bulkhead.snapshots.bundle import Bundle
from bulkhead.snapshots.cloning import CloneError, Cloning, Own, What
from bulkhead.snapshots.contents import ContentsError
from bulkhead.snapshots.judge import RefusedError
from bulkhead.snapshots.layout import STORE
from bulkhead.snapshots.manifest import Manifest
from bulkhead.snapshots.sealing import SealError
from bulkhead.snapshots.target import TargetError
from workstation.cli.output import Progress
from workstation.cli.tenant import restoreplan, volumeroom
from workstation.cli.tenant.restoreplan import RestorePlan, Stored

_MIB: Final = 1 << 20
_ACCOUNT: Final = ("pki-service-account", "encryption.key")
# What a Tenant says of itself alone: the retained plane it takes up, its own names, and that it stands still.
_OF_THE_ORIGINAL: Final = ("adopt", "hibernation", "pausedUntil")


@dataclass(frozen=True, slots=True)
class ClonePlan:
    """A clone before it is made: what a restore needs, and what the store has."""

    plan: RestorePlan
    counted: Mapping[What, int] = field(default_factory=dict)
    alone: tuple[str, ...] = ()


async def look(client: Client, tenant: str, name: str, stored: Stored, progress: Progress, *, storage: str = "") -> ClonePlan:
    """The plan for a clone `name` of `tenant`; the store is in `stored.spool` afterwards, if it can be relied on."""
    there = await restoreplan.find(client, kinds.TENANTS, name)
    reasons: list[str] = []
    plan = RestorePlan(tenant=there, clone_of=tenant)
    made = ClonePlan(plan)
    try:
        plan = await restoreplan.read(replace(plan, tenant=None), name, stored, progress)
        made = _counted(stored.spool, plan)
    except (RefusedError, SealError, TargetError, ContentsError, CloneError) as error:
        reasons.append(str(error))
    if plan.manifest is not None and plan.bundle is not None:
        wanted = tenant_of(plan.bundle, plan.manifest, name, storage)
        reasons += _of_snapshot(tenant, plan.manifest)
        pending = await restoreplan.pending(client, name)
        resumed = next((request for request in pending if _is_same(request, plan.envelope, tenant)), None)
        others = (request["metadata"]["name"] for request in pending if request is not resumed)
        reasons += [f"restore {other} of {name} is at work" for other in others]
        if resumed is None:
            reasons += await _of_host(client, name, there, wanted)
            reasons += await restoreplan.of_new_volumes(client, mapping(wanted["spec"]), plan.manifest, clone=True)
        plan = replace(plan, tenant=there, resumed=resumed, made_tenant=wanted)
    reasons += await _of_class(client, plan.bundle)
    return replace(made, plan=replace(plan, reasons=tuple(dict.fromkeys(reasons))))


def tenant_of(bundle: Bundle, manifest: Manifest, name: str, storage: str = "") -> Obj:
    """The Tenant of a clone: the spec of the original without what names the original, and no labels of what manages it.

    `storage` is the size of its volumes; empty for that of the original.
    """
    kept = {key: value for key, value in bundle.tenant["spec"].items() if key not in _OF_THE_ORIGINAL}
    spec = volumeroom.sized(kept, storage)
    if isinstance(spec.get("exposure"), dict):
        spec["exposure"] = {key: value for key, value in spec["exposure"].items() if key != "hostnames"}
    noted = {labels.CLONE_OF: f"{manifest.tenant}/{manifest.snapshot}"}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Tenant",
        "metadata": {"name": name, "annotations": noted},
        "spec": spec,
    }


def told(made: ClonePlan, name: str, now: datetime) -> str:
    """What an admin has to know before they say yes."""
    found, counted = made.plan.manifest, made.counted
    assert found is not None  # noqa: S101 - a plan without reasons has one
    age = restoreplan.ago(found.created, now)
    size = f"{found.parts[STORE].plain / _MIB:.1f} MiB, Kubernetes {found.kubernetes}"
    lines = [
        f"tenant {name}: a clone of {found.tenant}, from snapshot {found.snapshot} of {found.created}, {age} old ({size})",
        "  Its own: identity, slice, names, CAs, key of service accounts, key of Secrets, and UID of kube-system.",
        f"  Kubeconfigs and tokens of {found.tenant} are worth nothing here, and those of {name} nothing there.",
        f"  {found.tenant} is not touched. The quota of {name} counts beside its own.",
    ]
    for what in What:
        if counted.get(what):
            few = f": {restoreplan.few(made.alone)}" if what is What.ALONE else ""
            lines.append(f"  {counted[what]:5} {what}{few}.")
    lines.append(
        f"  Pods of Deployments, StatefulSets, DaemonSets and Jobs start in the clone, beside those of {found.tenant}."
    )
    lines.append("  The content of volumes is not part of a snapshot: all volumes of the clone are empty.")
    return "\n".join([*lines, ""])


def _counted(spool: IO[bytes], plan: RestorePlan) -> ClonePlan:
    """Judge the store as the pod will, in the original's slice: what cannot become a clone's own shows here."""
    assert plan.manifest is not None  # noqa: S101 - it was read
    assert plan.bundle is not None  # noqa: S101 - it was read
    account, file = _ACCOUNT
    former = plan.bundle.secrets.get(account, {}).get(file, b"").decode("ascii", "replace")
    drawn = base64.b64encode(uuid.uuid4().bytes + uuid.uuid4().bytes).decode()
    slices = plan.manifest.service_slice
    own = Own(slices, slices, str(uuid.uuid4()), key=drawn, former_key=former, slurm=has_slurm(plan.bundle.tenant))
    judging = Cloning(own)
    scopes = (*cloning.JUDGED, *cloning.WHOLE, *cloning.COUNTED)
    with mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ) as store:
        # Services first, as there.
        for some in (scopes[:1], scopes[1:]):
            for scope, key, value in contents.latest(store, some):
                judging.judge(scope, key, value)
    return ClonePlan(plan, Counter(judging.counted), tuple(sorted(judging.alone)))


def _is_same(request: Obj, envelope: str, tenant: str) -> bool:
    return bool(request["spec"]["manifest"] == envelope and request["spec"].get("cloneOf") == tenant)


def _of_snapshot(tenant: str, found: Manifest) -> list[str]:
    return (
        [] if found.tenant == tenant else [f"it is of Tenant {found.tenant}: bulkhead tenant restore {found.tenant} --as ..."]
    )


async def _of_host(client: Client, name: str, there: Obj | None, wanted: Obj) -> list[str]:
    if there is not None:
        return [f"there is a Tenant {name} already: choose another name, or delete it"]
    taken = [
        space
        for space in (names.plane_namespace(name), names.work_namespace(name))
        if await restoreplan.find(client, kinds.NAMESPACES, space) is not None
    ]
    if taken:
        return [f"namespace {', '.join(taken)} is there already, such as that of a retained plane (bulkhead tenant retained)"]
    return await _of_api(client, wanted)


async def _of_api(client: Client, wanted: Obj) -> list[str]:
    """Why the host's API server would not take the Tenant; it stores nothing."""
    try:
        body, params = codec.encode(wanted), {"dryRun": "All"}
        await client.transport.request("POST", kinds.TENANTS.path(), params=params, body=body, content_type="application/json")
    except KubeError as error:
        return [f"the host does not take its Tenant: {error}"]
    return []


async def _of_class(client: Client, bundle: Bundle | None) -> list[str]:
    name = text(mapping(bundle.tenant["spec"]).get("class")) if bundle is not None else ""
    if not name:
        return []
    try:
        found = await client.get(kinds.TENANT_CLASSES, name)
    except NotFound:
        return [f"there is no TenantClass {name}, which the Tenant names: create it first"]
    if mapping(mapping(found.get("spec")).get("backup")).get("clones") == FORBIDDEN:
        return [f"TenantClass {name} forbids clones (spec.backup.clones)"]
    return []
