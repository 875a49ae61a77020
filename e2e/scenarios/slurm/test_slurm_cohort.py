"""A Slurm tenant borrows idle GPUs of a Kubernetes tenant, and returns them when their owner needs them."""

import copy
import json
from collections.abc import Iterator

import pytest

from e2e import ledger, names, tenants, workloads
from e2e.api import Api, Obj
from e2e.names import GPU, SLURM_NAMESPACE
from e2e.poll import until
from e2e.scenarios.slurm.conftest import KEEP
from e2e.slurm import clusters, jobs
from e2e.slurm.clusters import Cluster, node_set
from e2e.tenants import Tenant
from e2e.workloads import whole

COHORT = "e2e-slurm"
CLASS = "e2e-slurm-cohort"
OWNER = "e2e-slurm-owner"
BORROWER = "e2e-slurm-borrower"
GPUS = 4  # all of the owner's
GRACE = 20  # seconds
REASONS = {"CohortExhausted", "QuotaExceeded", "NoCapacity", "BehindInQueue"}  # why a worker waits
# A job that saves its state on request, and goes on until it is ended.
SCRIPT = """
echo "run ${SLURM_RESTART_COUNT:-0} on $(hostname)"
test "${SLURM_RESTART_COUNT:-0}" -gt 0 && exit 0
trap 'echo saved' USR1
trap 'echo ended; exit 0' TERM
while :; do sleep 1 & wait $!; done
"""


@pytest.fixture(scope="module")
def cohort(host: Api) -> Iterator[str]:
    """A class whose tenants may join the cohort, and the cohort's rules."""
    found = next(item for item in host.list("TenantClass") if item["metadata"]["name"] == "standard")
    spec = copy.deepcopy(found["spec"])
    spec["quota"]["cohorts"] = [COHORT]
    host.apply({"apiVersion": names.API_VERSION, "kind": "TenantClass", "metadata": {"name": CLASS}, "spec": spec})
    rules = {"reclaim": {"minRuntime": "0s", "within": "2m"}}
    host.apply({"apiVersion": names.API_VERSION, "kind": "Cohort", "metadata": {"name": COHORT}, "spec": rules})
    yield COHORT
    if not KEEP:
        for name in (BORROWER, OWNER):
            tenants.wait_gone(host, name)
        host.delete("Cohort", COHORT)


@pytest.fixture(scope="module")
def owner(host: Api, cohort: str) -> Iterator[Tenant]:
    """The tenant that owns the GPUs."""
    if not KEEP:
        tenants.remove(host, OWNER)
    yield tenants.create(host, OWNER, tenant_class=CLASS, quota=quota(GPUS, cohort))
    if not KEEP:
        host.delete("Tenant", OWNER)


@pytest.fixture(scope="module")
def borrower(host: Api, cohort: str, owner: Tenant) -> Iterator[Cluster]:  # noqa: ARG001 - the lender
    """A Slurm tenant without GPUs of its own."""
    if not KEEP:
        tenants.remove(host, BORROWER)
    elastic = node_set("gpu", gpus=2, gpuType="h100", min=0, max=3)
    del elastic["replicas"]
    slurm = clusters.slurm(elastic, lease={"graceSeconds": GRACE, "idleSeconds": 15})
    if host.find("Tenant", BORROWER) is None:
        host.create(tenants.manifest(BORROWER, tenant_class=CLASS, quota=quota(0, cohort), **clusters.spec(slurm)))
    yield clusters.wait_ready(host, BORROWER)
    if not KEEP:
        host.delete("Tenant", BORROWER)


def quota(gpus: int, cohort: str) -> Obj:
    return {"cohort": cohort, "resources": {GPU: {"nominal": gpus}}}


def standing(host: Api, tenant: str) -> dict[str, int]:
    found = host.get("ResourceQuota", names.POD_QUOTA, names.work_namespace(tenant))
    return ledger.read_standing(found["metadata"].get("annotations") or {}).get(("", GPU), {})


def borrows(host: Api, wanted: int) -> None:
    found = standing(host, BORROWER)
    workloads.expect(found.get("borrowed") == wanted, f"{found}, wanted {wanted} borrowed")


def uses(host: Api, wanted: int) -> None:
    found = standing(host, OWNER)
    workloads.expect(found.get("used") == wanted, f"{found}, wanted {wanted} used")


def waits(host: Api, cluster: Cluster) -> None:
    """The node set has workers that wait for one of the ledger's reasons, and the Tenant's status reports it too."""
    found = workloads.condition(cluster.api.get("NodeSet", "gpu", SLURM_NAMESPACE), "WorkersWait") or {}
    workloads.expect(found.get("status") == "True" and found.get("reason") in REASONS, str(found))
    ready = tenants.conditions(host.get("Tenant", cluster.name)).get("SlurmReady", {})
    workloads.expect(ready.get("status") == "True" and "of gpu wait" in ready.get("message", ""), str(ready))


def test_a_lent_gpu_comes_back_from_slurm_and_its_job_is_told_before(host: Api, owner: Tenant, borrower: Cluster) -> None:
    options = ("--gres=gpu:2", "--exclusive", "--requeue", "--open-mode=append", "--signal=B:USR1@600")
    numbers = [jobs.submit(borrower, SCRIPT, *options) for _ in range(2)]
    for number in numbers:
        jobs.wait(borrower, number, "RUNNING", seconds=240)
    until("the ledger to count what is borrowed", lambda: borrows(host, GPUS), seconds=30)
    held = host.get("ResourceQuota", names.POD_QUOTA, borrower.tenant.work)
    assert whole(held["status"]["used"][f"requests.{GPU}"]) == GPUS

    owner.api.create(workloads.pod("mine", workloads.pod_spec(gpus=2)))
    # Its own 2 GPUs, within the grace period plus 30 s, of which most is the start of a container on a busy machine.
    workloads.wait_running(owner.api, "mine", seconds=GRACE + 30 + 30, patience=1)
    until("the ledger to count what its owner uses", lambda: uses(host, 2), seconds=30)
    taken = until("one job to be queued again", lambda: jobs.requeued(borrower, numbers), seconds=30)
    (kept,) = set(numbers) - {taken}
    wrote = jobs.output(borrower, taken)
    assert wrote.split("\n")[0].startswith("run 0"), wrote
    assert wrote.index("saved") < wrote.index("ended"), wrote
    assert wrote.count("saved") == 1, wrote
    left = jobs.find(borrower, kept)
    assert left is not None
    assert (left.state, left.restarts) == ("RUNNING", 0)
    assert "saved" not in jobs.output(borrower, kept)

    # A waiting worker shows the reason to its user, and waits only as long as a job needs it.
    waiting = jobs.submit(borrower, "hostname", "--gres=gpu:2", "--exclusive")
    until("the job to be told", lambda: told(borrower, waiting), seconds=60)
    until("the node set and the Tenant to say so", lambda: waits(host, borrower), seconds=60)
    borrower.run("scancel", str(waiting), str(taken))
    until("a worker that no job waits for to be given up", lambda: workers(borrower, 1), seconds=90)

    # The owner has finished: its idle quota is lent again.
    owner.api.delete("Pod", "mine", "default")
    again = jobs.submit(borrower, "hostname", "--gres=gpu:2", "--exclusive")
    jobs.wait(borrower, again, seconds=180)
    borrower.run("scancel", str(kept))


def test_a_job_that_ignores_every_signal_gives_its_gpus_back_too(owner: Tenant, borrower: Cluster) -> None:
    deaf = "trap '' TERM USR1 CONT; while :; do sleep 1; done"
    numbers = [jobs.submit(borrower, deaf, "--gres=gpu:2", "--exclusive", "--requeue", "--signal=USR1@600") for _ in range(2)]
    for number in numbers:
        jobs.wait(borrower, number, "RUNNING", seconds=240)
    owner.api.create(workloads.pod("mine-too", workloads.pod_spec(gpus=2)))
    workloads.wait_running(owner.api, "mine-too", seconds=GRACE + 30 + 30, patience=1)
    until("one job to be queued again", lambda: jobs.requeued(borrower, numbers), seconds=60)
    owner.api.delete("Pod", "mine-too", "default")
    borrower.run("scancel", *map(str, numbers))


def told(cluster: Cluster, number: int) -> None:
    outcome = cluster.run("scontrol", "--json", "show", "job", str(number))
    (record,) = json.loads(outcome.out)["jobs"]
    workloads.expect(record["admin_comment"].startswith("bulkhead: waits for a worker of gpu: "), record["admin_comment"])


def workers(cluster: Cluster, wanted: int) -> None:
    alive = [pod["metadata"]["name"] for pod in cluster.workers() if not pod["metadata"].get("deletionTimestamp")]
    workloads.expect(len(alive) == wanted, f"workers {alive}, wanted {wanted}")
