"""What the demo prints at its end, and demo.json. It reads the host and the tenants once; printing is separate."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from e2e import ledger, machine, workloads
from e2e.demo.context import TEAMS, Context, PodPlace
from e2e.names import GPU
from e2e.tenants import conditions
from e2e.workloads import whole

NOWHERE = "-"
NEXT = (
    ("look at both tenants", ".venv/bin/bulkhead tenant list"),
    ("be team-a for one command", ".venv/bin/bulkhead connect team-a -- kubectl get pods -o wide"),
    ("see what the node runs", f"kubectl --kubeconfig={machine.KUBECONFIG} get pods -A"),
    ("make a tenant of your own", ".venv/bin/bulkhead tenant create my-team"),
    ("see Slurm in a tenant too", "make demo SLURM=1"),
    ("break things", "make chaos"),
    ("stop everything", "make down"),
)


AFTER_SLURM = (*NEXT[:-3], ("be a Slurm user", ".venv/bin/bulkhead slurm team-s -- sinfo"), *NEXT[-2:])


def places(context: Context) -> list[PodPlace]:
    """Each tenant's pods and their host pods."""
    found = []
    for team in context.teams.values():
        mirrors = {
            item["metadata"].get("labels", {}).get("bulkhead.dev/virtual-uid"): item
            for item in context.host.list("Pod", team.work)
        }
        for pod in sorted(team.api.list("Pod"), key=lambda item: str(item["metadata"]["name"])):
            mirror = mirrors.get(pod["metadata"]["uid"])
            node = (mirror or {}).get("spec", {}).get("nodeName", NOWHERE)
            name = mirror["metadata"]["name"] if mirror else NOWHERE
            phase = pod.get("status", {}).get("phase", "?")
            found.append(PodPlace(team.name, pod["metadata"]["name"], phase, workloads.gpus_of(pod), node, name))
    return found


def planes(context: Context) -> list[dict[str, Any]]:
    """Each tenant: its plane, how long it took, and its GPUs."""
    found = []
    for name in TEAMS:
        tenant = context.host.get("Tenant", name)
        quota = context.host.get("ResourceQuota", "tenant-quota", context.teams[name].work)
        standing = ledger.read_standing(quota["metadata"].get("annotations") or {}).get(("", GPU))
        # Pods that wait for the ledger count in the ResourceQuota, but hold nothing.
        used = standing["used"] if standing else whole(quota.get("status", {}).get("used", {}).get(f"requests.{GPU}", 0))
        pod = context.host.get("Pod", "plane-0", context.teams[name].plane)
        found.append(
            {
                "tenant": name,
                "ready": conditions(tenant)["Ready"]["status"] == "True",
                "ready_s": context.ready_s[name],
                "gpus_used": used,
                "gpus_limit": int(tenant["spec"]["quota"]["resources"][GPU]["nominal"]),
                "plane": workloads.describe(pod),
                "endpoint": f"https://{context.teams[name].api.host}:{context.teams[name].api.port}",
            }
        )
    return found


def complaints(rows: Sequence[Mapping[str, Any]], pods: Sequence[PodPlace]) -> list[str]:
    """Entries of the tables that prove that the demo did not work, as sentences; a table without rows proves it too."""
    found = [] if rows else ["no plane is there"]
    found += [f"the plane of {row['tenant']} is not ready" for row in rows if not row["ready"]]
    found += [] if any(pod.phase == "Running" for pod in pods) else ["no pod runs"]
    stray = [f"{pod.tenant}/{pod.pod}" for pod in pods if pod.phase == "Running" and pod.host_pod == NOWHERE]
    return found + [f"pod {name} runs and has no host pod" for name in stray]


def result(context: Context, rows: list[dict[str, Any]], pods: list[PodPlace], seconds: float) -> dict[str, Any]:
    return {
        "seconds": round(seconds, 1),
        "step_s": context.step_s,
        "planes": rows,
        "pods": [asdict(item) for item in pods],
        "refused": [asdict(item) for item in context.refusals],
        "shown": dict(context.shown),
        "modes": [asdict(item) for item in context.modes],
    }


def show(context: Context, rows: list[dict[str, Any]], pods: list[PodPlace], seconds: float) -> None:
    """Print the tables and what to try next."""
    console = Console(width=None if Console().is_terminal else 150)
    table = _table("Planes", "tenant", "ready", "time to Ready", "GPUs used / limit", "API server", "plane pod")
    for row in rows:
        used = f"{row['gpus_used']} / {row['gpus_limit']}"
        ready = "yes" if row["ready"] else "NO"
        table.add_row(row["tenant"], ready, f"{row['ready_s']:.1f} s", used, row["endpoint"], row["plane"])
    console.print(table)
    table = _table("Where each pod runs", "tenant", "pod", "phase", "GPUs", "node", "pod on the host")
    for pod in pods:
        table.add_row(pod.tenant, pod.pod, pod.phase, str(pod.gpus or ""), pod.node, pod.host_pod)
    console.print(table)
    table = _table("What was refused, and why", "tenant", "what", "reason", "message")
    for item in context.refusals:
        table.add_row(item.tenant, item.what, item.reason, item.message)
    console.print(table)
    if context.modes:
        table = _table("One tenant in each mode on the same node", "tenant", "mode", "pod", "GPUs", "node", "state")
        for place in context.modes:
            table.add_row(place.tenant, place.mode, place.pod, str(place.gpus or ""), place.node, place.state)
        console.print(table)
    console.print(f"[bold]Done in {seconds:.0f} s.[/bold] Next:")
    for what, command in AFTER_SLURM if context.modes else NEXT:
        console.print(f"  {command:<75} # {what}", highlight=False, soft_wrap=True, markup=False)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
