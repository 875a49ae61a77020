"""What idle quota is good for: team-b borrows it, and team-a reclaims it for a gang that starts as a whole or not at all.

both in cohort `demo` ──> team-b borrows ──> team-a's gang, two of three: waits, and nothing is reclaimed for it
──> the third ──> team-b's borrowed quota is reclaimed ──> all three start ──> team-b's pods say why they wait
"""

import time

from e2e import commands, install, ledger, machine, names, workloads
from e2e.api import Obj
from e2e.demo import work
from e2e.demo.context import TEAMS, Context, Refusal, Step, documents
from e2e.names import GPU
from e2e.poll import NotYetError, until
from e2e.tenants import Tenant

COHORT = "demo"
BORROWERS = 5
GANG = tuple(f"gang-{number}" for number in range(3))
_SECONDS = 90.0


def join(context: Context) -> None:
    """Both tenants join a cohort whose rules allow a reclaim at once, so that the demo does not have to wait for it."""
    work.remove(context, "lending-borrower.yaml", "lending-gang.yaml", "trainer.yaml", "too-much.yaml")
    for obj in install.example_objects():
        spec = obj["spec"]
        if obj["kind"] == "TenantClass":
            spec["quota"] = spec["quota"] | {"cohorts": [COHORT]}
            spec["scheduling"] = spec.get("scheduling", {}) | {"gangs": True}
            context.host.apply(obj)
    for obj in documents("lending-host.yaml"):
        context.host.apply(obj)
    for obj in install.example_objects():
        if obj["kind"] == "Tenant":
            obj["spec"]["quota"]["cohort"] = COHORT
            context.host.apply(obj)
    given = {name: _nominal(context, name) for name in TEAMS}
    total = sum(given.values())

    def ceilings() -> None:
        quotas = [context.host.get("ResourceQuota", names.POD_QUOTA, context.teams[name].work) for name in TEAMS]
        hard = [int(quota["spec"]["hard"][f"requests.{GPU}"]) for quota in quotas]
        if hard != [total] * len(TEAMS):
            raise NotYetError(f"the two quotas allow {hard} GPUs, not {total} each")

    until("both quotas to have room for what can be borrowed", ceilings, seconds=_SECONDS, note=context.note)
    context.show(f"cohort {COHORT}", ", ".join(f"{name} has {number} GPUs" for name, number in given.items()))


def borrow(context: Context) -> None:
    """Five pods of four GPUs each, in a tenant with a quota of four GPUs."""
    team = context.teams[TEAMS[1]]
    for obj in documents("lending-borrower.yaml"):
        team.api.apply(obj)
    workloads.wait_available(team.api, "borrower", BORROWERS, seconds=_SECONDS)

    def borrowed() -> int:
        quota = context.host.get("ResourceQuota", names.POD_QUOTA, team.work)
        standing = ledger.read_standing(quota["metadata"].get("annotations") or {}).get(("", GPU), {})
        if standing.get("used") != 4 * BORROWERS:
            raise NotYetError(f"noted on its quota: {standing}")
        return standing["borrowed"]

    number = until("the ledger to note what is borrowed", borrowed, seconds=_SECONDS)
    context.show("borrowed", f"{team.name} uses {4 * BORROWERS} GPUs, {number} of them borrowed")
    _show_top(context)


def wait_whole(context: Context) -> None:
    """Two pods of a gang of three: none of them starts, and no other pod is evicted for them."""
    team = context.teams[TEAMS[0]]
    for obj in documents("lending-gang.yaml")[:-1]:
        team.api.apply(obj)
    said = workloads.wait_refused(team.api, GANG[0], "GangIncomplete", seconds=_SECONDS)
    context.refusals.append(Refusal(team.name, f"pod {GANG[0]} (8 GPUs, one of a gang of 3)", said["reason"], said["message"]))
    if _admitted(context, team):
        raise AssertionError("a part of an incomplete gang was admitted")
    workloads.wait_available(context.teams[TEAMS[1]].api, "borrower", BORROWERS, seconds=10)
    context.show("gang of 3, two created", f"waits: {said['message']}")


def take_back(context: Context) -> None:
    """With the third pod the gang is complete and within its quota: borrowed quota is reclaimed, and all three start."""
    team, other = (context.teams[name] for name in TEAMS)
    begin, complete = time.monotonic(), time.time()
    team.api.apply(documents("lending-gang.yaml")[-1])

    def running() -> None:
        phases = {name: _phase(team, name) for name in GANG}
        if any(phase != "Running" for phase in phases.values()):
            raise NotYetError(f"{len(_admitted(context, team))} of {len(GANG)} admitted; {phases}")

    until("all three to run", running, seconds=_SECONDS, note=context.note)
    seconds = time.monotonic() - begin
    # The ledger's notes on the pods count: at a moment in between, only one or two of the three may have started.
    admitted = _admitted(context, team)
    if len(admitted) != len(GANG) or any(item.at < complete for item in admitted.values()):
        raise AssertionError(f"not all three pods were admitted after the gang was complete at {complete}: {admitted}")
    nodes = sorted({str(team.api.get("Pod", name, "default")["spec"]["nodeName"]) for name in GANG})
    context.show("gang of 3, complete", f"reclaimed the lent GPUs, and runs on {', '.join(nodes)} after {seconds:.1f} s")
    _reason(context, other)
    _show_top(context)

    def metered() -> str:
        told = commands.bulkhead("usage", "--since", "1h", "--by", "owner", kubeconfig=machine.KUBECONFIG, check=False)
        if told.code or not told.out.strip():
            raise NotYetError(told.text)  # until the controller has led for a while
        return told.out

    for line in until("the usage to be metered", metered, seconds=_SECONDS).splitlines():
        context.note(f"    {line}")


def _phase(team: Tenant, name: str) -> str:
    return str(team.api.get("Pod", name, "default").get("status", {}).get("phase"))


def end(context: Context) -> None:
    """The borrower's pods end, so that others of its tenant find quota."""
    work.remove(context, "lending-borrower.yaml")


def _reason(context: Context, team: Tenant) -> None:
    """Why the successor of an evicted pod waits, as its tenant and as the admin read it."""

    def waiting() -> tuple[Obj, Obj]:
        pods = team.api.list("Pod", "default", labels="app=borrower")
        for pod in pods:
            said = workloads.condition(pod, "PodScheduled") or {}
            # The first waiting pod of a tenant has the message with numbers; the others only say that they wait behind it.
            if said.get("status") == "False" and said.get("reason") == "CohortExhausted":
                return pod, said
        raise NotYetError("; ".join(workloads.describe(pod) for pod in pods))

    pod, said = until("a pod to say why it waits", waiting, seconds=_SECONDS)
    name = str(pod["metadata"]["name"])
    context.refusals.append(Refusal(team.name, f"pod {name} (4 GPUs)", said["reason"], said["message"]))
    for line in commands.bulkhead("why", team.name, name, kubeconfig=machine.KUBECONFIG).out.splitlines():
        context.note(f"    {line}")


def _show_top(context: Context) -> None:
    size = {"COLUMNS": "100", "LINES": "30"}
    lines = commands.bulkhead("top", environment=size, kubeconfig=machine.KUBECONFIG).out.splitlines()
    if not lines:
        raise AssertionError("`bulkhead top` shows nothing")
    for line in lines:
        context.note(f"    {line}")


def _admitted(context: Context, team: Tenant) -> dict[str, ledger.Admitted]:
    """The host pods of the gang that the ledger has admitted."""
    notes = {
        str(pod["metadata"]["name"]): ledger.read_admitted(pod["metadata"]["annotations"])
        for pod in context.host.list("Pod", team.work)
        if ledger.GANG in pod["metadata"].get("annotations", {})
    }
    return {name: admitted for name, admitted in notes.items() if admitted is not None}


def _nominal(context: Context, name: str) -> int:
    return int(context.host.get("Tenant", name)["spec"]["quota"]["resources"][GPU]["nominal"])


STEPS: tuple[Step, ...] = (
    Step(
        "both tenants join a cohort",
        join,
        "kubectl describe tenants; kubectl -n bulkhead-system logs -l app.kubernetes.io/component=controller",
    ),
    Step("team-b: borrows what team-a leaves idle", borrow, "bulkhead top; bulkhead cohort demo"),
    Step("team-a: a gang of three, two of its pods created", wait_whole, "bulkhead why team-a gang-0"),
    Step(
        "team-a: the third pod comes, and the whole gang starts", take_back, "bulkhead why team-a gang-0; bulkhead cohort demo"
    ),
)
# Before the following steps in the same tenants.
ENDS = Step("team-b: ends the work that it borrowed for", end, "bulkhead connect team-b -- kubectl get deployments")
