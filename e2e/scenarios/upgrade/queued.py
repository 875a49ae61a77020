"""A Slurm tenant of the older Bulkhead, and the jobs in its queue during the upgrade of everything below it.

made by the older controller ──> workers idle ──> a job runs, another waits for it ──> [upgrade] ──> the same jobs
"""

from dataclasses import dataclass, replace

from e2e import tenants, workloads
from e2e.api import Api
from e2e.names import SLURM_NAMESPACE
from e2e.poll import until
from e2e.scenarios.upgrade import former
from e2e.slurm import clusters, jobs
from e2e.slurm.clusters import Cluster
from e2e.slurm.jobs import Job
from e2e.tenants import Tenant
from e2e.workloads import is_ready

NAME = "up-slurm"
# Slurm's own pods: a controller, its REST API, a login node and two workers.
_WORKERS = ("cpu-0", "gpu-0")


@dataclass(frozen=True, slots=True)
class Queued:
    """The cluster, and its two jobs as they were before the upgrade."""

    cluster: Cluster
    running: Job
    waiting: Job

    def through(self, tenant: Tenant) -> "Queued":
        """The same with another kubeconfig."""
        return replace(self, cluster=Cluster(tenant))


def made(host: Api) -> Queued:
    """Create the tenant and fill its queue; needs the images of Slurm on the host."""
    sets = (clusters.node_set("cpu"), clusters.node_set("gpu", gpus=1, gpuType="h100"))
    host.create(tenants.manifest(NAME, gpus=1, **clusters.spec(clusters.slurm(*sets))))
    tenants.wait_condition(host, NAME, "SlurmReady", status="True", seconds=clusters.READY_SECONDS)
    cluster = Cluster(former.opened(NAME))
    until(f"the pods of {NAME}", lambda: _all_ready(cluster), seconds=120)
    clusters.wait_nodes(cluster, *_WORKERS)
    running = jobs.submit(cluster, "for beat in $(seq 3600); do echo $beat; sleep 1; done", "--partition=gpu", "--gres=gpu:1")
    waiting = jobs.submit(cluster, "echo after", f"--dependency=afterany:{running}")
    jobs.wait_output(cluster, running, lambda text: text.startswith("1\n2\n"))
    return Queued(cluster, jobs.wait(cluster, running, "RUNNING"), jobs.wait(cluster, waiting, "PENDING"))


def _all_ready(cluster: Cluster) -> None:
    pods = cluster.api.list("Pod", SLURM_NAMESPACE)
    workloads.expect(bool(pods) and all(map(is_ready, pods)), clusters.pods(cluster))
