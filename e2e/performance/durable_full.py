"""A store that its tenant fills: how soon the Tenant says so, and how soon it takes writes after enough was deleted.

ConfigMaps until etcd takes none ──> StoreFull ──> more, until only a deletion helps ──> two thirds deleted ──> a write
"""

import base64
import os
import time
from functools import partial
from typing import Final

from e2e import tenants
from e2e.api import Api, ApiError
from e2e.performance.durable_figures import Full, Readings
from e2e.performance.durable_place import Place
from e2e.performance.durable_sizes import config_map
from e2e.poll import NotYetError, until
from e2e.tenants import Tenant

NAME: Final = "bench-durable-full"
SMALL: Final = {"storage": {"size": "2Gi", "quota": "100Mi"}}
_OBJECT_BYTES: Final = 960_000
_MOST: Final = 220
_NO_SPACE: Final = "database space exceeded"


def measure(place: Place, readings: Readings) -> None:
    """Fill a store of 100 MiB, and empty it again."""
    tenant = place.tenant(NAME, **SMALL)
    tenants.wait_condition(place.host, NAME, "StoreHasRoom", status="True", seconds=180)
    counts = [_filled(tenant.api, 0)]
    begin = time.monotonic()
    # A store of which old versions can be given up is open again within seconds: then an event reports it.
    until("the Tenant to say that its store is full", partial(_told, place.host), seconds=180, interval=0.25)
    noticed = time.monotonic() - begin
    place.note(f"full after {counts[0]} ConfigMaps; StoreFull after {noticed:.1f} s")
    # And so on, as long as old versions can be given up.
    brim = partial(_to_the_brim, place.host, tenant, counts)
    until("a store that is full for good", brim, seconds=600, interval=2.0, patience=1)
    there = counts[-1]
    for number in range(there * 2 // 3):
        tenant.api.delete("ConfigMap", f"large-{number}", "default")
    begin = time.monotonic()
    until("a write to be taken", partial(_writes, tenant), seconds=600, interval=0.5, patience=1)
    opened = time.monotonic() - begin
    readings.full = Full(noticed, opened)
    place.note(f"{there * 2 // 3} of {there} deleted; writes came back after {opened:.1f} s")


def _told(host: Api) -> None:
    """Whether the Tenant reports that its store is full, or did."""
    tenant = host.get("Tenant", NAME)
    ready, uid = tenants.conditions(tenant).get("Ready", {}), tenant["metadata"]["uid"]
    events = [event for event in host.list("Event", "default") if event["involvedObject"].get("uid") == uid]
    if ready.get("reason") != "StoreFull" and not any(event["reason"] == "StoreFull" for event in events):
        raise NotYetError(f"Ready is {ready.get('reason')}, and no event says StoreFull among {len(events)}")


def _filled(api: Api, first: int) -> int:
    """The number of the first ConfigMap that was not taken."""
    for number in range(first, first + _MOST):
        try:
            api.create(config_map(f"large-{number}", base64.b64encode(os.urandom(_OBJECT_BYTES * 3 // 4)).decode()))
        except ApiError as error:
            if _NO_SPACE not in str(error):
                raise
            return number
    raise RuntimeError(f"a store of 100 MiB took {_MOST} ConfigMaps of 0.96 MB")


def _to_the_brim(host: Api, tenant: Tenant, counts: list[int]) -> None:
    counts.append(_filled(tenant.api, counts[-1]))
    ready = tenants.conditions(host.get("Tenant", tenant.name))["Ready"]
    if ready["reason"] != "StoreFull" or "must be freed" not in ready["message"]:
        raise NotYetError(str(ready["message"]))


def _writes(tenant: Tenant) -> None:
    try:
        tenant.api.apply(config_map("beat", "once"))
    except ApiError as error:
        raise NotYetError(str(error)) from error
