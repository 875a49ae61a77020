"""One pass over one tenant's Slurm cluster: look, render, apply, decide, carry out, tell. Bounded, and the same at any moment.

    look at plane and Slurm ──> render and apply ──> plan_leases ──> carry out ──> conditions, NodeSets' status ──> Found

What is remembered between passes are shortcuts and deadlines: when a worker was first told to go, and since when there are more
than an admin allows. Both only ever make a deadline earlier than what the tenant's Slurm says.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import KubeError, NotFound, ProtocolError
from bulkhead.kube.objects import uid_of
from bulkhead.work.clock import Clock
from controller.inside.calls import Plane
from controller.slurm import accounts
from controller.slurm.act import Carrier
from controller.slurm.answers import shapes
from controller.slurm.apply import Planter, daemons
from controller.slurm.client.rest import SlurmError, SlurmRest
from controller.slurm.client.tokens import TokenSource
from controller.slurm.config.topology import grown, topology_of, units_in
from controller.slurm.decide.status import Found, counts, pods_of
from controller.slurm.lease.fleet import Action, Cancel, Drain, Fleet, Undrain
from controller.slurm.lease.plan import DEFAULT_TIMES, Times, over, plan_leases
from controller.slurm.lease.release import is_leaving
from controller.slurm.objects import nodesets as nodeset_crd
from controller.slurm.objects.render import render
from controller.slurm.objects.workers import worker_digest
from controller.slurm.observe import NODE_SETS, Seen, cordoned, node_sets, observe
from controller.slurm.spec import CONFIG, NAMESPACE, NodeSetSpec, Obj, SlurmSpec
from controller.slurm.spec.keys import SlurmKeys

_log = logging.getLogger(__name__)
_GPU_TYPE = re.compile(r"([a-z][a-z0-9_-]{0,31})?")
_ACCOUNTS_SECONDS = 300.0
_KEEP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for. Switched off, the spec has no NodeSets, and everything of the cluster is taken down with grace."""

    spec: SlurmSpec
    keys: SlurmKeys
    times: Times = DEFAULT_TIMES
    on: bool = True


class Cluster:
    """One tenant's cluster between passes."""

    def __init__(self, tenant: str, clock: Clock, quota: Callable[[str], int | None]) -> None:
        self._tenant = tenant
        self._clock = clock
        self._quota = quota
        self._planter = Planter(clock)
        self._tokens: tuple[bytes, TokenSource] | None = None
        self._promised: dict[str, datetime] = {}
        self._over_since: dict[str, datetime] = {}
        self._pruned = 0.0
        # Units of the network that Slurm was ever told of; None: not read yet.
        self._units: frozenset[str] | None = None
        self._accounts: tuple[object, float] | None = None
        self.removed = False

    async def look(self, plane: Plane, order: Order) -> Found:
        """One pass; raises KubeError when the plane does not answer."""
        rest = SlurmRest(plane, self._token_source(order.keys))
        refused = await self._define(plane) if order.on else ""
        try:
            seen = await observe(plane, rest)
        except KubeError as error:
            if not refused:
                raise
            # A definition of the tenant's own making is the cause of what its objects look like.
            raise ProtocolError(f"{refused}; {error}") from error
        if self._units is None and order.on:
            self._units = await _units(plane)
        spec = self._with_retiring(order, seen)
        if order.on:
            self.removed = False
        found = await self._apply(plane, spec, order, seen) if order.on else Found(applied=True)
        if order.on and seen.node_sets.keys() != {each.name for each in spec.node_sets} | set(spec.retiring):
            # Owners of pods have UIDs that this look does not know yet.
            seen = replace(seen, node_sets=await node_sets(plane))
        now = self._clock.now()
        fleet = self._fleet(spec, seen, now)
        actions = plan_leases(spec, seen.view, fleet, now, order.times)
        carrier = Carrier(self._tenant, plane, rest, spec)
        await carrier.carry_out([*actions, *_abandoned(spec, seen)], seen.node_sets)
        self._remember(actions, seen)
        await carrier.place(seen)
        await carrier.tell(seen, fleet.digests, now)
        trouble = await self._keep_accounts(rest, spec) if order.on and seen.view is not None else ""
        await self._retire(plane, spec, seen)
        if not order.on:
            return await self._wind_down(plane, seen)
        applied = found.applied and not trouble
        return replace(
            found,
            applied=applied,
            pods=pods_of(seen.pods, found.wanted or {}),
            counts=counts(seen.view) if seen.view is not None else None,
            trouble=found.trouble or seen.trouble or trouble,
        )

    async def _define(self, plane: Plane) -> str:
        """Have the NodeSets' definition as it should be before NodeSets are read; returns why it is not, if it is not."""
        try:
            await self._planter.apply(plane, [nodeset_crd.custom_resource()])
        except KubeError as error:
            _log.warning("definition not applied: %s", error, extra={"tenant": self._tenant})
            return f"the plane refuses the definition of NodeSets: {error}"
        return ""

    async def _apply(self, plane: Plane, spec: SlurmSpec, order: Order, seen: Seen) -> Found:
        objects = render(spec, order.keys)
        wanted = daemons(objects)
        try:
            await self._planter.apply(plane, objects)
            if self._clock.monotonic() - self._pruned > 60 or not self._pruned:
                await self._planter.prune(plane, objects)
                self._pruned = self._clock.monotonic()
        except KubeError as error:
            _log.warning("objects not applied: %s", error, extra={"tenant": self._tenant})
            refused = f"the plane refuses an object of the cluster: {error}"
            return Found(applied=False, wanted=wanted, pods=pods_of(seen.pods, wanted), trouble=refused, refused=True)
        return Found(applied=True, wanted=wanted)

    async def _keep_accounts(self, rest: SlurmRest, spec: SlurmSpec) -> str:
        """Users and QOS in the accounting database; returns why they are not there, if they are not."""
        if spec.accounting is None:
            return ""
        wanted = (spec.users, spec.accounting.qos)
        done, at = self._accounts or (None, 0.0)
        if done == wanted and self._clock.monotonic() - at < _ACCOUNTS_SECONDS:
            return ""
        try:
            async with asyncio.timeout(_KEEP_SECONDS):
                written = await accounts.keep(rest, spec, spec.accounting)
        except (SlurmError, TimeoutError) as error:
            _log.warning("accounts not kept: %s", error or "no answer", extra={"tenant": self._tenant})
            # Once they were there, a database that is away for a while is no news about them.
            return "" if done == wanted else f"the accounting database does not take the users yet: {error or 'no answer'}"
        if written:
            _log.info("accounts kept", extra={"tenant": self._tenant, "records": written})
        self._accounts = (wanted, self._clock.monotonic())
        return ""

    def _token_source(self, keys: SlurmKeys) -> TokenSource:
        if self._tokens is None or self._tokens[0] != keys.jwt:
            self._tokens = (keys.jwt, TokenSource(keys.jwt, self._clock.now))
        return self._tokens[1]

    def _with_retiring(self, order: Order, seen: Seen) -> SlurmSpec:
        """The spec with what only the plane knows: where its nodes stand, and NodeSets that the Tenant no longer has."""
        gone = sorted(seen.node_sets.keys() - {each.name for each in order.spec.node_sets})
        places = {node.topology.partition(":")[2] for node in seen.view.nodes} if seen.view is not None else set()
        topology = grown(topology_of(order.spec.topology.kind, seen.nodes), (self._units or frozenset()) | places)
        self._units = frozenset(topology.units) if order.on else None
        gpus = tuple(found for name in gone if (found := _gpus_of(name, seen.node_sets[name])) is not None)
        return replace(order.spec, retiring=tuple(gone), retiring_gpus=gpus, topology=topology)

    def _fleet(self, spec: SlurmSpec, seen: Seen, now: datetime) -> Fleet:
        workers = seen.workers
        fleet = Fleet(
            workers=workers,
            targets=seen.targets,
            digests={each.name: worker_digest(spec, each) for each in spec.node_sets},
            cordoned=cordoned(seen.nodes),
            promised=dict(self._promised),
        )
        exceeding = over(spec, fleet)
        self._over_since = {name: self._over_since.get(name, now) for name in exceeding}
        waiting = sum(_gpus(spec, each.node_set) for each in workers if each.live and not each.host_node)
        free = self._quota(self._tenant)
        return replace(
            fleet,
            over_since=dict(self._over_since),
            gpus_free=None if free is None else max(0, free - waiting),
        )

    def _remember(self, actions: tuple[Action, ...], seen: Seen) -> None:
        for action in actions:
            if isinstance(action, Drain) and action.deadline is not None:
                self._promised[action.node] = min(action.deadline, self._promised.get(action.node, action.deadline))
        if seen.view is None:
            return
        told = {action.node for action in actions if isinstance(action, Drain)}
        leaving = {worker.name for worker in seen.workers if is_leaving(seen.view, worker)}
        undone = {action.node for action in actions if isinstance(action, Undrain)}
        self._promised = {name: at for name, at in self._promised.items() if name in (leaving | told) - undone}

    async def _retire(self, plane: Plane, spec: SlurmSpec, seen: Seen) -> None:
        """Let go of a NodeSet once no pod is left of it and no job record names its partition: slurmctld keeps such records."""
        if seen.view is None or seen.view.jobs is None:
            return
        used = {name for job in seen.view.jobs for name in job.partitions}
        held = {worker.node_set for worker in seen.workers} | {node.name.rpartition("-")[0] for node in seen.view.nodes}
        for name in spec.retiring:
            if name not in used | held:
                _log.info("NodeSet retired", extra={"tenant": self._tenant, "object": f"NodeSet {name}"})
                await plane.delete(NODE_SETS, name, NAMESPACE, uid=uid_of(seen.node_sets[name]))

    async def _wind_down(self, plane: Plane, seen: Seen) -> Found:
        live = sum(not worker.finished for worker in seen.workers)
        if live:
            return Found(applied=True, leaving=live)
        self.removed = await self._planter.remove(plane) and not seen.pods
        return Found(applied=True, leaving=0)


def _abandoned(spec: SlurmSpec, seen: Seen) -> list[Action]:
    """Jobs that wait in partitions that are going and in no other: nothing will ever run them."""
    if seen.view is None or not spec.retiring or not spec.node_sets:
        return []
    busy = {worker.node_set for worker in seen.workers}
    gone = {name for name in spec.retiring if name not in busy}
    return [
        Cancel(job.job_id, "") for job in seen.view.jobs or () if job.pending and job.partitions and set(job.partitions) <= gone
    ]


async def _units(plane: Plane) -> frozenset[str]:
    """The units of the network that are written in the plane already."""
    try:
        found = await plane.get(kinds.CONFIG_MAPS, CONFIG, NAMESPACE, shape=shapes.CONFIG)
    except NotFound:
        return frozenset()
    return units_in(found.data.topology if found.data is not None else "")


def _gpus_of(name: str, node_set: Obj) -> NodeSetSpec | None:
    """The GPUs of a NodeSet that only the plane still knows; a tenant may have written anything into it."""
    spec = node_set.get("spec") or {}
    gpus, gpu_type = spec.get("gpus"), str(spec.get("gpuType") or "")
    if not isinstance(gpus, int) or not 0 < gpus <= 64 or not _GPU_TYPE.fullmatch(gpu_type):
        return None
    return NodeSetSpec(name, 0, 0, 0, cpus=1, memory_mib=1, gpus=gpus, gpu_type=gpu_type)


def _gpus(spec: SlurmSpec, node_set: str) -> int:
    found = spec.node_set(node_set)
    return found.gpus if found is not None else 0
