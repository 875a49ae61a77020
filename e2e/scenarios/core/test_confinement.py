"""A tenant's containers as the node's kernel sees them: filtered system calls, a limit of processes, user namespaces."""

from functools import cache
from pathlib import Path

import pytest

from e2e import machine, names, workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.fleet import Fleet
from e2e.poll import until
from e2e.tenants import Tenant

CLASS = "e2e-confined"
# The control group of a pod, in either version of cgroups; the limit applies to all its containers together.
GROUPS = ("pids/bulkhead/kubepods/**/pod{uid}/pids.max", "bulkhead/kubepods/**/pod{uid}/pids.max")


@cache
def ahead(fleet: Fleet) -> Obj:
    """A tenant of a class that asks for user namespaces."""
    isolation = fleet.host.get("TenantClass", "standard")["spec"].get("isolation", {}) | {"userNamespaces": True}
    return fleet.order_of_own_class(CLASS, gpus=1, isolation=isolation)


@pytest.fixture(scope="module")
def confined(fleet: Fleet) -> Tenant:
    return fleet.take(ahead(fleet))


@pytest.fixture
def preferring(fleet: Fleet, confined: Tenant) -> Tenant:
    """The same tenant, whose class now prefers user namespaces, with the real node alone: simulated ones report nothing."""
    isolation = fleet.host.get("TenantClass", "standard")["spec"].get("isolation", {}) | {"preferUserNamespaces": True}
    fleet.offer(CLASS, isolation=isolation, nodes={"selector": dict(workloads.REAL)})

    def alone() -> None:
        shown = [node["metadata"]["name"] for node in confined.api.list("Node")]
        workloads.expect(shown == [machine.NODE], f"{shown}")

    until("the tenant to see the real node alone", alone, seconds=60)
    return confined


def inside(tenant: Tenant, pod: str, command: str) -> str:
    return kubectl(tenant.kubeconfig, "exec", pod, "--", "sh", "-c", command).out.strip()


def status(tenant: Tenant, pod: str) -> dict[str, str]:
    lines = inside(tenant, pod, "cat /proc/self/status").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def test_system_calls_are_filtered_and_processes_are_counted(host: Api, alice: Tenant) -> None:
    alice.api.apply(workloads.pod("filtered"))
    virtual = workloads.wait_running(alice.api, "filtered")
    assert status(alice, "filtered")["Seccomp"] == "2"
    (mirror,) = host.list("Pod", alice.work, labels=f"{names.VIRTUAL_UID}={virtual['metadata']['uid']}")
    folder = Path("/sys/fs/cgroup")
    found = [path for pattern in GROUPS for path in folder.glob(pattern.format(uid=mirror["metadata"]["uid"]))]
    assert [path.read_text().strip() for path in found] == ["4096"]


def test_root_in_the_container_has_no_rights_on_the_node(confined: Tenant) -> None:
    own = {"name": "own", "projected": {"sources": [{"downwardAPI": {"items": [item("name", "metadata.name")]}}]}}
    spec = workloads.pod_spec(volumes=[own, {"name": "scratch", "emptyDir": {}}])
    spec["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": "/own"}, {"name": "scratch", "mountPath": "/s"}]
    confined.api.apply(workloads.pod("own-users", spec))
    workloads.wait_running(confined.api, "own-users")
    first, outside, length = inside(confined, "own-users", "head -n 1 /proc/self/uid_map").split()
    assert first == "0"
    assert int(outside) >= 65536
    assert int(length) == 65536
    seen = inside(confined, "own-users", "id -u; cat /own/name; echo; touch /s/x && stat -c %u /s/x")
    assert seen.split() == ["0", "own-users", "0"]
    assert status(confined, "own-users")["Seccomp"] == "2"


def test_the_hosts_users_cannot_be_had_back(confined: Tenant) -> None:
    confined.api.apply(workloads.pod("host-users", workloads.pod_spec(hostUsers=True)))
    condition = workloads.wait_refused(confined.api, "host-users", "NotAllowed")
    assert "spec.hostUsers" in condition["message"]


def test_a_class_that_prefers_user_namespaces_gives_them_to_pods_that_can_have_one(preferring: Tenant) -> None:
    preferring.api.apply(workloads.pod("light"))
    workloads.wait_running(preferring.api, "light")
    first, outside, _ = inside(preferring, "light", "head -n 1 /proc/self/uid_map").split()
    assert first == "0"
    assert int(outside) >= 65536
    # Whether a claim's file system can map users, no object says.
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}}
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    preferring.api.apply(claim | {"spec": size})
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    preferring.api.apply(workloads.pod("heavy", workloads.pod_spec(volumes=[volume])))
    workloads.wait_running(preferring.api, "heavy")
    assert inside(preferring, "heavy", "head -n 1 /proc/self/uid_map").split()[1] == "0"
    events = preferring.api.list("Event", "default", fields="involvedObject.name=heavy")
    assert any(event["reason"] == "UsersShared" and "volume data" in event["message"] for event in events)


def item(path: str, field: str) -> dict[str, object]:
    return {"path": path, "fieldRef": {"fieldPath": field}}
