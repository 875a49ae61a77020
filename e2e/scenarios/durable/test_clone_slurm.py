"""A clone of a Slurm tenant: its daemons have keys, state and accounts of their own, and the original's queue is as it was."""

import time
from collections.abc import Iterator

import pytest

from e2e import tenants, workloads
from e2e.api import Api
from e2e.names import SLURM_NAMESPACE
from e2e.poll import until
from e2e.scenarios.durable import clones
from e2e.scenarios.durable.conftest import NAME, Backups
from e2e.slurm import clusters, images, jobs, rest
from e2e.slurm.clusters import Cluster, node_set

ORIGINAL = f"{NAME}-slurm"
CLONE = f"{NAME}-slurm-2"
SNAPSHOT = f"{NAME}-slurm-c"


@pytest.fixture
def slurm(host: Api) -> Iterator[Cluster]:
    """A Slurm tenant with accounting; the images are made when they are first needed."""
    images.ensure(lambda text: print(text, flush=True))
    tenants.remove(host, ORIGINAL)
    cluster = clusters.create(host, ORIGINAL, clusters.slurm(node_set("cpu"), accounting=True), gpus=0)
    clusters.wait_nodes(cluster, "cpu-0")
    yield cluster
    tenants.remove(host, ORIGINAL)


@pytest.fixture
def clone_name(host: Api) -> Iterator[str]:
    """The name of a tenant that is not there before and after."""
    with clones.away(host, SNAPSHOT, CLONE):
        yield CLONE


def secrets(cluster: Cluster) -> dict[str, dict[str, str]]:
    """What the Secrets of a cluster's namespace hold."""
    found = cluster.api.list("Secret", SLURM_NAMESPACE)
    return {secret["metadata"]["name"]: dict(secret.get("data") or {}) for secret in found}


def queue(cluster: Cluster) -> list[str]:
    """The jobs that slurmctld has, with state and node."""
    return sorted(cluster.run("squeue", "-h", "-o", "%i %j %T %N").out.splitlines())


def accounted(cluster: Cluster) -> list[str]:
    """The names of the jobs that slurmdbd has."""
    return cluster.run("sacct", "-a", "-X", "-n", "-P", "-o", "JobName").out.split()


def daemons(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """The pods of a cluster, and how often their containers have started again."""
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            sum(status["restartCount"] for status in pod["status"].get("containerStatuses") or ()),
        )
        for pod in cluster.api.list("Pod", SLURM_NAMESPACE)
    }


def test_a_clone_of_a_slurm_tenant_runs_jobs_with_keys_of_its_own(
    host: Api, slurm: Cluster, backups: Backups, clone_name: str
) -> None:
    running = jobs.submit(slurm, "sleep 3600", "--job-name=long")
    jobs.wait(slurm, running, "RUNNING")
    held = jobs.submit(slurm, "true", "--hold", "--job-name=held")
    clones.snapshot(ORIGINAL, SNAPSHOT)
    before, pods, keys = queue(slurm), daemons(slurm), secrets(slurm)
    assert len(before) == 2
    assert keys

    began = time.monotonic()
    done = clones.clone(ORIGINAL, SNAPSHOT, clone_name, backups)
    print(done.text, flush=True)
    assert done.code == 0, done.text
    two = clusters.wait_ready(host, clone_name)
    clusters.wait_nodes(two, "cpu-0")
    print(f"the clone's Slurm is ready {time.monotonic() - began:.0f} s after the command began", flush=True)
    clones.own(host, ORIGINAL, clone_name)

    # It has keys of its own, its own name, and neither the queue nor the accounts' past of the original.
    ours = secrets(two)
    assert ours.keys() == keys.keys()
    for name, files in keys.items():
        assert not set(files.values()) & set(ours[name].values()), name
    assert (slurm.config("ClusterName"), two.config("ClusterName")) == (ORIGINAL, clone_name)
    assert queue(two) == []
    assert jobs.find(two, held) is None
    assert accounted(two) == []

    # A job runs in the clone, on a worker of its own, and is accounted there.
    number = jobs.submit(two, 'echo "$(hostname) of $SLURM_CLUSTER_NAME"', "--job-name=of-the-clone")
    jobs.wait(two, number)
    assert jobs.output(two, number).split() == ["cpu-0", "of", clone_name]
    until("the job to be accounted in the clone", lambda: workloads.expect("of-the-clone" in accounted(two), ""), seconds=60)
    assert "of-the-clone" not in accounted(slurm)

    # A token of each is worth nothing at the other; at its own it is.
    for mine, other in ((slurm, two), (two, slurm)):
        token = rest.token(mine, clusters.ALICE)
        assert rest.slurm(mine, "/jobs/", token).status == 200
        assert rest.slurm(other, "/jobs/", token).status in rest.REFUSED

    # The original has noticed nothing.
    assert queue(slurm) == before
    assert daemons(slurm) == pods
    assert secrets(slurm) == keys
    tenants.remove(host, clone_name)
    assert queue(slurm) == before
    assert daemons(slurm) == pods
    slurm.run("scontrol", "release", str(held))
    slurm.run("scancel", str(running))
    jobs.wait(slurm, held)
