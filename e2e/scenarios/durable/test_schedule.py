"""Snapshots by a schedule: one that cannot be stored is overdue and stored later by itself, and older ones are thinned out.

The shortest interval is 15 minutes. So the passing of time is told to the controller: by the moment at which the Tenant's
condition began, and by scheduled snapshots of earlier slots, which are asked for as the controller does.
"""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from e2e import install, names, tenants
from e2e.api import Api, Obj
from e2e.poll import NotYetError, until
from e2e.scenarios.durable.conftest import Backups
from e2e.tenants import Tenant

NAME = "e2e-timed"
CLASS = "e2e-timed"
SCHEDULED = "bulkhead.dev/scheduled-for"
FINALIZER = "bulkhead.dev/stored-snapshot"
INTERVAL = timedelta(minutes=15)


@pytest.fixture
def offer(host: Api) -> Iterator[str]:
    """A class with the shortest schedule, which keeps the last of one hour."""
    standard = next(obj for obj in install.example_objects() if obj["kind"] == "TenantClass")
    backup = {"schedule": "15m", "retention": {"hourly": 1, "daily": 0, "weekly": 0}}
    host.apply(standard | {"metadata": {"name": CLASS}, "spec": standard["spec"] | {"backup": backup}})
    clear(host)
    yield CLASS
    clear(host)
    host.delete("TenantClass", CLASS)


def clear(host: Api) -> None:
    tenants.remove(host, NAME)
    for snapshot in snapshots(host):
        host.delete("TenantSnapshot", snapshot["metadata"]["name"])


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing can be stored there by anyone but root."""
    before = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(before & ~0o222)
    try:
        yield
    finally:
        folder.chmod(before)


def snapshots(host: Api) -> list[Obj]:
    return [found for found in host.list("TenantSnapshot") if found["spec"]["tenant"] == NAME]


def reason(snapshot: Obj) -> str:
    found = {item["type"]: item for item in (snapshot.get("status") or {}).get("conditions", [])}
    return str(found.get("Complete", {}).get("reason"))


def last(host: Api) -> Obj:
    return tenants.conditions(host.get("Tenant", NAME)).get("LastSnapshot", {})


def wait_last(host: Api, status: str, wanted: str, words: str = "", *, seconds: float) -> Obj:
    def probe() -> Obj:
        found = last(host)
        if (found.get("status"), found.get("reason")) != (status, wanted) or words not in found["message"]:
            raise NotYetError(f"LastSnapshot: {found}")
        return found

    return until(f"LastSnapshot to be {wanted}", probe, seconds=seconds)


def long_ago(host: Api) -> None:
    """As if the first snapshot had been awaited for two hours."""
    tenant = host.get("Tenant", NAME)
    then = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = [
        item | {"lastTransitionTime": then} if item["type"] == "LastSnapshot" else item
        for item in tenant["status"]["conditions"]
    ]
    host.patch("Tenant", NAME, {"status": {"conditions": told}}, subresource="status")


def earlier(host: Api, tenant: Tenant, slots: int) -> str:
    """A scheduled snapshot of an earlier slot, as the controller asks for it; it is taken now."""
    present = next(found for found in snapshots(host) if SCHEDULED in found["metadata"].get("labels", {}))
    identity = present["metadata"]["labels"][SCHEDULED]
    moment = datetime.strptime(present["metadata"]["name"].removeprefix(f"{NAME}-")[:15] + "+0000", "%Y%m%d-%H%M%S%z")
    name = f"{NAME}-{moment - slots * INTERVAL:%Y%m%d-%H%M%S}-{identity[:8]}"
    meta = {"name": name, "labels": present["metadata"]["labels"], "finalizers": [FINALIZER]}
    spec = {"tenant": tenant.name}
    host.create({"apiVersion": names.API_VERSION, "kind": "TenantSnapshot", "metadata": meta, "spec": spec})
    return name


def test_a_snapshot_that_cannot_be_stored_is_overdue_and_comes_by_itself_and_older_ones_are_thinned_out(
    host: Api, offer: str, backups: Backups
) -> None:
    with read_only(backups.folder):
        red = tenants.create(host, NAME, gpus=0, tenant_class=offer)
        told = wait_last(host, "Unknown", "Provisioning", "attempt", seconds=120)
        assert "cannot store" in told["message"]
        long_ago(host)
        host.patch("Tenant", NAME, {"metadata": {"annotations": {"e2e/look": "again"}}})
        print(wait_last(host, "False", "BackupOverdue", "and one was due", seconds=180)["message"], flush=True)
    # The place is back, and nothing else is done about it.
    wait_last(host, "True", "Ready", "the last whole snapshot is of", seconds=240)
    (present,) = snapshots(host)
    home = backups.folder / present["status"]["identity"]
    # Two hours before, so that each is the last of another hour: one hour is kept.
    old = earlier(host, red, 8)

    def thinned() -> None:
        found = {snapshot["metadata"]["name"]: reason(snapshot) for snapshot in snapshots(host)}
        if old in found or found.get(present["metadata"]["name"]) != "Stored":
            raise NotYetError(str(found))

    until("the older one to be thinned out", thinned, seconds=180)
    stored = {path.relative_to(home).parts[0] for path in home.rglob("*") if path.is_file()}
    assert stored == {present["metadata"]["name"]}, "what was stored of it is gone, and the newest is whole"
    assert (home / present["metadata"]["name"] / "manifest.json").is_file()
