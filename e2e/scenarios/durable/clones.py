"""Snapshots and clones as an admin types them, for the scenarios of clones."""

from collections.abc import Iterator
from contextlib import contextmanager

from e2e import commands, machine, tenants
from e2e.api import Api, Obj
from e2e.scenarios.durable.conftest import Backups

# What a clone has for itself, in the status of its Tenant.
OWN = ("planeIdentity", "serviceSlice", "planeClusterUID")


def snapshot(of: str, name: str) -> None:
    """Take a snapshot, and wait until it is stored."""
    asked = ("tenant", "snapshot", of, "--as", name)
    taken = commands.bulkhead(*asked, kubeconfig=machine.KUBECONFIG, check=False, seconds=120)
    assert taken.code == 0, taken.text


def clone(of: str, snapshot_name: str, name: str, backups: Backups, *more: str) -> commands.Outcome:
    """Make a tenant of a snapshot, or say why not; the caller looks at the outcome."""
    where = ("--key", str(backups.key), "--directory", str(backups.folder))
    asked = ("tenant", "restore", of, "--from", snapshot_name, "--as", name, *where, *more)
    return commands.bulkhead(*asked, kubeconfig=machine.KUBECONFIG, check=False, seconds=400)


@contextmanager
def away(host: Api, snapshot_name: str, *names: str) -> Iterator[None]:
    """Neither these tenants nor the snapshot is there before and after."""

    def remove() -> None:
        for name in names:
            tenants.remove(host, name)
        for request in host.list("TenantRestore"):
            if request["spec"]["tenant"] in names:
                host.delete("TenantRestore", request["metadata"]["name"])
        host.delete("TenantSnapshot", snapshot_name)

    remove()
    try:
        yield
    finally:
        remove()


def own(host: Api, *names: str) -> list[Obj]:
    """The statuses of these tenants, after a look that none of them has anything of another's."""
    found: list[Obj] = [host.get("Tenant", name)["status"] for name in names]
    for field in OWN:
        values = [status[field] for status in found]
        assert len(set(values)) == len(names), f"{field}: {values}"
    return found
