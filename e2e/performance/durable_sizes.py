"""Snapshots and restores of one plane that grows: filled to a size, copied while a client works on it, and put back.

    for each size: ConfigMaps until the store has it ──> snapshot ──> something is written later ──> restore in place
What is restored has to be what was there: a mark from before the snapshot, and none from after it.
"""

import base64
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Final

from e2e import tenants
from e2e.api import Api, ApiError, Obj, UnreachableError
from e2e.performance.durable_client import working
from e2e.performance.durable_figures import Readings, Restore, Snapshot
from e2e.performance.durable_place import Peak, Place
from e2e.poll import NotYetError, until
from e2e.tenants import Tenant

NAME: Final = "bench-durable-sizes"
MARK: Final = "mark"
# The volume has room for the store, its copy and what is made of it.
PLANE: Final = {"storage": {"size": "8Gi", "quota": "1Gi"}}
_OBJECT_BYTES: Final = 960_000
_WRITERS: Final = 4
_MIB: Final = 1 << 20
_FILL_SECONDS: Final = 600.0
_RESTORE_SECONDS: Final = 600.0


def config_map(name: str, text: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"text": text}}


def fill(api: Api, first: int, count: int) -> None:
    """Create ConfigMaps of 0.96 MB of text that cannot be compressed, by several connections."""
    deadline = time.monotonic() + _FILL_SECONDS

    def one(number: int) -> None:
        obj = config_map(f"large-{number}", base64.b64encode(os.urandom(_OBJECT_BYTES * 3 // 4)).decode())
        while not _created(api, obj):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the plane did not take {count} ConfigMaps of 0.96 MB within {_FILL_SECONDS:g} s")
            time.sleep(0.5)

    with ThreadPoolExecutor(_WRITERS, "fill") as pool:
        list(pool.map(one, range(first, first + count)))


def _created(api: Api, obj: Obj) -> bool:
    """Whether it is there; a refusal for good is an error."""
    try:
        api.create(obj)
    except UnreachableError:
        return False
    except ApiError as error:
        if error.status not in {409, 429, 500, 503, 504}:
            raise
        return error.status == 409  # the answer to an earlier try was lost
    return True


def measure(place: Place, sizes: tuple[int, ...], restored: tuple[int, ...], readings: Readings) -> None:
    """A snapshot of each size in MiB, and a restore of those in `restored`."""
    tenant = place.tenant(NAME, **PLANE)
    tenant.api.create(config_map(MARK, "none"))
    there = 0
    for size in sorted(sizes):
        count = -(-size * _MIB // _OBJECT_BYTES)
        begin = time.monotonic()
        fill(tenant.api, there, count - there)
        place.note(f"{size} MiB: {count - there} ConfigMaps of 0.96 MB in {time.monotonic() - begin:.0f} s")
        there = count
        tenant.api.apply(config_map(MARK, str(size)))
        taken = _snapshot(place, tenant, size)
        readings.snapshots.append(taken)
        if size in restored:
            readings.restores.append(_restore(place, tenant, taken))


def _snapshot(place: Place, tenant: Tenant, size: int) -> Snapshot:
    with working(tenant.kubeconfig, MARK) as client, Peak(place.host) as peak:
        begin = time.monotonic()
        made, seconds = place.snapshot(tenant.name, f"{NAME}-{size}")
        asked = client.since(begin)
    mib = int(made["status"]["storeBytes"]) / _MIB
    failed = sum(bool(one.error) for one in asked)
    place.note(
        f"{size} MiB: snapshot of {mib:.1f} MiB in {seconds:.1f} s, controller {peak.before:.0f} to {peak.most:.0f} MiB, "
        f"{failed} of {len(asked)} requests failed"
    )
    return Snapshot(size, mib, seconds, peak.before, peak.most, asked)


def _restore(place: Place, tenant: Tenant, taken: Snapshot) -> Restore:
    tenant.api.apply(config_map("later", "written after the snapshot"))
    size = taken.wanted
    with working(tenant.kubeconfig, MARK) as client:
        begin = time.monotonic()
        place.command("tenant", "restore", tenant.name, "--from", f"{NAME}-{size}", "--yes", *place.where).ends(
            _RESTORE_SECONDS
        )
        ended = time.monotonic() - begin
        until("what the snapshot has", partial(_back, place.host, tenant, size), seconds=180, patience=1)
        ready = time.monotonic() - begin
        asked = client.since(begin)
    status = _status(place.host, tenant.name)
    started, filled, completed = (_moment(status, name) for name in ("startTime", "filledTime", "completionTime"))
    place.note(
        f"{size} MiB: restored in {ended:.1f} s, Ready after {ready:.1f} s; "
        f"filled {filled - started:.0f} s after the start, answered {completed - filled:.0f} s later"
    )
    return Restore(size, taken.mib, ended, ready, filled - started, completed - filled, asked)


def _back(host: Api, tenant: Tenant, size: int) -> None:
    """The Tenant is Ready, and its API has what was there before the snapshot and nothing of later."""
    found = host.get("Tenant", tenant.name)
    if not tenants.is_ready(found):
        raise NotYetError(tenants.explain(found))
    if tenant.api.get("ConfigMap", MARK, "default")["data"]["text"] != str(size):
        raise NotYetError("the mark of another size")
    if tenant.api.find("ConfigMap", "later", "default") is not None:
        raise RuntimeError(f"a restore of {size} MiB left what was written after the snapshot")


def _status(host: Api, tenant: str) -> Obj:
    """The status of the last restore."""
    found = [one for one in host.list("TenantRestore") if one["spec"]["tenant"] == tenant]
    last = max(found, key=lambda one: str(one["metadata"]["creationTimestamp"]))
    return dict(last["status"])


def _moment(status: Obj, name: str) -> float:
    return datetime.fromisoformat(str(status[name])).timestamp()
