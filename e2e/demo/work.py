"""The tenants' half of the demo: everything here uses a tenant's own API, with its own kubeconfig."""

from e2e import workloads
from e2e.api import ApiError
from e2e.commands import kubectl
from e2e.demo.context import TEAMS, Context, Refusal, documents
from e2e.names import GPU
from e2e.poll import NotYetError, until
from e2e.tenants import Tenant

# Each pod from these manifests has one of these labels.
APPS = {
    "gpu-job.yaml": ("gpu-job",),
    "trainer.yaml": ("trainer",),
    "web.yaml": ("web", "client"),
    "crd.yaml": (),
    "too-much.yaml": ("last-fit", "too-much"),
    "lending-borrower.yaml": ("borrower",),
    "lending-gang.yaml": ("gang",),
}


def clear(context: Context) -> None:
    """Remove what an earlier run left, so that each run shows the same result."""
    remove(context, *APPS)


def remove(context: Context, *files: str) -> None:
    """Remove the objects of these manifests, and wait until their pods are gone on the host too."""
    removed = [
        obj["metadata"]["name"]
        for team in context.teams.values()
        for name in files
        for obj in documents(name)
        if team.api.delete(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"), grace=1)
    ]
    if not removed:
        return
    context.note(f"removed {', '.join(removed)}")
    apps = f"app in ({', '.join(app for name in files for app in APPS[name])})"

    def gone() -> None:
        left = [
            obj["metadata"]["name"] for team in context.teams.values() for obj in team.api.list("Pod", "default", labels=apps)
        ]
        mirrored = [
            obj["metadata"]["name"]
            for team in context.teams.values()
            for obj in context.host.list("Pod", team.work, labels=apps)
        ]
        if left or mirrored:
            raise NotYetError(f"still there: {', '.join(left)}; on the host: {len(mirrored)} pods")

    until("the work of an earlier run to be gone", gone, seconds=60, note=context.note)


def gpu_job(context: Context) -> None:
    team = _apply(context, "gpu-job.yaml")
    workloads.wait_job(team.api, "gpu-job", seconds=60)
    pod = team.api.list("Pod", "default", labels="app=gpu-job")[0]
    log = kubectl(team.kubeconfig, "logs", pod["metadata"]["name"]).out
    if "/dev/nvidia" not in log:
        raise AssertionError(f"no /dev/nvidia* in the container; its log: {log}")
    device = next(line.split()[-1] for line in log.splitlines() if "/dev/nvidia" in line)
    context.show("GPU Job", f"completed on {pod['spec']['nodeName']} with {device}")


def trainer(context: Context) -> None:
    team = _apply(context, "trainer.yaml")
    workloads.wait_available(team.api, "trainer", 4, seconds=60)
    pods = team.api.list("Pod", "default", labels="app=trainer")
    nodes = sorted({pod["spec"]["nodeName"] for pod in pods})
    context.show("16-GPU Deployment", f"{len(pods)} pods of 4 GPUs on {', '.join(nodes)}")


def service(context: Context) -> None:
    team = _apply(context, "web.yaml")
    for name in ("web", "client"):
        workloads.wait_running(team.api, name, seconds=60)

    def ask() -> str:
        wget = ("timeout", "3", "wget", "-q", "-O", "-", "http://web")
        answer = kubectl(team.kubeconfig, "exec", "client", "--", *wget, check=False)
        if answer.code != 0:
            raise NotYetError(answer.text)
        return answer.out.strip()

    answer = until("http://web to answer", ask, seconds=30)
    context.show("Service by name", f"http://web, requested by pod client, answered {answer!r}")


def logs_and_exec(context: Context) -> None:
    team = context.teams[TEAMS[0]]
    log = kubectl(team.kubeconfig, "logs", "web").out.strip()
    context.show("log of web", repr(log.splitlines()[0] if log else ""))
    if "hello" not in log:
        raise AssertionError(f"the log of web has no greeting: {log!r}")
    said = kubectl(team.kubeconfig, "exec", "web", "--", "hostname").out.strip()
    if said != "web":
        raise AssertionError(f"hostname in the pod is {said!r}, not 'web'")
    context.show("exec into web", f"hostname says {said!r}")


def custom_kind(context: Context) -> None:
    one, other = (context.teams[name] for name in TEAMS)
    _apply(context, "crd.yaml")
    name = documents("crd.yaml")[0]["metadata"]["name"]

    def served() -> None:
        one.api.text("/apis/lab.example.com/v1/experiments")

    until("the new kind to be served", served, seconds=20)
    if other.api.find("CustomResourceDefinition", name) is not None:
        raise AssertionError(f"{name} is visible in {other.name}")
    try:
        other.api.text("/apis/lab.example.com/v1/experiments")
    except ApiError as exc:
        context.show("CRD", f"experiments.lab.example.com serves in {one.name}; {other.name} gets {exc.status} {exc.reason}")
    else:
        raise AssertionError("team-b serves a kind that team-a installed")


def exceed_quota(context: Context) -> None:
    fits, one_more = documents("too-much.yaml")
    team = context.teams[TEAMS[0]]
    team.api.apply(fits)
    workloads.wait_running(team.api, fits["metadata"]["name"], seconds=60)
    team.api.apply(one_more)
    refusal = workloads.wait_refused(team.api, "too-much", "QuotaExceeded", seconds=30)
    context.refusals.append(Refusal(team.name, "pod too-much (1 GPU)", refusal["reason"], refusal["message"]))
    context.show("over the quota", f"too-much stays Pending: {refusal['message']}")
    tenant = context.host.get("Tenant", team.name)
    limit = int(tenant["spec"]["quota"]["resources"][GPU]["nominal"])

    def shown() -> int:
        number = sum(int(node["status"].get("allocatable", {}).get(GPU, 0)) for node in team.api.list("Node"))
        if not 0 < number <= limit:
            raise NotYetError(f"the nodes of {team.name} show {number} GPUs, its limit is {limit}")
        return number

    # A pod that has just started changes what other nodes show, one node after the other.
    nodes = until("the nodes to show no more than the limit", shown, seconds=30)
    context.show("GPUs the tenant's nodes show", f"{nodes}, its limit is {limit}")


def _apply(context: Context, name: str) -> Tenant:
    """Apply a manifest as team-a would."""
    team = context.teams[TEAMS[0]]
    for obj in documents(name):
        team.api.apply(obj)
    return team
