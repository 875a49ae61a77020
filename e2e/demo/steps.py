"""The admin's half of the demo: host, images, chart, tenants, kubeconfigs. `work` has the tenants' half."""

from datetime import datetime

from e2e import commands, install, machine, tenants
from e2e.api import Obj
from e2e.demo import work
from e2e.demo.context import TEAMS, Context, Step
from e2e.names import GPU

LOGS = f"look into {machine.DATA}/logs, or run `bulkhead host status`"
CONTROLLER_LOG = "bulkhead tenant describe team-a; kubectl -n bulkhead-system logs -l app.kubernetes.io/component=controller"


def start_host(context: Context) -> None:
    started = machine.bring_up(context.note)
    context.host_api = machine.host_api()
    nodes = context.host.list("Node")
    gpus = sum(int(node["status"].get("allocatable", {}).get(GPU, 0)) for node in nodes)
    context.show("host", f"{'started' if started else 'was up'}: {len(nodes)} nodes, {gpus} GPUs")


def install_chart(context: Context) -> None:
    install.install_chart(context.note)
    install.replace_outdated(context.host, context.note)


def apply_examples(context: Context) -> None:
    objects = install.example_objects()
    for obj in objects:
        context.host.apply(obj)
        context.note(f"applied {obj['kind']} {obj['metadata']['name']}")


def wait_for_planes(context: Context) -> None:
    fresh = [name for name in TEAMS if not tenants.is_ready(context.host.get("Tenant", name))]
    seen = tenants.wait_ready(context.host, TEAMS, seconds=180, note=context.note)
    for name in TEAMS:
        stamped = _seconds_to_ready(context.host.get("Tenant", name))
        context.ready_s[name] = round(seen[name], 1) if name in fresh else stamped
        context.show(f"plane of {name}", f"Ready after {context.ready_s[name]:.1f} s")


def still_ready(context: Context) -> None:
    """Wait until both planes are Ready again, since the demo may have restarted a part; then the tables show the end."""
    tenants.wait_ready(context.host, TEAMS, seconds=60, note=context.note)


def fetch_kubeconfigs(context: Context) -> None:
    for name in TEAMS:
        context.teams[name] = tenants.open_tenant(name)
        who = commands.kubectl(context.teams[name].kubeconfig, "auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}")
        context.show(f"kubeconfig of {name}", f"{context.teams[name].kubeconfig} (groups {who.out})")


def _seconds_to_ready(tenant: Obj) -> float:
    """Seconds by the tenant's own timestamps, for a tenant that was Ready before this run."""
    ready = tenants.conditions(tenant)["Ready"]["lastTransitionTime"]
    return (datetime.fromisoformat(ready) - datetime.fromisoformat(tenant["metadata"]["creationTimestamp"])).total_seconds()


STEPS: tuple[Step, ...] = (
    Step("start the embedded host, and build its images", start_host, LOGS),
    Step("install Bulkhead's chart by helm", install_chart, "kubectl -n bulkhead-system get pods,events"),
    Step("apply the example class and tenants", apply_examples, "kubectl apply -f examples/"),
    Step("wait for both planes", wait_for_planes, CONTROLLER_LOG),
    Step("fetch the kubeconfigs", fetch_kubeconfigs, "bulkhead kubeconfig team-a"),
    Step("clear away the work of an earlier run", work.clear, CONTROLLER_LOG),
    Step("team-a: a GPU Job on the real node", work.gpu_job, "bulkhead connect team-a -- kubectl describe job gpu-job"),
    Step("team-a: sixteen GPUs on simulated nodes", work.trainer, "bulkhead connect team-a -- kubectl get pods -o wide"),
    Step("team-a: reach a Service by its name", work.service, "bulkhead connect team-a -- kubectl get pods,svc -o wide"),
    Step("team-a: read a log, exec into a pod", work.logs_and_exec, "bulkhead connect team-a -- kubectl logs web"),
    Step("team-a: a CRD that team-b does not see", work.custom_kind, "bulkhead connect team-a -- kubectl get crd"),
    Step(
        "team-a: more GPUs than the quota allows", work.exceed_quota, "bulkhead connect team-a -- kubectl describe pod too-much"
    ),
)
# At the end, before the tables.
READY = Step("check that both planes are Ready", still_ready, CONTROLLER_LOG)
