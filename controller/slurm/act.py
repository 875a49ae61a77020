"""Carries out the lease's actions: the only place where they become calls.

Actions are independent: one that fails is logged and does not stop the others, and the next reconcile decides again. Nothing is
remembered here that a restart would miss.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import assert_never

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from bulkhead.kube.objects import uid_of
from controller.inside.calls import Plane
from controller.slurm.answers.view import SlurmView
from controller.slurm.client.rest import SlurmError, SlurmRest
from controller.slurm.decide.hanging import Hanging
from controller.slurm.decide.sites import sites
from controller.slurm.lease.fleet import (
    Action,
    Cancel,
    CreateWorker,
    DeleteNode,
    DeleteNodeSet,
    DeleteWorker,
    Down,
    Drain,
    Note,
    Requeue,
    Resume,
    SetReplicas,
    Signal,
    Undrain,
)
from controller.slurm.objects.workers import worker_pod
from controller.slurm.observe import NODE_SETS, Seen
from controller.slurm.spec import NAMESPACE, SlurmSpec

_log = logging.getLogger(__name__)


class Actor:
    """Acts on one tenant's plane and Slurm, for one reconcile."""

    def __init__(self, tenant: str, plane: Plane, rest: SlurmRest, spec: SlurmSpec, view: SlurmView | None) -> None:
        self._tenant = tenant
        self._plane = plane
        self._rest = rest
        self._spec = spec
        self._view = view or SlurmView()

    async def act(self, actions: Iterable[Action], node_sets: Mapping[str, Obj]) -> int:
        """Carry out the actions; returns how many did not succeed."""
        failed = 0
        unsent: set[str] = set()
        for action in actions:
            # The drain's reason lists the signals that were sent, so after a signal that failed no other is sent.
            if isinstance(action, Signal) and action.node in unsent:
                continue
            try:
                await self._do(action, node_sets)
            except (NotFound, Conflict, AlreadyExists) as error:
                _log.info("overtaken: %s: %s", action, error, extra={"tenant": self._tenant})
            except (SlurmError, KubeError) as error:
                failed += 1
                unsent |= {action.node} if isinstance(action, Signal) else set()
                _log.warning("action failed: %s: %s", action, error, extra={"tenant": self._tenant})
            else:
                _log.info("done: %s", action, extra={"tenant": self._tenant})
        return failed

    async def _do(self, action: Action, node_sets: Mapping[str, Obj]) -> None:
        match action:
            case CreateWorker(name, ordinal):
                await self._create(name, ordinal, node_sets)
            case DeleteWorker(name, uid, _, grace):
                await self._plane.delete(kinds.PODS, name, NAMESPACE, uid=uid, grace_seconds=grace)
            case SetReplicas(name, count):
                await self._plane.patch(NODE_SETS, name, {"spec": {"replicas": count}}, NAMESPACE)
            case DeleteNodeSet(name):
                await self._delete_node_set(name, node_sets)
            case _:
                await self._tell_slurm(action)

    async def _tell_slurm(
        self, action: Drain | Undrain | Resume | Down | Signal | Note | Requeue | Cancel | DeleteNode
    ) -> None:
        match action:
            case Drain(node, reason, _):
                await self._rest.drain(node, reason)
            case Undrain(node):
                await self._rest.undrain(node)
            case Resume(node):
                await self._rest.resume(node)
            case Down(node, reason):
                await self._rest.down(node, reason)
            case Signal(job, node, signal, reason, batch):
                await self._rest.signal(self._view.handle_of(job), signal, batch=batch)
                await self._rest.drain(node, reason)
            case Note(job, text):
                await self._rest.note(job, text)
            case Requeue(job, _):
                await self._rest.requeue(self._view.handle_of(job))
            case Cancel(job, _):
                await self._rest.cancel(self._view.handle_of(job))
            case DeleteNode(node):
                await self._rest.delete_node(node)
            case _:
                assert_never(action)

    async def _create(self, name: str, ordinal: int, node_sets: Mapping[str, Obj]) -> None:
        node_set = self._spec.node_set(name)
        owner = node_sets.get(name)
        if node_set is None or owner is None:
            raise NotFound(404, "NotFound", f"NodeSet {name} is not there yet")
        pod = worker_pod(self._spec, node_set, ordinal, owner_uid=uid_of(owner))
        await self._plane.create(kinds.PODS, pod)

    async def _delete_node_set(self, name: str, node_sets: Mapping[str, Obj]) -> None:
        # The NodeSets are read again after new ones are applied: this one may be gone by then.
        if name in node_sets:
            await self._plane.delete(NODE_SETS, name, NAMESPACE, uid=uid_of(node_sets[name]))

    async def renew(self, pods: Iterable[Hanging]) -> None:
        """Delete pods, so that their owners recreate them; the next reconcile repeats this for pods that were not deleted."""
        for pod in pods:
            try:
                await self._plane.delete(kinds.PODS, pod.name, NAMESPACE, uid=pod.uid)
            except KubeError as error:
                _log.warning("pod not deleted: %s: %s", pod.name, error, extra={"tenant": self._tenant})
            else:
                _log.info("pod deleted, because its image was not pulled: %s", pod.name, extra={"tenant": self._tenant})

    async def place(self, seen: Seen) -> None:
        """Write the places of workers into Slurm; without them jobs still run, but further apart."""
        if seen.view is None:
            return
        for site in sites(self._spec, seen.view, seen.workers, seen.nodes):
            try:
                await self._rest.place(site.node, site.topology, site.features)
            except SlurmError as error:
                _log.warning("place not written for node %s: %s", site.node, error, extra={"tenant": self._tenant})
