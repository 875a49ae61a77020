"""`restore --all` on a host that has lost every tenant: all made and stored, then all deleted, then brought back together.

    each tenant: created ──> a mark ──> snapshot    each: deleted, with its TenantSnapshot    the command ──> all Ready

None is deleted before the last one has a slice: it would get that of a deleted one, and only one of the two could come back.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from e2e import tenants
from e2e.api import Obj
from e2e.performance.durable_figures import Everything, Readings
from e2e.performance.durable_place import Place
from e2e.performance.durable_sizes import MARK, config_map

PREFIX: Final = "bench-durable-all"
_AT_ONCE: Final = 3
# `spec.controlPlane`, so that forty planes fit on two cores, at 35m each. A request is a reservation and a weight, not a limit.
_REQUESTS: Final = {"apiServer": "10m", "etcd": "5m", "controllerManager": "5m", "syncer": "10m", "dns": "5m"}
_MODEST: Final = {"resources": {part: {"requests": {"cpu": cpu}} for part, cpu in _REQUESTS.items()}}
_SECONDS_EACH: Final = 120.0
# What stays the same when a tenant comes back.
KEPT: Final = ("planeIdentity", "serviceSlice", "planeClusterUID")


@dataclass(frozen=True, slots=True)
class Known:
    """A tenant before it was deleted."""

    name: str
    uid: str
    kept: dict[str, Any]


def measure(place: Place, count: int, readings: Readings) -> None:
    """Bring this many tenants back."""
    place.empty()
    chosen = [f"{PREFIX}-{number}" for number in range(1, count + 1)]
    begin = time.monotonic()
    with ThreadPoolExecutor(_AT_ONCE, "tenants") as pool:
        known = list(pool.map(partial(_stored, place), chosen))
        list(pool.map(partial(_deleted, place), chosen))
    place.note(f"{count} tenants made, stored and deleted in {time.monotonic() - begin:.0f} s")
    limit = count * _SECONDS_EACH + 300
    begin = time.monotonic()
    words = ("tenant", "restore", "--all", "--target", place.target, "--timeout", f"{limit:.0f}s", *place.where)
    told = place.command(*words).ends(limit + 60)
    ended = time.monotonic() - begin
    tenants.wait_ready(place.host, chosen, seconds=300)
    ready = time.monotonic() - begin
    changed = tuple(text for one in known if (text := difference(place, one)))
    found = Everything(count, ended, ready, changed, unnamed(told, chosen))
    readings.everything = found
    place.note(f"{count} tenants: the command ended after {ended:.0f} s, all Ready after {ready:.0f} s")
    for text in changed:
        place.note(f"    {text}")


def unnamed(told: list[str], chosen: list[str]) -> tuple[str, ...]:
    """The tenants of which no line of progress says what they wait for. A line that tells that it is back does not count."""
    return tuple(name for name in chosen if not any(f"tenant {name}: " in line for line in told))


def difference(place: Place, before: Known) -> str:
    """What is not as it was; empty if everything is."""
    after = place.host.get("Tenant", before.name)
    if after["metadata"]["uid"] == before.uid:
        return f"{before.name}: it was never deleted"
    other = [field for field in KEPT if after["status"].get(field) != before.kept[field]]
    if other:
        return f"{before.name}: another {', '.join(other)}"
    mark = tenants.open_tenant(before.name).api.find("ConfigMap", MARK, "default")
    return "" if mark is not None and mark["data"]["text"] == before.name else f"{before.name}: its objects are not back"


def _stored(place: Place, name: str) -> Known:
    """Make a tenant, and store it."""
    tenant = place.tenant(name, **_MODEST)
    tenant.api.create(config_map(MARK, name))
    place.snapshot(name, f"{name}-1")
    found: Obj = place.host.get("Tenant", name)
    return Known(name, str(found["metadata"]["uid"]), {field: found["status"][field] for field in KEPT})


def _deleted(place: Place, name: str) -> None:
    tenants.remove(place.host, name, seconds=300)
    place.host.delete("TenantSnapshot", f"{name}-1")
