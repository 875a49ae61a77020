"""A plane of three restored with real volumes: each is filled, and its members are one cluster with what the snapshot has."""

import time

from e2e import tenants
from e2e.api import Api
from e2e.poll import NotYetError, until
from e2e.scenarios.durable.conftest import THREE, Backups
from e2e.scenarios.durable.test_restore import bulkhead, config_map
from e2e.tenants import Tenant

SNAPSHOT = f"{THREE}-r1"
RESTORED_SECONDS = 180.0


def whole(host: Api, tenant: Tenant) -> None:
    found = tenants.conditions(host.get("Tenant", tenant.name))
    pods = [pod for pod in host.list("Pod", tenant.plane) if pod["metadata"]["name"].startswith("plane-")]
    if len(pods) < 3 or "Degraded" in found or found["PlaneReady"]["reason"] != "Ready":
        raise NotYetError("; ".join(f"{name}: {found[name]['reason']}" for name in sorted(found)))


def test_three_members_are_restored_and_heal_as_before(host: Api, three: Tenant, backups: Backups) -> None:
    until("three members to serve", lambda: whole(host, three), seconds=120)
    three.api.apply(config_map("early"))
    host.delete("TenantSnapshot", SNAPSHOT)  # of a run that was killed
    taken = bulkhead("snapshot", THREE, "--as", SNAPSHOT)
    assert taken.code == 0, taken.text
    three.api.apply(config_map("late"))
    where = ("--key", str(backups.key), "--directory", str(backups.folder))
    began = time.monotonic()
    done = bulkhead("restore", THREE, "--from", SNAPSHOT, *where, "--yes")
    seconds = time.monotonic() - began
    print(f"three members restored in {seconds:.0f} s:\n{done.text}", flush=True)
    assert done.code == 0, done.text
    until("three members to serve again", lambda: whole(host, three), seconds=120)
    names = {obj["metadata"]["name"] for obj in three.api.list("ConfigMap", "default")}
    assert ("early" in names, "late" in names) == (True, False)
    assert seconds <= RESTORED_SECONDS
    # One of them loses its pod and its volume, as ever.
    former = host.get("PersistentVolumeClaim", "data-plane-0", three.plane)["metadata"]["uid"]
    host.delete("PersistentVolumeClaim", "data-plane-0", three.plane)
    host.delete("Pod", "plane-0", three.plane)

    def healed() -> None:
        claim = host.find("PersistentVolumeClaim", "data-plane-0", three.plane)
        if claim is None or claim["metadata"]["uid"] == former:
            raise NotYetError("plane-0 has its volume")
        whole(host, three)

    until("plane-0 to be replaced", healed, seconds=300)
    assert three.api.get("ConfigMap", "early", "default")
    host.delete("TenantSnapshot", SNAPSHOT)
