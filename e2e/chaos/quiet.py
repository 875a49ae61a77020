"""I9: whether the platform still writes for a tenant that does nothing.

    the tenant's load pauses ──> look ──> look … until a window passes in which nothing changed by the syncer's or the
                                          controller's hand ──> Quiet

A look is a snapshot of what they manage: versions of objects on the host and in the plane, and the plane's count of writing
requests, in which refused and empty writes show too. `changes` is pure.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from e2e.api import Api, ApiError, Obj, UnreachableError
from e2e.chaos.history import Quiet
from e2e.tenants import Tenant

PLATFORM: Final = frozenset({"bulkhead-syncer", "bulkhead-controller"})  # managers of fields
_HOST_KINDS: Final = (
    "Pod", "ConfigMap", "Secret", "Service", "EndpointSlice", "PersistentVolumeClaim", "ResourceQuota", "LimitRange",
    "NetworkPolicy", "Role", "RoleBinding", "ServiceAccount", "Deployment", "StatefulSet", "PodDisruptionBudget",
)  # fmt: skip
_PLANE_KINDS: Final = ("Pod", "Node", "Service", "ConfigMap", "Secret", "Event", "PersistentVolumeClaim", "EndpointSlice")
# In the plane, leases are the components' heartbeats, reviews write nothing, and ConfigMaps are what prober and writer patch.
_NOT_COUNTED: Final = frozenset({"leases", "configmaps", "tokenreviews", "subjectaccessreviews", "selfsubjectreviews"})
# The syncer notes there how far the plane's revision has come, which the prober's writes move.
_FOLLOWS_THE_PROBER: Final = frozenset({"plane-identity"})
_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_METRIC: Final = re.compile(r"^apiserver_request_total\{([^}]*)\} (\S+)", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_LOOK_EVERY: Final = 2.0


@dataclass(frozen=True, slots=True)
class Look:
    """What the platform has written for a tenant so far: object -> mark of the platform's last write; request -> count."""

    objects: Mapping[str, str]
    requests: Mapping[str, int]


def marks(where: str, kind: str, items: Sequence[Obj]) -> dict[str, str]:
    """Object -> what the platform's own entries among its managed fields say; an object that it never wrote has none. Pure."""
    found = {}
    for item in items:
        metadata = item["metadata"]
        own = [entry for entry in metadata.get("managedFields") or [] if entry.get("manager") in PLATFORM]
        if own and metadata["name"] not in _FOLLOWS_THE_PROBER:
            name = f"{where} {kind} {metadata.get('namespace', '')}/{metadata['name']}"
            found[name] = f"{metadata['uid']} {sorted((str(entry.get('time')), str(entry.get('fieldsV1'))) for entry in own)}"
    return found


def requests(metrics: str) -> dict[str, int]:
    """Writing requests by verb and resource, from the metrics of an API server. Pure."""
    found: dict[str, int] = {}
    for labels, value in _METRIC.findall(metrics):
        named = dict(_LABEL.findall(labels))
        if named.get("verb") in _WRITES and named.get("resource") not in _NOT_COUNTED:
            resource = "/".join(filter(None, (named.get("resource"), named.get("subresource"))))
            key = f"{named['verb']} {resource}"
            found[key] = found.get(key, 0) + int(float(value))
    return found


def changes(before: Look, after: Look) -> tuple[str, ...]:
    """What the platform wrote between two looks. Pure. Objects that are gone count, since the tenant does nothing."""
    found = [name for name, mark in after.objects.items() if before.objects.get(name) != mark]
    found += [f"{name} (gone)" for name in before.objects if name not in after.objects]
    for request, count in after.requests.items():
        more = count - before.requests.get(request, 0)
        if more > 0 and before.requests:
            found.append(f"{more} x {request} in the plane")
    return tuple(sorted(found))


def look(host: Api, tenant: Tenant, *, counts: bool) -> Look:
    """One look. `counts` is whether the plane has one API server, so that its counters are comparable."""
    objects: dict[str, str] = {}
    for space in (tenant.plane, tenant.work):
        for kind in _HOST_KINDS:
            objects |= marks("host", kind, host.list(kind, space))
    objects |= marks("host", "Tenant", [host.get("Tenant", tenant.name)])
    for kind in _PLANE_KINDS:
        objects |= marks("plane", kind, tenant.api.list(kind))
    return Look(objects, requests(tenant.api.text("/metrics")) if counts else {})


def wait(
    host: Api,
    tenant: Tenant,
    experiment: str,
    *,
    window: float,
    within: float,
    counts: bool,
    note: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Any] = time.sleep,
) -> Quiet:
    """Look until a whole window has passed without a write, or until no window can pass any longer within the limit."""
    begin = since = clock()
    before: Look | None = None
    last: tuple[str, ...] = ()
    wrote: tuple[str, ...]
    seen = 0.0
    while True:
        try:
            current: Look | None = look(host, tenant, counts=counts)
        except (ApiError, UnreachableError) as exc:
            current, wrote = None, (f"not observed: {str(exc)[:120]}",)
        else:
            wrote = changes(before, current) if before is not None and current is not None else ()
        now = clock()
        if current is None or before is None or wrote:
            if wrote:
                note(f"    not quiet after {now - begin:.0f} s: {', '.join(wrote[:3])[:150]}")
                last = wrote
            since = now
        seen = now - since
        if current is not None and seen >= window:
            return Quiet(now, tenant.name, experiment, since - begin, seen, ())
        if since - begin > within:
            return Quiet(now, tenant.name, experiment, since - begin, seen, last or ("not observed",))
        before = current
        sleep(_LOOK_EVERY)
