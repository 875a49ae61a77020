"""The Slurm half of the demo: a tenant in Slurm mode next to one in Kubernetes mode, on the same node.

`make demo SLURM=1` shows it. Once the Slurm images have been built, it is shown by default; `SLURM=0` leaves it out.
"""

import os

from e2e import workloads
from e2e.api import Obj
from e2e.demo.context import TEAMS, Context, ModeRow, Step, documents
from e2e.machine import NODE
from e2e.slurm import clusters, images, jobs
from e2e.slurm.clusters import BOB, Cluster

TEAM = "team-s"
NEIGHBOUR = "neighbour"
SECONDS = 300.0


def wanted() -> bool:
    """Whether this run shows Slurm."""
    asked = os.environ.get("SLURM", "")
    return asked not in {"", "0"} or (asked == "" and images.are_made())


def make_images(context: Context) -> None:
    images.ensure(context.note)


def start_cluster(context: Context) -> None:
    """Apply the Tenant and wait until its users can work."""
    for obj in documents("slurm.yaml"):
        context.host.apply(obj)
    context.slurm = clusters.wait_ready(context.host, TEAM, seconds=SECONDS, note=context.note)
    clusters.wait_nodes(context.slurm, "cpu-0", "gpu-0", seconds=SECONDS)
    context.show("sinfo", ", ".join(f"{name} {state}" for name, state in sorted(context.slurm.nodes().items())))


def run_jobs(context: Context) -> None:
    """One user submits a batch job with GPUs, and another runs an interactive step."""
    cluster = _cluster(context)
    script = "echo $(hostname) has GPUs $CUDA_VISIBLE_DEVICES: $(ls /dev/nvidia[0-9]*)"
    written = jobs.done(cluster, script, "-p", "gpu", "--gres=gpu:h100:2").strip()
    context.show("sbatch --gres=gpu:h100:2", written)
    context.show(
        "srun as bob", cluster.run("srun", "-p", "cpu", "sh", "-c", "echo $(id -un) on $(hostname)", user=BOB).out.strip()
    )


def share_the_node(context: Context) -> None:
    """Work of a Kubernetes tenant next to the Slurm tenant's workers: one node, a quota for each, and no GPU in two pods."""
    cluster, team = _cluster(context), context.teams[TEAMS[1]]
    team.api.apply(workloads.pod(NEIGHBOUR, workloads.pod_spec(gpus=1)))
    workloads.wait_running(team.api, NEIGHBOUR, seconds=60)
    context.modes = [*_rows(context, cluster.name, "Slurm", cluster.workers(), cluster.tenant.work)]
    context.modes += _rows(context, team.name, "Kubernetes", [team.api.get("Pod", NEIGHBOUR, "default")], team.work)
    nodes = {row.node for row in context.modes if row.gpus}
    if nodes != {NODE}:
        raise AssertionError(f"the two tenants do not share a node: {nodes}")
    held = sum(row.gpus for row in context.modes)
    context.show("one tenant in each mode", f"{held} GPUs of {NODE} are held by {TEAM} and {team.name}")


def _rows(context: Context, tenant: str, mode: str, pods: list[Obj], work: str) -> list[ModeRow]:
    found = []
    for pod in sorted(pods, key=lambda item: str(item["metadata"]["name"])):
        mirror = workloads.host_pod_of(context.host, pod, work)
        state = next((kind for kind, there in _conditions(pod) if there and kind.startswith("SlurmNodeState")), "")
        said = state.removeprefix("SlurmNodeState").lower() or pod["status"].get("phase", "")
        found.append(
            ModeRow(tenant, mode, pod["metadata"]["name"], workloads.gpus_of(pod), mirror["spec"].get("nodeName", "-"), said)
        )
    return found


def _conditions(pod: Obj) -> list[tuple[str, bool]]:
    return [(item["type"], item["status"] == "True") for item in pod.get("status", {}).get("conditions") or []]


def _cluster(context: Context) -> Cluster:
    if context.slurm is None:
        raise RuntimeError("demo: a step used the Slurm cluster before it was created")
    return context.slurm


LOOK = f"bulkhead tenant describe {TEAM}; bulkhead connect {TEAM} -- kubectl -n slurm get pods"
STEPS: tuple[Step, ...] = (
    Step("build the Slurm images", make_images, "bulkhead host up --slurm"),
    Step(f"{TEAM}: a Slurm cluster in a tenant's plane", start_cluster, LOOK),
    Step(f"{TEAM}: GPU jobs by sbatch and srun", run_jobs, f"bulkhead slurm {TEAM} -- squeue"),
    Step("one tenant in each mode on the same node", share_the_node, LOOK),
)
