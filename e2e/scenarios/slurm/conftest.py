"""Fixtures: two Slurm tenants and a Kubernetes tenant with GPU work on the same node, during the whole run."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import install, machine, tenants, workloads
from e2e.api import Api, Obj
from e2e.slurm import clusters, images, jobs
from e2e.slurm.clusters import ALICE, Cluster, node_set
from e2e.tenants import Tenant

KEYS = Path("build/e2e/ssh")
KEEP = bool(os.environ.get("BULKHEAD_E2E_KEEP"))  # keeps the standing tenants for the next run, to work on a test
GPUS = 2  # of `red`'s only GPU worker; the node has more
RED = "e2e-slurm-red"
BLUE = "e2e-slurm-blue"
GREEN = "e2e-slurm-green"


@pytest.fixture(scope="session")
def host() -> Api:
    """The host with Bulkhead and the Slurm images; with KEEP, as it is."""
    if KEEP:
        return machine.host_api()
    images.ensure(lambda text: print(text, flush=True))
    return install.ensure_installed(lambda text: print(text, flush=True))


@pytest.fixture(scope="session")
def ssh_key() -> Path:
    """A key pair of alice's; the public half is in the Tenant."""
    KEYS.mkdir(parents=True, exist_ok=True)
    path = KEYS / "alice"
    if not path.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice", "-f", str(path)], check=True, timeout=30)
    return path


@pytest.fixture(scope="session")
def red(host: Api, ssh_key: Path) -> Iterator[Cluster]:
    """Two CPU workers and a GPU worker, with accounting."""
    public = ssh_key.with_suffix(".pub").read_text().strip()
    spec = clusters.slurm(
        node_set("cpu", replicas=2),
        node_set("gpu", gpus=GPUS, gpuType="h100"),
        accounting=True,
        keys={ALICE: public},
    )
    yield from _standing(host, RED, spec)


@pytest.fixture(scope="session")
def blue(host: Api) -> Iterator[Cluster]:
    """One GPU worker, no accounting, metrics for all users."""
    metrics = "MetricsParameters=ignore_private_data"
    yield from _standing(host, BLUE, clusters.slurm(node_set("gpu", gpus=1, gpuType="h100"), extraConf=metrics))


@pytest.fixture(scope="session")
def green(host: Api) -> Iterator[Tenant]:
    """A Kubernetes tenant with a GPU pod on the same node."""
    if not KEEP:
        tenants.remove(host, GREEN)
    tenant = tenants.create(host, GREEN, gpus=1)
    tenant.api.apply(workloads.pod("train", workloads.pod_spec(gpus=1)))
    workloads.wait_running(tenant.api, "train")
    yield tenant
    if not KEEP:
        host.delete("Tenant", GREEN)


def _standing(host: Api, name: str, spec: Obj) -> Iterator[Cluster]:
    if not KEEP:
        tenants.remove(host, name)
    cluster = clusters.create(host, name, spec, note=lambda text: print(f"    {name}: {text[:200]}", flush=True))
    sets = spec["nodeSets"]
    expected = [f"{item['name']}-{number}" for item in sets for number in range(item.get("replicas", 0))]
    clusters.wait_nodes(cluster, *expected)
    yield cluster
    if not KEEP:
        host.delete("Tenant", name)


@pytest.fixture
def quiet(red: Cluster) -> Cluster:
    """`red` without a job, its nodes idle."""
    jobs.cancel_all(red)
    clusters.wait_nodes(red, "cpu-0", "cpu-1", "gpu-0")
    return red


@pytest.fixture
def fresh_name(host: Api) -> Iterator[str]:
    """The name of a tenant that a test creates itself; whatever it left is removed."""
    name = f"e2e-slurm-{uuid.uuid4().hex[:6]}"
    yield name
    tenants.remove(host, name)
