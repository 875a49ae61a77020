"""Node sets that grow and shrink: with the queue, by hand, by a lower maximum, by their removal, and with the mode."""

from collections.abc import Iterator

import pytest

from e2e import tenants, workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.names import GPU, SLURM_NAMESPACE
from e2e.poll import holds, until
from e2e.scenarios.slurm.conftest import KEEP
from e2e.slurm import clusters, jobs
from e2e.slurm.clusters import Cluster, node_set
from e2e.workloads import whole

LIMIT = 2  # GPUs
GRACE = 20  # seconds for which a running job keeps a worker that has to go
FORGOTTEN = "forgotten"
IDLE = 15  # seconds after which an idle worker is returned


@pytest.fixture(scope="module")
def elastic_name() -> str:
    return "e2e-slurm-elastic"


@pytest.fixture(scope="module")
def elastic(host: Api, elastic_name: str) -> Iterator[Cluster]:
    """A tenant whose GPU workers are created for its jobs and removed after them."""
    if not KEEP:
        tenants.remove(host, elastic_name)
    yield clusters.create(host, elastic_name, shape(minimum=0, maximum=3), gpus=LIMIT)
    if not KEEP:
        host.delete("Tenant", elastic_name)


def shape(*, minimum: int, maximum: int, more: tuple[Obj, ...] = ()) -> Obj:
    return clusters.slurm(elastic_set(minimum, maximum), *more, lease={"graceSeconds": GRACE, "idleSeconds": IDLE})


def elastic_set(minimum: int, maximum: int) -> Obj:
    found = node_set("gpu", gpus=1, gpuType="h100", min=minimum, max=maximum)
    del found["replicas"]
    return found


def workers(cluster: Cluster, wanted: int) -> None:
    alive = [pod["metadata"]["name"] for pod in cluster.workers() if not pod["metadata"].get("deletionTimestamp")]
    workloads.expect(len(alive) == wanted, f"workers {alive}, wanted {wanted}")


def used(host: Api, cluster: Cluster) -> int:
    quota = host.get("ResourceQuota", "tenant-quota", cluster.tenant.work)
    return whole(quota.get("status", {}).get("used", {}).get(f"requests.{GPU}", 0))


def test_workers_follow_the_pending_jobs_within_the_quota(host: Api, elastic: Cluster) -> None:
    until("no worker while there is nothing to do", lambda: workers(elastic, 0), seconds=180)
    numbers = [jobs.submit(elastic, "sleep 20; hostname", "--gres=gpu:1", "--exclusive") for _ in range(3)]
    until("as many workers as the quota allows", lambda: workers(elastic, LIMIT), seconds=90)
    holds("the quota", lambda: workloads.expect(used(host, elastic) <= LIMIT, "over the quota"), seconds=3)
    for number in numbers:
        jobs.wait(elastic, number, seconds=180)
    until("the workers to go when there is nothing to do", lambda: workers(elastic, 0), seconds=300)
    until(
        "the GPUs to be given back",
        lambda: workloads.expect(used(host, elastic) == 0, f"{used(host, elastic)} used"),
        seconds=90,
    )


def test_a_job_wider_than_one_worker_gets_as_many_as_it_needs(elastic: Cluster) -> None:
    number = jobs.submit(elastic, "srun hostname", "-N", "2", "--gres=gpu:1")
    jobs.wait(elastic, number, seconds=180)
    used_by = jobs.output(elastic, number).split()
    assert len(set(used_by)) == 2, used_by
    assert all(name.startswith("gpu-") for name in used_by), used_by


@pytest.mark.timeout(2700, func_only=True)
def test_a_lowered_maximum_takes_a_gpu_within_its_deadline_and_the_job_finishes(host: Api, elastic: Cluster) -> None:
    script = 'echo "run ${SLURM_RESTART_COUNT:-0} on $(hostname)"; test "${SLURM_RESTART_COUNT:-0}" -gt 0 || sleep 900'
    numbers = [
        jobs.submit(elastic, script, "--gres=gpu:1", "--exclusive", "--requeue", "--open-mode=append", "--time=30")
        for _ in range(2)
    ]
    for number in numbers:
        jobs.wait(elastic, number, "RUNNING", seconds=180)
    before = set(elastic.nodes())
    assert len(before) == LIMIT, before
    host.patch("Tenant", elastic.name, {"spec": {"scheduling": {"slurm": shape(minimum=0, maximum=1)}}})
    until(
        "a GPU to be given back",
        lambda: workloads.expect(used(host, elastic) <= 1, f"{used(host, elastic)} used"),
        seconds=GRACE + 90,
        patience=1,
    )
    taken = until("one job to be queued again, and the other not", lambda: jobs.requeued(elastic, numbers), seconds=60)
    (kept,) = set(numbers) - {taken}
    elastic.run("scancel", str(kept))
    assert jobs.wait(elastic, taken, seconds=300).restarts >= 1
    assert "run 1" in jobs.output(elastic, taken)
    # It may run again on an existing worker, or on a new one.
    names = set(elastic.nodes())
    assert len(names) == 1, f"the records of the workers that went are gone too: {names}, of {before}"


def test_kubectl_scales_a_node_set_within_its_bounds(elastic: Cluster) -> None:
    until("the workers of former jobs to go", lambda: workers(elastic, 0), seconds=300)
    words = ("-n", SLURM_NAMESPACE, "scale", "nodesets.slurm.bulkhead.dev/gpu")
    refused = kubectl(elastic.tenant.kubeconfig, *words, "--replicas=5", check=False)
    assert refused.code != 0
    assert "must be between min and max" in refused.text, refused.text
    kubectl(elastic.tenant.kubeconfig, *words, "--replicas=1")
    until("a worker by hand", lambda: workers(elastic, 1), seconds=90)
    most = "no more workers than the maximum"
    holds(most, lambda: workloads.expect(len(elastic.workers()) <= 1, f"{len(elastic.workers())} workers"), seconds=5)


def test_a_node_set_deleted_under_its_jobs_does_not_hurt_slurmctld(host: Api, elastic: Cluster) -> None:
    second = node_set("extra", replicas=1)
    host.patch("Tenant", elastic.name, {"spec": {"scheduling": {"slurm": shape(minimum=0, maximum=1, more=(second,))}}})
    clusters.wait_nodes(elastic, "extra-0", seconds=150)
    running = jobs.submit(elastic, "sleep 600", "-p", "extra", "--no-requeue")
    pending = jobs.submit(elastic, "sleep 600", "-p", "extra", "--exclusive")
    jobs.wait(elastic, running, "RUNNING")
    host.patch("Tenant", elastic.name, {"spec": {"scheduling": {"slurm": shape(minimum=0, maximum=1)}}})

    def retired() -> None:
        names = [pod["metadata"]["name"] for pod in elastic.workers()]
        workloads.expect("extra-0" not in names, str(names))

    until("the worker of the deleted node set to go", retired, seconds=300)
    over = {number: state_of(elastic, number) for number in (running, pending)}
    assert set(over.values()) <= {*jobs.OVER, "PENDING", FORGOTTEN}, over
    # Its pod was replaced when its configuration changed; neither has crashed.
    assert restarts_of(elastic) == 0
    before = elastic.pod("slurmctld-0")["metadata"]["uid"]
    elastic.api.delete("Pod", "slurmctld-0", SLURM_NAMESPACE, grace=0)
    until("slurmctld to read its state again", lambda: answers(elastic), seconds=150)
    assert elastic.pod("slurmctld-0")["metadata"]["uid"] != before
    assert restarts_of(elastic) == 0, "slurmctld died of the state that it read"
    tenants.wait_condition(host, elastic.name, "SlurmReady", status="True", seconds=120)


def test_both_modes_in_one_tenant_and_switching_between_them(host: Api, elastic: Cluster) -> None:
    """Slurm partitions and Kubernetes pods under one quota; then Slurm is removed and added again, and the home stays."""
    elastic.shell("echo kept > before-the-switch")
    host.patch("Tenant", elastic.name, {"spec": clusters.spec(shape(minimum=0, maximum=1), mode="Kubernetes")})
    elastic.api.create(workloads.pod("native", workloads.pod_spec(gpus=1)))
    workloads.wait_running(elastic.api, "native", seconds=60)
    assert jobs.done(elastic, "echo beside", "--gres=gpu:1", seconds=180) == "beside\n"
    assert used(host, elastic) <= LIMIT

    host.patch("Tenant", elastic.name, {"spec": {"scheduling": {"mode": "Kubernetes", "slurm": None}}})

    def gone() -> None:
        left = [pod["metadata"]["name"] for pod in elastic.api.list("Pod", SLURM_NAMESPACE)]
        workloads.expect(not left, str(left))

    until("Slurm to be gone", gone, seconds=300)
    pod = elastic.api.get("Pod", "native", "default")
    assert pod["status"]["phase"] == "Running", "Kubernetes work went on"
    elastic.api.delete("Pod", "native", "default", grace=0)

    clusters.create(host, elastic.name, shape(minimum=0, maximum=1), gpus=LIMIT)
    assert elastic.shell("cat before-the-switch").out == "kept\n"


def state_of(cluster: Cluster, number: int) -> str:
    """The state of a job as slurmctld reports it, also for one that it has forgotten; no answer at all is a failure."""
    outcome = cluster.run("scontrol", "-o", "show", "job", str(number), check=False)
    if outcome.code == 0:
        return jobs.state_of(outcome.out)
    assert "Invalid job id" in outcome.text, outcome.text
    return FORGOTTEN


def answers(cluster: Cluster) -> None:
    outcome = cluster.run("scontrol", "ping", check=False)
    workloads.expect("UP" in outcome.out, outcome.text)


def restarts_of(cluster: Cluster) -> int:
    statuses = cluster.pod("slurmctld-0")["status"].get("containerStatuses") or []
    return sum(int(item.get("restartCount", 0)) for item in statuses)
