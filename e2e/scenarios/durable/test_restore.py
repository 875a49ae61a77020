"""Restores on the embedded host: a tenant whose pods run on, a plane that lost its volume, a command that is interrupted."""

import signal
import subprocess
import sys
import time

from e2e import commands, machine, tenants, workloads
from e2e.api import Api, Obj
from e2e.poll import NotYetError, until
from e2e.scenarios.durable.conftest import NAME, Backups
from e2e.tenants import Tenant


def bulkhead(*arguments: str, seconds: float = 400) -> commands.Outcome:
    return commands.bulkhead("tenant", *arguments, kubeconfig=machine.KUBECONFIG, check=False, seconds=seconds)


def restore(snapshot: str, backups: Backups, *more: str) -> commands.Outcome:
    where = ("--key", str(backups.key), "--directory", str(backups.folder))
    return bulkhead("restore", NAME, "--from", snapshot, *where, *more)


def snapshot(host: Api, name: str) -> None:
    host.delete("TenantSnapshot", name)  # of a run that was killed
    taken = bulkhead("snapshot", NAME, "--as", name)
    assert taken.code == 0, taken.text


def config_map(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"a": "b"}}


def host_uid(host: Api, red: Tenant, virtual: Obj) -> str:
    return str(workloads.host_pod_of(host, virtual, red.work)["metadata"]["uid"])


def is_ready(host: Api) -> None:
    found = tenants.conditions(host.get("Tenant", NAME))["Ready"]
    if found["status"] != "True":
        raise NotYetError(f"{found['reason']}: {found['message']}")


def pods_of(host: Api, red: Tenant) -> set[str]:
    return {str(pod["metadata"]["uid"]) for pod in host.list("Pod", red.work) if not pod["metadata"].get("deletionTimestamp")}


def test_a_tenants_pods_run_on_over_a_restore_and_what_is_younger_is_decided_by_an_admin(
    host: Api, red: Tenant, backups: Backups
) -> None:
    red.api.create(workloads.pod("works"))
    works = workloads.wait_running(red.api, "works")
    known, restarts = host_uid(host, red, works), workloads.restarts(works)
    red.api.create(config_map("early"))
    snapshot(host, f"{NAME}-r1")
    red.api.create(config_map("late"))
    red.api.create(workloads.pod("younger"))
    younger = host_uid(host, red, workloads.wait_running(red.api, "younger"))
    dry = restore(f"{NAME}-r1", backups, "--dry-run")
    assert dry.code == 0, dry.text
    assert "default/younger" in dry.err
    assert "nothing was changed" in dry.out
    # Without a terminal and without --yes, nothing happens either.
    assert restore(f"{NAME}-r1", backups).code == 2
    assert red.api.get("ConfigMap", "late", "default")
    began = time.monotonic()
    done = restore(f"{NAME}-r1", backups, "--yes")
    seconds = time.monotonic() - began
    print(f"restored in {seconds:.0f} s:\n{done.text}", flush=True)
    assert done.code == 0, done.text
    assert "pod default/younger" in done.err
    assert f"accept-data {NAME}" in done.err
    names = {obj["metadata"]["name"] for obj in red.api.list("ConfigMap", "default")}
    assert ("early" in names, "late" in names) == (True, False)
    # Both run on, and one of them is in the plane again.
    assert {known, younger} <= pods_of(host, red)
    again = workloads.wait_running(red.api, "works")
    assert again["metadata"]["uid"] == works["metadata"]["uid"]
    assert host_uid(host, red, again) == known
    assert workloads.restarts(again) == restarts

    def lost() -> None:
        # The Tenant says so at the end of the reconcile that has ended the restore.
        found = tenants.conditions(host.get("Tenant", NAME))["Ready"]
        if (found["status"], found["reason"]) != ("False", "DataLost"):
            raise NotYetError(f"{found['reason']}: {found['message']}")

    until("the tenant to say that its data differs", lost, seconds=60)
    # New pods start meanwhile.
    red.api.create(workloads.pod("newer"))
    workloads.wait_running(red.api, "newer")
    accepted = bulkhead("accept-data", NAME, "--yes")
    assert accepted.code == 0, accepted.text

    def ended() -> None:
        if younger in pods_of(host, red):
            raise NotYetError("the younger pod still runs")

    until("the younger pod to end", ended, seconds=120)
    until("the tenant to be ready", lambda: is_ready(host), seconds=120)
    assert known in pods_of(host, red)
    host.delete("TenantSnapshot", f"{NAME}-r1")


def interrupted(snapshot_name: str, backups: Backups, when: str) -> None:
    """Run the command until it says this, and interrupt it then."""
    command = [sys.executable, "-m", "workstation.cli.main", "tenant", "restore", NAME, "--yes"]
    command += [
        "--kubeconfig",
        str(machine.KUBECONFIG),
        "--from",
        snapshot_name,
        "--key",
        str(backups.key),
        "--directory",
        str(backups.folder),
    ]
    # A run without a terminal may have been started with SIGINT ignored, which its children would inherit.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        started = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with started as process:
        assert process.stderr is not None
        for line in process.stderr:
            if when in line:
                process.send_signal(signal.SIGINT)
                break
        assert process.wait(60) == 130


def test_a_plane_that_lost_its_volume_comes_back_also_by_a_command_that_was_interrupted(
    host: Api, red: Tenant, backups: Backups
) -> None:
    red.api.create(workloads.pod("works"))
    works = workloads.wait_running(red.api, "works")
    known = host_uid(host, red, works)
    snapshot(host, f"{NAME}-r2")
    host.delete("PersistentVolumeClaim", "data-plane-0", red.plane)
    host.delete("Pod", "plane-0", red.plane, grace=0)

    def lost() -> None:
        found = tenants.conditions(host.get("Tenant", NAME))["Ready"]
        if found["reason"] != "DataLost":
            raise NotYetError(f"{found['reason']}: {found['message']}")

    until("the loss to be noticed", lost, seconds=240)
    interrupted(f"{NAME}-r2", backups, "the plane and its syncer stop")
    done = restore(f"{NAME}-r2", backups, "--yes")
    assert done.code == 0, done.text
    assert "going on with restore" in done.err
    assert "it knows everything that the host has of the tenant" in done.err
    until("the tenant to be ready", lambda: is_ready(host), seconds=120)
    again = workloads.wait_running(red.api, "works")
    assert (again["metadata"]["uid"], host_uid(host, red, again)) == (works["metadata"]["uid"], known)
    host.delete("TenantSnapshot", f"{NAME}-r2")


def test_a_tenant_that_is_gone_comes_back_with_identity_slice_and_objects(host: Api, red: Tenant, backups: Backups) -> None:
    red.api.create(config_map("early"))
    snapshot(host, f"{NAME}-r3")
    before = host.get("Tenant", NAME)
    tenants.remove(host, NAME)
    done = bulkhead("restore", "--all", "--key", str(backups.key), "--directory", str(backups.folder), "--timeout", "180s")
    print(done.text, flush=True)
    # The place may have snapshots of other tenants, which this key does not open.
    assert f"tenant {NAME} is back" in done.err, done.text
    until("the tenant to be ready", lambda: is_ready(host), seconds=120)
    after = host.get("Tenant", NAME)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    for field in ("planeIdentity", "serviceSlice", "planeClusterUID"):
        assert after["status"][field] == before["status"][field], field
    # The same kubeconfig as before: its CA and its certificate are valid again.
    assert red.api.get("ConfigMap", "early", "default")
    red.api.create(workloads.pod("works"))
    workloads.wait_running(red.api, "works")
    host.delete("TenantSnapshot", f"{NAME}-r3")
