"""Reports a Slurm cluster in Kubernetes' terms: the Tenant's condition and counts, and conditions of workers. Pure.

Pod conditions have the names that Slinky gave them: one for the state of the Slurm node, one for each of its flags, with the
drain's reason as message. Conditions of other writers are never changed, and one that no longer holds is set to False.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from bulkhead.api.conditions import MESSAGE_LIMIT, Reason, timestamp
from bulkhead.api.fields import MOST_COUNTED
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import serves
from controller.slurm.answers.view import SlurmNode, SlurmView
from controller.slurm.lease.fleet import Worker
from controller.slurm.spec import NAME_LABEL, SlurmSpec
from controller.verdict import Verdict, pod_trouble

PREFIX: Final = "SlurmNodeState"
READY: Final = "slurmctld answers, and every daemon of the cluster is ready"
UNASKED: Final = "every daemon of the cluster is ready; its nodes and jobs are not known, because restApi is disabled"
MISSING: Final = f"{PREFIX}Unknown"
# Condition of a NodeSet: workers of it have no node yet, and why.
WAITING: Final = "WorkersWait"
_REASON_CHARACTERS: Final = 300
_MOST_SETS_NAMED: Final = 3  # that a message names
_BASES: Final = {
    "ALLOCATED": "Allocated",
    "MIXED": "Mixed",
    "DOWN": "Down",
    "ERROR": "Error",
    "FUTURE": "Future",
    "IDLE": "Idle",
    "UNKNOWN": "Unknown",
}
_FLAGS: Final = {
    "COMPLETING": "Completing",
    "DRAIN": "Drain",
    "FAIL": "Fail",
    "INVALID": "Invalid",
    "INVALID_REG": "InvalidReg",
    "MAINTENANCE": "Maintenance",
    "NOT_RESPONDING": "NotResponding",
    "UNDRAIN": "Undrain",
}


@dataclass(frozen=True, slots=True)
class DaemonPods:
    """The state of the daemons' pods. It is kept between reconciles, for every tenant, so it contains no pods."""

    running: Mapping[str, int] = field(default_factory=dict)
    trouble: tuple[Reason, str] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The results of one reconcile of a cluster, up to the stage that it reached."""

    applied: bool = False
    # Daemon -> how many of its pods should run.
    wanted: Mapping[str, int] | None = None
    pods: DaemonPods = DaemonPods()
    # The Tenant's `status.slurm` without names; None: Slurm did not answer.
    counts: Mapping[str, Any] | None = None
    # It was not asked, because the Tenant wants no REST API.
    unasked: bool = False
    # Why there is no view, or why the objects could not be applied.
    trouble: str = ""
    refused: bool = False
    # The plane itself did not answer.
    plane_down: bool = False
    # It answered with more than is read, or with an answer of the wrong shape.
    unread: bool = False
    # Workers that still have to be released, because Slurm was switched off.
    leaving: int = 0
    # Workers on which no job runs or may start soon.
    resting: frozenset[str] = frozenset()
    # Why workers are missing for which jobs wait.
    waiting: str = ""
    # Which of its objects cannot be changed, although their spec differs.
    kept: str = ""


@dataclass(frozen=True, slots=True)
class SlurmPart:
    """The report of the tenant's Slurm cluster; it counts for Ready unless the cluster is only being removed."""

    verdict: Verdict
    summary: Mapping[str, Any] | None = None
    essential: bool = True


def verdict(found: Found, *, was: bool, on: bool = True) -> Verdict:
    """The Tenant's condition SlurmReady; `was`: it was ready before, so it has stopped answering and is not just starting."""
    if not on:
        rest = f"{found.leaving} workers are being released" if found.leaving else "its daemons are being removed"
        # Otherwise what holds it up, such as a webhook of the tenant's, would be told nowhere.
        rest = f"it is not removed yet: {found.trouble}" if found.trouble else rest
        return Verdict("False", Reason.TERMINATING, f"Slurm is switched off: {rest}")
    if found.pods.trouble is not None:
        return Verdict("False", *found.pods.trouble)
    if found.refused or found.unread:
        return Verdict("False", Reason.SLURM_REFUSED if found.refused else Reason.PLANE_UNREADABLE, found.trouble)
    waiting = [name for name, count in sorted((found.wanted or {}).items()) if found.pods.running.get(name, 0) < count]
    if found.counts is None and not found.unasked:
        reason = Reason.SLURM_UNREACHABLE if was else Reason.WAITING_FOR_SLURM
        what = f"not ready: {', '.join(waiting)}" if waiting else found.trouble or "slurmctld does not answer yet"
        return Verdict("False", reason, what)
    if waiting or not found.applied:
        reason = Reason.RESTARTING if was else Reason.WAITING_FOR_SLURM
        return Verdict("False", reason, f"not ready: {', '.join(waiting)}" if waiting else found.trouble)
    ready = UNASKED if found.unasked else READY
    return Verdict("True", Reason.READY, "; ".join(words for words in (ready, found.waiting, found.kept) if words))


def part(found: Found | None, spec: SlurmSpec | None, *, was: bool) -> SlurmPart:
    """The cluster's part of the Tenant's status; without a spec the cluster is being removed."""
    if found is None and was and spec is not None:
        # A controller that has just started knows nothing yet, so the earlier report stays.
        return SlurmPart(Verdict("True", Reason.READY, READY))
    found = found or Found(trouble="the cluster is being created")
    summary: Obj | None = None
    if found.counts is not None and spec is not None:
        summary = {**found.counts, "clusterName": spec.cluster_name, "version": spec.version}
    return SlurmPart(verdict(found, was=was, on=spec is not None), summary, essential=spec is not None)


def left_undone(spec: SlurmSpec) -> str:
    """What the platform does not do for a cluster without a REST API, as a message; empty if nothing is left undone."""
    if spec.rest_api is not None:
        return ""
    elastic = [node_set.name for node_set in spec.node_sets if node_set.elastic][:_MOST_SETS_NAMED]
    missing = [f"no worker of {', '.join(elastic)} is created for a job or given back"] if elastic else []
    if spec.accounting is not None:
        missing.append("users, their rights and QOS are not written to the accounting database")
    return f"{'; '.join(missing)}: set spec.scheduling.slurm.restApi.enabled" if missing else ""


def counts(view: SlurmView) -> Obj:
    """The Tenant's `status.slurm`: nodes by state, jobs by what they do.

    What the tenant's Slurm counts beyond the bound of the field stays at the bound, or the whole status would be refused.
    """
    pending, running = min(view.pending, MOST_COUNTED), min(view.running, MOST_COUNTED)
    states = [_state(node) for node in view.nodes]
    nodes = {name: states.count(name) for name in ("idle", "mixed", "allocated", "down", "drained")}
    up = len(states) - nodes["down"] - nodes["drained"]
    return {
        "nodes": {"total": len(states)} | nodes,
        "jobs": {"pending": pending, "running": running},
        "summary": f"{up}/{len(states)} nodes, {running} running, {pending} pending",
    }


def resting(view: SlurmView, workers: Iterable[Worker], known: frozenset[str]) -> frozenset[str]:
    """The UIDs of known workers that hold their devices without running a job."""
    idle = {node.name for node in view.nodes if not node.busy and view.jobs_on(node.name) == ()}
    return frozenset(worker.uid for worker in workers if worker.name in idle and worker.uid in known)


def waiting(workers: Iterable[Worker]) -> str:
    """Which workers wait, and why, in one text; empty if none waits."""
    why: dict[str, list[str]] = {}
    for worker in workers:
        if worker.why_not_there:
            why.setdefault(worker.node_set, []).append(worker.why_not_there)
    texts = [
        f"{_workers(len(reasons))} of {name} {_wait(len(reasons))}: {reasons[0][:_REASON_CHARACTERS]}"
        for name, reasons in sorted(why.items())
    ]
    return "; ".join(texts[:_MOST_SETS_NAMED])


def waiting_condition(
    node_set: str, workers: Iterable[Worker], existing: Sequence[Mapping[str, Any]], now: datetime
) -> list[Obj]:
    """The conditions of a NodeSet, updated with whether its workers wait and why; those of other writers stay unchanged."""
    why = [worker for worker in workers if worker.node_set == node_set and worker.why_not_there]
    before = next((condition for condition in existing if condition.get("type") == WAITING), None)
    if not why and before is None:
        return [dict(condition) for condition in existing]
    made = {"type": WAITING, "status": "False", "reason": "NoneWaits"}
    if why:
        message = f"{_workers(len(why))} {_wait(len(why))}, {why[0].name}: {why[0].waits[1]}"[:MESSAGE_LIMIT]
        made |= {"status": "True", "reason": why[0].waits[0], "message": message}
    since = before.get("lastTransitionTime") if before is not None and before.get("status") == made["status"] else None
    others = [dict(condition) for condition in existing if condition.get("type") != WAITING]
    return [*others, made | {"lastTransitionTime": since or timestamp(now)}]


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"


def node_set_status(node_set: str, workers: Iterable[Worker], view: SlurmView | None, *, wanted: int, digest: str) -> Obj:
    """The status of a NodeSet without its selector; without a view of Slurm, Slurm's counts are left out."""
    live = [worker for worker in workers if worker.node_set == node_set and worker.live]
    made: Obj = {
        "replicas": len(live),
        "updatedReplicas": sum(worker.made_from == digest for worker in live),
        "desiredReplicas": wanted,
    }
    if view is None:
        return made
    nodes = [node for worker in live if (node := view.node(worker.name)) is not None]
    states = [_state(node) for node in nodes]
    return made | {
        "readyReplicas": sum(node.responds and not node.draining for node in nodes),
        "slurmIdle": states.count("idle"),
        "slurmAllocated": states.count("allocated") + states.count("mixed"),
        "slurmDown": states.count("down"),
        "slurmDrain": states.count("drained"),
    }


def pod_conditions(node: SlurmNode | None, existing: Sequence[Mapping[str, Any]], now: datetime) -> list[Obj]:
    """The conditions to write to a worker's pod; empty if they are up to date."""
    wanted = _wanted(node)
    before = {str(condition.get("type")): condition for condition in existing if str(condition.get("type")).startswith(PREFIX)}
    news: list[Obj] = []
    for type_ in sorted({*wanted, *before}):
        status, message = ("True", wanted[type_]) if type_ in wanted else ("False", "")
        old = before.get(type_, {})
        if old.get("status") == status and (old.get("message") or "") == message:
            continue
        changed = timestamp(now) if old.get("status") != status else str(old.get("lastTransitionTime") or timestamp(now))
        news.append({"type": type_, "status": status, "reason": "Slurm", "message": message, "lastTransitionTime": changed})
    return news


def pods_of(pods: Iterable[Obj], wanted: Mapping[str, int]) -> DaemonPods:
    """The state of the pods of the wanted daemons."""
    own = [(name, pod) for pod in pods if (name := component(pod)) in wanted]
    running = Counter(name for name, pod in own if serves(pod))
    trouble = next((found for _, pod in own if (found := pod_trouble(pod)) is not None), None)
    return DaemonPods(dict(running), trouble and (trouble[0], trouble[1][:MESSAGE_LIMIT]))


def component(pod: Obj) -> str:
    """The daemon that a pod runs."""
    return str((pod["metadata"].get("labels") or {}).get(NAME_LABEL) or "")


def _wanted(node: SlurmNode | None) -> dict[str, str]:
    if node is None:
        return {MISSING: "slurmctld does not know this node yet"}
    flags = {f"{PREFIX}{word}" for state, word in _FLAGS.items() if state in node.states}
    return dict.fromkeys([f"{PREFIX}{_BASES[node.base]}", *flags], node.reason[:1000])


def _state(node: SlurmNode) -> str:
    """A node's state in the words of the Tenant's status: a node that accepts no jobs is drained, whatever else it is."""
    if node.draining:
        return "drained"
    if not node.responds:
        return "down"
    return {"ALLOCATED": "allocated", "MIXED": "mixed"}.get(node.base, "idle")
