"""Writes Slurm's own view into the plane, where it differs: conditions of the workers' pods, and the status of NodeSets."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import STRATEGIC_PATCH
from bulkhead.kube.errors import Conflict, NotFound
from controller.inside.calls import Plane
from controller.slurm.decide import status
from controller.slurm.lease.fleet import Worker, worker_of
from controller.slurm.objects.nodesets import selector
from controller.slurm.observe import NODE_SETS, Seen
from controller.slurm.spec import NAMESPACE


async def report(plane: Plane, seen: Seen, digests: Mapping[str, str], now: datetime) -> None:
    """Write what differs; `digests` says for each NodeSet what its workers should be made from."""
    if seen.view is not None:
        for pod in seen.pods:
            await _report_pod(plane, seen, pod, now)
    workers: defaultdict[str, list[Worker]] = defaultdict(list)
    for worker in seen.workers:
        workers[worker.node_set].append(worker)
    for name in seen.node_sets:
        await _report_node_set(plane, seen, name, workers[name], digest=digests.get(name, ""), now=now)


async def _report_pod(plane: Plane, seen: Seen, pod: Obj, now: datetime) -> None:
    worker = worker_of(pod)
    if worker is None or seen.view is None or not worker.live:
        return
    existing = (pod.get("status") or {}).get("conditions") or []
    changed = status.pod_conditions(seen.view.node(worker.name), existing, now)
    if not changed:
        return
    body = {"metadata": {"uid": worker.uid}, "status": {"conditions": changed}}
    try:
        await plane.patch(kinds.PODS, worker.name, body, NAMESPACE, content_type=STRATEGIC_PATCH, subresource="status")
    except (NotFound, Conflict):
        # Gone, or another pod of that name by now.
        return


async def _report_node_set(
    plane: Plane, seen: Seen, name: str, workers: Sequence[Worker], *, digest: str, now: datetime
) -> None:
    obj = seen.node_sets[name]
    before = obj.get("status") or {}
    wanted = status.node_set_status(
        name, workers, seen.view, wanted=int((obj.get("spec") or {}).get("replicas") or 0), digest=digest
    )
    wanted |= {"selector": selector(name), "observedGeneration": int(obj["metadata"].get("generation") or 0)}
    conditions = before.get("conditions") or []
    updated = status.waiting_condition(name, workers, conditions, now)
    if updated != conditions:
        wanted["conditions"] = updated
    if all(before.get(key) == value for key, value in wanted.items()):
        return
    try:
        await plane.patch(NODE_SETS, name, {"status": wanted}, NAMESPACE, subresource="status")
    except NotFound:
        return
