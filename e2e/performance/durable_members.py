"""A plane of three members: how soon it runs, and what a client notices when pods and volumes of it go.

created ──> Ready ──> three serve ──> each pod deleted in turn ──> one without grace ──> a volume lost ──> all started again

The control is a plane of one member whose pod is deleted: there a client notices, with one retry as well.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from e2e import names, tenants
from e2e.api import Api, Obj
from e2e.performance.durable_client import Requests, working
from e2e.performance.durable_figures import CONTROL, DELETED, FORCED, LOST, ROLLOUT, Event, Readings, Started, noticed
from e2e.performance.durable_place import Place
from e2e.performance.durable_sizes import MARK, config_map
from e2e.poll import NotYetError, until
from e2e.tenants import Tenant
from e2e.workloads import is_ready

THREE: Final = "bench-durable-three"
ONE: Final = "bench-durable-one"
_MEMBERS: Final = 3
_WHOLE_SECONDS: Final = 600.0
# After all members serve again, so that what is only then noticed counts.
_AFTER_SECONDS: Final = 3.0
# Members start again, one after another, if the plane requests other resources.
_OTHER: Final = {"resources": {"apiServer": {"requests": {"cpu": "40m"}, "limits": {"cpu": "1"}}}}

Uids = dict[str, str]


def three(place: Place, readings: Readings) -> Tenant:
    """The tenant of three members, which is made for the first part that needs it."""
    if readings.started is not None:
        return tenants.open_tenant(THREE)
    place.create(THREE, replicas=_MEMBERS)
    begin = time.monotonic()
    tenants.wait_ready(place.host, [THREE], seconds=300)
    ready = time.monotonic() - begin
    until("three members to serve", partial(_whole, place.host, THREE, {}), seconds=_WHOLE_SECONDS, patience=1)
    whole = time.monotonic() - begin
    tenant = tenants.open_tenant(THREE)
    tenant.api.create(config_map(MARK, "three"))
    readings.started = Started(ready, whole)
    place.note(f"a plane of three: Ready after {ready:.1f} s, three members serve after {whole:.1f} s")
    return tenant


def pods(place: Place, readings: Readings) -> None:
    """Delete the pod of each member in turn, one of them without grace, and that of a plane of one."""
    tenant = three(place, readings)
    with working(tenant.kubeconfig, MARK) as client:
        bed = Bed(place, tenant, client, readings)
        for number in range(_MEMBERS):
            bed.event(DELETED, partial(bed.delete, f"plane-{number}"))
        bed.event(FORCED, partial(bed.delete, "plane-1", 0))
    single = place.tenant(ONE)
    single.api.create(config_map(MARK, "one"))
    with working(single.kubeconfig, MARK) as client:
        bed = Bed(place, single, client, readings)
        bed.event(CONTROL, partial(bed.delete, "plane-0"))


def volume(place: Place, readings: Readings) -> None:
    """A member loses its volume, and is replaced."""
    tenant = three(place, readings)

    def lose() -> None:
        place.host.delete("PersistentVolumeClaim", "data-plane-2", tenant.plane)
        place.host.delete("Pod", "plane-2", tenant.plane, grace=0)

    with working(tenant.kubeconfig, MARK) as client:
        Bed(place, tenant, client, readings).event(LOST, lose)


def rollout(place: Place, readings: Readings) -> None:
    """All members start again because the plane is to run with another setting, as with another image."""
    tenant = three(place, readings)

    def change() -> None:
        place.host.patch("Tenant", tenant.name, {"spec": {"controlPlane": _OTHER}})

    with working(tenant.kubeconfig, MARK) as client:
        Bed(place, tenant, client, readings).event(ROLLOUT, change)


@dataclass(frozen=True, slots=True)
class Bed:
    """A plane, and the client that works on it while something happens."""

    place: Place
    tenant: Tenant
    client: Requests
    readings: Readings

    def delete(self, pod: str, grace: int | None = None) -> None:
        self.place.host.delete("Pod", pod, self.tenant.plane, grace=grace)

    def event(self, name: str, act: Callable[[], None]) -> None:
        """Let something happen, and measure until all members serve again, those that had to go in other pods."""
        host, tenant, note = self.place.host, self.tenant, self.place.note
        former = _uids(host, tenant, "Pod")
        volumes = _uids(host, tenant, "PersistentVolumeClaim") if name == LOST else {}
        going = len(former) if name == ROLLOUT else 1
        begin = time.monotonic()
        act()
        replaced = partial(_replaced, host, tenant, former, volumes, going=going)
        until(f"all members after {name}", replaced, seconds=_WHOLE_SECONDS, interval=0.25, patience=1)
        seconds = time.monotonic() - begin
        time.sleep(_AFTER_SECONDS)
        event = Event(name, seconds, self.client.since(begin))
        self.readings.events.append(event)
        note(f"{name}: all members after {seconds:.1f} s; {noticed(event.asked)}")
        for one in [one for one in event.asked if one.error][:3]:
            note(f"    after {one.at - begin:.1f} s: {one.error}; a second later: {one.later or 'answered'}")


def _uids(host: Api, tenant: Tenant, kind: str) -> Uids:
    return {name: str(obj["metadata"]["uid"]) for obj in host.list(kind, tenant.plane) if _of_member(name := _name(obj))}


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _of_member(name: str) -> bool:
    return name.removeprefix("data-").removeprefix("plane-").isdigit()


def _replaced(host: Api, tenant: Tenant, former: Uids, volumes: Uids, *, going: int) -> None:
    """Raises NotYetError until so many pods are others, a lost volume is another one, and all members serve."""
    kept = [name for name, uid in _uids(host, tenant, "Pod").items() if former.get(name) == uid]
    if len(kept) > len(former) - going:
        raise NotYetError(f"still there: {', '.join(kept)}")
    if volumes and all(volumes.get(name) == uid for name, uid in _uids(host, tenant, "PersistentVolumeClaim").items()):
        raise NotYetError("the volume is still the old one")
    _whole(host, tenant.name, former)


def _whole(host: Api, name: str, former: Uids) -> None:
    """Raises NotYetError unless every member's pod is ready and the Tenant has nothing to complain of."""
    tenant = host.get("Tenant", name)
    found = tenants.conditions(tenant)
    there = [pod for pod in host.list("Pod", names.plane_namespace(name)) if _of_member(_name(pod))]
    serving = [pod for pod in there if is_ready(pod) and not pod["metadata"].get("deletionTimestamp")]
    if len(serving) < (len(former) or _MEMBERS):
        raise NotYetError(f"{len(serving)} members are ready")
    if not tenants.is_ready(tenant) or "Degraded" in found or found["PlaneReady"]["reason"] != "Ready":
        told = [found[kind]["message"] for kind in ("Degraded", "PlaneReady") if kind in found]
        raise NotYetError("; ".join(told) or tenants.explain(tenant))
