"""Volumes that the host shares: the same bytes for two tenants, read-only if the share says so, and nothing but what is shared.

The source is a directory of the node behind a volume of type local, because the kernel may lack an NFS client. If the node's
kernel has one, BULKHEAD_E2E_NFS=<server> uses the export `/` of an NFS server that serves the same directory.
"""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e import machine, tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.commands import kubectl
from e2e.poll import holds, until
from e2e.tenants import Tenant

ROOT = machine.DATA / "e2e-shared"
SOURCE = "e2e-shared-source"
NFS_SERVER = os.environ.get("BULKHEAD_E2E_NFS", "")
SECRET = "nobody was given this"


@dataclass(frozen=True, slots=True)
class Volumes:
    """A directory of the node, shared with two tenants: `common` read-only, `teams/<tenant>` writable."""

    host: Api
    alice: Tenant
    bob: Tenant


def shared(name: str, **spec: object) -> Obj:
    """A SharedVolume of that directory."""
    source = {"nfs": {"server": NFS_SERVER, "path": "/"}} if NFS_SERVER else {"persistentVolumeName": SOURCE}
    body = {**source, "namespaces": {"names": ["default"]}, **spec}
    return {"apiVersion": "bulkhead.dev/v1alpha1", "kind": "SharedVolume", "metadata": {"name": name}, "spec": body}


def source() -> Obj:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [machine.NODE]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "of-the-host",
        "local": {"path": str(ROOT)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": SOURCE}, "spec": spec}


@pytest.fixture(scope="module")
def volumes(host: Api, alice: Tenant, bob: Tenant) -> Iterator[Volumes]:
    shutil.rmtree(ROOT, ignore_errors=True)
    for path, content in (
        ("common/data", "the same bytes"),
        (f"teams/{alice.name}/of", alice.name),
        (f"teams/{bob.name}/of", bob.name),
        ("private/key", SECRET),
    ):
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(content)
    for tenant in (alice, bob):
        (ROOT / "teams" / tenant.name).chmod(0o777)
    given = [alice.name, bob.name]
    with contextlib.ExitStack() as after:
        for obj in (
            source(),
            shared("common", subPath="common", tenants=given),
            shared("home", subPath="teams/{tenant}", readOnly=False, tenants=given),
        ):
            host.apply(obj)
            after.callback(host.delete, obj["kind"], obj["metadata"]["name"])
        yield Volumes(host, alice, bob)
    shutil.rmtree(ROOT, ignore_errors=True)


def wait_claim(tenant: Tenant, name: str) -> Obj:
    def probe() -> Obj:
        found = tenant.api.find("PersistentVolumeClaim", name, "default")
        phase = (found or {}).get("status", {}).get("phase", "")
        workloads.expect(phase == "Bound", f"{phase or 'not there'}; {tenants.explain(host_tenant(tenant))}")
        return found or {}

    return until(f"{tenant.name}: claim {name}", probe, seconds=60)


def host_tenant(tenant: Tenant) -> Obj:
    return machine.host_api().get("Tenant", tenant.name)


def mounting(*claims: str) -> Obj:
    """A pod's spec that mounts claims at /<number>, writable."""
    volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": claim}} for at, claim in enumerate(claims)]
    spec = workloads.pod_spec(volumes=volumes)
    spec["containers"][0]["volumeMounts"] = [{"name": f"v{at}", "mountPath": f"/{at}"} for at in range(len(claims))]
    return spec


def run(tenant: Tenant, script: str, pod: str = "user") -> str:
    return kubectl(tenant.kubeconfig, "exec", pod, "--", "sh", "-c", f"({script}) 2>&1 || true").out


@pytest.fixture(scope="module")
def users(volumes: Volumes) -> Iterator[Volumes]:
    """A pod of each tenant that mounts both shares."""
    for tenant in (volumes.alice, volumes.bob):
        for claim in ("shared.ro.common", "shared.rw.home"):
            wait_claim(tenant, claim)
        tenant.api.create(workloads.pod("user", mounting("shared.ro.common", "shared.rw.home")))
    for tenant in (volumes.alice, volumes.bob):
        workloads.wait_running(tenant.api, "user")
    yield volumes
    for tenant in (volumes.alice, volumes.bob):
        tenant.api.delete("Pod", "user", "default", grace=0)


def test_two_tenants_read_the_same_bytes_and_each_its_own(users: Volumes) -> None:
    for tenant in (users.alice, users.bob):
        assert run(tenant, "cat /0/data") == "the same bytes"
        assert run(tenant, "cat /1/of") == tenant.name
    (ROOT / "common" / "data").write_text("newer bytes")
    for tenant in (users.alice, users.bob):
        assert run(tenant, "cat /0/data") == "newer bytes"


def test_what_is_shared_read_only_is_not_written_to(users: Volumes) -> None:
    for script in ("echo mine > /0/data", "touch /0/new", "rm /0/data", "chmod 777 /0/data"):
        assert "Read-only file system" in run(users.alice, script), script
    assert sorted(path.name for path in (ROOT / "common").iterdir()) == ["data"]
    # The same on the other share succeeds, and ends in the tenant's own directory.
    assert run(users.alice, "echo mine > /1/new") == ""
    assert (ROOT / "teams" / users.alice.name / "new").read_text() == "mine\n"
    assert not (ROOT / "teams" / users.bob.name / "new").exists()


def test_the_hosts_volumes_take_no_quota_and_show_nothing(users: Volumes) -> None:
    claims = users.host.list("PersistentVolumeClaim", users.alice.work, labels="bulkhead.dev/shared-volume")
    assert {claim["spec"]["resources"]["requests"]["storage"] for claim in claims} == {"1"}
    seen = str(users.alice.api.list("PersistentVolume"))
    assert "shared.ro.common.default" in seen
    assert str(ROOT) not in seen
    assert SOURCE not in seen


def take_away(api: Api, claim: str, volume: str) -> None:
    """Delete claim and volume, unless the platform was faster."""
    api.delete("PersistentVolumeClaim", claim, "default")
    with contextlib.suppress(ApiError):
        api.patch("PersistentVolume", volume, {"metadata": {"finalizers": None}})
    api.delete("PersistentVolume", volume)


def test_a_tenant_points_its_volume_nowhere_else(users: Volumes) -> None:
    """As admin of its plane the tenant deletes our volume and claim, and creates its own under the same names."""
    api, name = users.alice.api, "shared.ro.common"
    volume = f"{name}.default"
    with pytest.raises(ApiError, match="immutable"):
        api.patch("PersistentVolume", volume, {"spec": {"csi": None, "hostPath": {"path": "/"}}})
    api.delete("Pod", "user", "default", grace=0)
    workloads.wait_pod_gone(api, "user")
    take_away(api, name, volume)
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "hostPath": {"path": "/"},
        "claimRef": {"namespace": "default", "name": name},
    }
    with contextlib.suppress(ApiError):
        api.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec})
    marked = {"name": name, "namespace": "default", "labels": {"bulkhead.dev/platform": "true"}}
    claim = {"accessModes": ["ReadWriteMany"], "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
    with contextlib.suppress(ApiError):
        api.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": marked, "spec": claim})
    api.create(workloads.pod("user", mounting(name, "shared.rw.home")))
    workloads.wait_running(api, "user")
    assert run(users.alice, "cat /0/data") == "newer bytes"
    assert "Read-only file system" in run(users.alice, "touch /0/new")
    assert run(users.alice, "ls /0") == "data\n"
    # The tenant's objects stay, and are named in the status until they are removed.
    api.delete("Pod", "user", "default", grace=0)
    workloads.wait_pod_gone(api, "user")
    take_away(api, name, volume)

    def ours() -> None:
        found = api.find("PersistentVolumeClaim", name, "default")
        labels = found["metadata"].get("labels", {}) if found else {}
        workloads.expect("bulkhead.dev/shared-volume" in labels, str(labels))

    until("the platform's claim to be back", ours, seconds=60)
    wait_claim(users.alice, name)
    api.create(workloads.pod("user", mounting(name, "shared.rw.home")))
    workloads.wait_running(api, "user")


def test_a_share_has_no_other_name(users: Volumes) -> None:
    """No tenant may write to `common`, so a claim of that name does not lead anywhere."""
    api = users.alice.api
    for claim in ("shared.rw.common", "shared.rw.private"):
        name = f"x{uuid.uuid4().hex[:6]}"
        api.create(workloads.pod(name, mounting(claim)))

        def starts_not(name: str = name) -> None:
            phase = api.get("Pod", name, "default")["status"]["phase"]
            workloads.expect(phase == "Pending", phase)

        holds(f"{claim} not to be mounted", starts_not, seconds=5)
        api.delete("Pod", name, "default", grace=0)


def test_nothing_below_a_directory_that_tenants_write_to_is_shared(users: Volumes) -> None:
    """A tenant puts a link to a directory that was never shared to where an admin is about to share a subdirectory."""
    assert run(users.alice, f"ln -s {ROOT}/private /1/deep") == ""
    link = ROOT / "teams" / users.alice.name / "deep"
    assert (Path(link) / "key").read_text() == SECRET  # as the node would follow it
    users.host.apply(shared("deep", subPath="teams/{tenant}/deep", tenants=[users.alice.name]))
    try:
        said = tenants.wait_condition(
            users.host, users.alice.name, "SharesApplied", status="False", reason="ShareUnavailable", seconds=60
        )
        assert "which SharedVolume home lets tenants write to" in said["message"]
        assert users.alice.api.find("PersistentVolumeClaim", "shared.ro.deep", "default") is None
    finally:
        users.host.delete("SharedVolume", "deep")
    tenants.wait_condition(users.host, users.alice.name, "SharesApplied", status="True", seconds=60)


@pytest.mark.fresh(gpus=0)
def test_a_tenant_that_goes_leaves_the_bytes_and_no_volume(users: Volumes, tenant: Tenant, fresh_name: str) -> None:
    given = users.host.get("SharedVolume", "common")["spec"]["tenants"]
    users.host.patch("SharedVolume", "common", {"spec": {"tenants": [*given, fresh_name]}})
    wait_claim(tenant, "shared.ro.common")
    assert users.host.list("PersistentVolume", labels=f"bulkhead.dev/tenant={fresh_name}")
    tenants.remove(users.host, fresh_name)
    assert (ROOT / "common" / "data").exists()
    users.host.patch("SharedVolume", "common", {"spec": {"tenants": given}})


def test_what_is_withdrawn_goes_when_its_pods_have_ended(users: Volumes) -> None:
    alice, host = users.alice, users.host
    host.patch("SharedVolume", "common", {"spec": {"tenants": [users.bob.name]}})

    def going() -> None:
        claims = host.list("PersistentVolumeClaim", alice.work, labels="bulkhead.dev/shared-volume=common")
        workloads.expect(all(claim["metadata"].get("deletionTimestamp") for claim in claims), str(claims))

    until("the claim to be on its way out", going, seconds=60)
    assert run(alice, "cat /0/data") == "newer bytes"
    alice.api.delete("Pod", "user", "default", grace=0)

    def gone() -> None:
        left = host.list("PersistentVolume", labels=f"bulkhead.dev/tenant={alice.name},bulkhead.dev/shared-volume=common")
        shown = alice.api.find("PersistentVolumeClaim", "shared.ro.common", "default")
        workloads.expect(not left and shown is None, f"{left} {shown}")

    until("volume and claim to be gone on both sides", gone, seconds=90)
    assert run(users.bob, "cat /0/data") == "newer bytes"
    assert (ROOT / "common" / "data").exists()
