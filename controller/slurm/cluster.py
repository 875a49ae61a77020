"""Reconciles one tenant's Slurm cluster. A reconcile is bounded, and safe to interrupt and to repeat at any moment.

    observe ──> render ──> apply ──> decide ──> act ──> report
    plane,      objects,   into the  the        plane,  conditions, NodeSets' status,
    Slurm       files      plane     lease      Slurm   Found for the Tenant's status

Between reconciles only caches and deadlines are kept: what was applied, when a worker was first released, and since when there
are more workers than an admin allows. They can only make a deadline earlier than the one in the tenant's Slurm.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import KubeError, ProtocolError
from bulkhead.work.clock import Clock
from controller.inside.calls import Plane
from controller.slurm.accounts import Accounts
from controller.slurm.act import Actor
from controller.slurm.apply import Applier
from controller.slurm.board import Board, OnHost
from controller.slurm.client.rest import SlurmRest
from controller.slurm.client.tokens import TokenSource
from controller.slurm.config.topology import grown, topology_of
from controller.slurm.decide.hanging import hanging
from controller.slurm.decide.status import Found, counts, left_undone, pods_of, resting, waiting
from controller.slurm.lease.deadlines import Deadlines
from controller.slurm.lease.fleet import Action, Fleet, Free, vouched
from controller.slurm.lease.free import left
from controller.slurm.lease.plan import over, plan_leases, records_of
from controller.slurm.lease.release import ranks
from controller.slurm.objects.nodesets import definition, retiring_gpus
from controller.slurm.objects.render import daemons, logins, render
from controller.slurm.objects.workers import worker_digest
from controller.slurm.observe import Seen, cordoned, keeps_accounts, node_sets, observe, units
from controller.slurm.report import report
from controller.slurm.spec import KEYS, TRUST, AccountingSpec, SlurmSpec
from controller.slurm.spec.keys import SlurmKeys

_log = logging.getLogger(__name__)
_PRUNE_PERIOD_SECONDS = 60.0
_USERS_PERIOD_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Order:
    """The wanted cluster. If Slurm is switched off, the spec has no NodeSets, and the cluster is removed with grace."""

    spec: SlurmSpec
    keys: SlurmKeys
    on: bool = True
    trusted: tuple[str, ...] = ()  # public keys that sign ssh certificates
    kept: str = ""  # what the Tenant asks for and does not get, as a message
    # Only its keys, users and what opens its login nodes are known: nothing else of the cluster is looked at or changed. Of its
    # accounting database these are the users and their rights.
    logins_only: bool = False


@dataclass(frozen=True, slots=True)
class _Applied:
    """The daemons that should run, and why the objects could not be applied, if they could not."""

    wanted: Mapping[str, int]  # daemon -> pods
    refused: str = ""


class Cluster:
    """One tenant's cluster between reconciles."""

    def __init__(self, tenant: str, clock: Clock, quota: Callable[[str], Mapping[str, Free]], board: Board) -> None:
        self._tenant = tenant
        self._clock = clock
        self._quota = quota
        self._board = board
        self._applier = Applier(clock)
        self._accounts = Accounts(tenant, clock)
        self._tokens: tuple[bytes, TokenSource] | None = None
        self._deadlines = Deadlines()
        self._pruned = 0.0
        # When a cluster of which only logins are known was last looked at for an accounting database.
        self._looked = 0.0
        # UIDs of pods that count as its workers.
        self._vouched: frozenset[str] = frozenset()
        # Names of the node records in Slurm's last answer.
        self._recorded: frozenset[str] = frozenset()
        # Units of the network that Slurm's files have ever had; None: not read yet.
        self._units: frozenset[str] | None = None
        self.removed = False
        # Key of auth/slurm, or public key that signs ssh certificates -> since when it has been in the plane.
        self.spread: Mapping[str, datetime] = {}

    async def reconcile(self, plane: Plane, order: Order) -> Found:
        """Go through every stage once; raises KubeError if the plane does not answer."""
        if order.logins_only:
            return await self._open_logins(plane, order)
        rest = SlurmRest(plane, self._token_source(order.keys))
        seen = await self._observe(plane, rest if order.spec.rest_api is not None else None, order)
        spec = self._complete(order, seen)
        applied = _Applied({})
        if order.on:
            self.removed = False
            objects = render(spec, order.keys, order.trusted)
            applied = await self._apply(plane, objects)
            self._note_keys(order, objects)
            seen = await _with_new_node_sets(plane, spec, seen)
        now = self._clock.now()
        fleet = self._fleet(spec, seen, now)
        actions = plan_leases(spec, seen.view, fleet, now)
        await self._act(Actor(self._tenant, plane, rest, spec, seen.view), actions, seen)
        await report(plane, seen, fleet.digests, now)
        if not order.on:
            return await self._take_down(plane, seen)
        missing = await self._accounts.keep(rest, spec) if seen.view is not None else ""
        return Found(
            applied=not applied.refused and not missing,
            wanted=applied.wanted,
            pods=pods_of(seen.pods, applied.wanted),
            counts=counts(seen.view) if seen.view is not None else None,
            unasked=spec.rest_api is None,
            trouble=applied.refused or seen.trouble or missing,
            refused=bool(applied.refused),
            resting=resting(seen.view, seen.workers, self._vouched) if seen.view is not None else frozenset(),
            waiting=waiting(seen.workers),
            kept="; ".join(filter(None, (order.kept, left_undone(spec), self._applier.kept, self._accounts.unread))),
        )

    async def _open_logins(self, plane: Plane, order: Order) -> Found:
        objects = logins(order.spec, order.keys, order.trusted)
        await self._applier.apply(plane, objects)
        self._note_keys(order, objects)
        await self._keep_users(plane, order)
        return Found(applied=True, unasked=True)

    async def _keep_users(self, plane: Plane, order: Order) -> None:
        """Write users and their rights into the accounting database, if the cluster has one: its spec is not known."""
        if self._looked and self._clock.monotonic() - self._looked < _USERS_PERIOD_SECONDS:
            return
        self._looked = self._clock.monotonic()
        if await keeps_accounts(plane):
            rest = SlurmRest(plane, self._token_source(order.keys))
            await self._accounts.keep(rest, replace(order.spec, accounting=AccountingSpec()), users_only=True)

    async def _observe(self, plane: Plane, rest: SlurmRest | None, order: Order) -> Seen:
        # NodeSets cannot be read before their definition is up to date.
        refused = await self._define(plane) if order.on else ""
        try:
            seen = await observe(plane, rest)
        except KubeError as error:
            if not refused:
                raise
            # A definition that the tenant has changed explains the shape of its objects.
            raise ProtocolError(f"{refused}; {error}") from error
        if self._units is None and order.on:
            self._units = await units(plane)
        return seen

    async def _define(self, plane: Plane) -> str:
        """Apply the definition of NodeSets to the plane; returns why that failed, or an empty text."""
        try:
            await self._applier.apply(plane, [definition()])
        except KubeError as error:
            _log.warning("definition not applied: %s", error, extra={"tenant": self._tenant})
            return f"the plane refuses the definition of NodeSets: {error}"
        return ""

    def _complete(self, order: Order, seen: Seen) -> SlurmSpec:
        """The spec, completed from the plane: the places of its nodes, and NodeSets that the Tenant no longer has."""
        gone = sorted(seen.node_sets.keys() - {node_set.name for node_set in order.spec.node_sets})
        places = {node.topology.partition(":")[2] for node in seen.view.nodes} if seen.view is not None else set()
        topology = grown(topology_of(order.spec.topology.kind, seen.nodes), (self._units or frozenset()) | places)
        self._units = frozenset(topology.units) if order.on else None
        gpus = retiring_gpus({name: seen.node_sets[name] for name in gone})
        return replace(order.spec, retiring=tuple(gone), retiring_gpus=gpus, topology=topology)

    async def _apply(self, plane: Plane, objects: tuple[Obj, ...]) -> _Applied:
        refused = ""
        try:
            await self._applier.apply(plane, objects)
        except KubeError as error:
            refused = self._refused(error)
        # Also if an object was refused: login nodes that the Tenant has switched off must not stay open.
        if self._clock.monotonic() - self._pruned > _PRUNE_PERIOD_SECONDS or not self._pruned:
            try:
                await self._applier.prune(plane, objects, files=not refused)
                self._pruned = self._clock.monotonic()
            except KubeError as error:
                refused = refused or self._refused(error)
        return _Applied(daemons(objects), refused)

    def _refused(self, error: KubeError) -> str:
        _log.warning("objects not applied: %s", error, extra={"tenant": self._tenant})
        return f"the plane refuses an object of the cluster: {error}"

    def _note_keys(self, order: Order, objects: tuple[Obj, ...]) -> None:
        """Remember since when the plane has had each key with which daemons and login nodes verify."""
        carried = {
            (kinds.SECRETS.kind, KEYS): [key.kid for key in order.keys.auth],
            (kinds.CONFIG_MAPS.kind, TRUST): order.trusted,
        }
        there: dict[str, datetime] = {}
        for obj in objects:
            keys = carried.get((str(obj["kind"]), str(obj["metadata"]["name"])), ())
            known = self._clock.now() if self._applier.has_applied(obj) else None
            there |= {key: moment for key in keys if (moment := self.spread.get(key, known)) is not None}
        self.spread = there

    def _fleet(self, spec: SlurmSpec, seen: Seen, now: datetime) -> Fleet:
        """The input of the lease, in addition to Slurm's own view."""
        fleet = Fleet(
            workers=seen.workers,
            targets=seen.targets,
            digests={node_set.name: worker_digest(spec, node_set) for node_set in spec.node_sets},
            cordoned=cordoned(seen.nodes),
        )
        self._deadlines = self._deadlines.since(over(spec, fleet), now)
        on_host = self._board.on_host(self._tenant)
        self._vouched = vouched(fleet.workers, {node_set.name: node_set.maximum for node_set in spec.node_sets}, self._vouched)
        self._board.vouch(self._tenant, self._vouched)
        self._board.rank(self._tenant, ranks(seen.view, fleet.workers, now) if seen.view is not None else {})
        if seen.view is not None or spec.rest_api is None:
            # Without a REST API Slurm never answers again.
            self._recorded = records_of(seen.view) if seen.view is not None else frozenset()
        there = None if on_host is None else frozenset(on_host)
        return replace(
            fleet,
            promised=self._deadlines.promised,
            over_since=self._deadlines.over_since,
            recorded=self._recorded,
            free=left(self._quota(self._tenant), spec.node_sets, fleet.workers, there),
            taken=None if on_host is None else _taken(on_host),
        )

    async def _act(self, actor: Actor, actions: tuple[Action, ...], seen: Seen) -> None:
        await actor.act(actions, seen.node_sets)
        self._deadlines = self._deadlines.after(actions, seen.view, seen.workers)
        await actor.renew(hanging(seen.pods, self._clock.now()))
        await actor.place(seen)

    async def _take_down(self, plane: Plane, seen: Seen) -> Found:
        """Remove the daemons from the plane, once no worker is left."""
        live = sum(not worker.finished for worker in seen.workers)
        if live:
            return Found(applied=True, leaving=live)
        self.removed = await self._applier.remove(plane) and not seen.pods
        return Found(applied=True, leaving=0)

    def _token_source(self, keys: SlurmKeys) -> TokenSource:
        if self._tokens is None or self._tokens[0] != keys.jwt:
            self._tokens = (keys.jwt, TokenSource(keys.jwt, self._clock.now))
        return self._tokens[1]


async def _with_new_node_sets(plane: Plane, spec: SlurmSpec, seen: Seen) -> Seen:
    """The observation with NodeSets that were applied after it: owner references of pods need their UIDs."""
    if seen.node_sets.keys() == {node_set.name for node_set in spec.node_sets} | set(spec.retiring):
        return seen
    return replace(seen, node_sets=await node_sets(plane))


def _taken(on_host: Mapping[str, OnHost]) -> dict[str, datetime]:
    return {name: datetime.fromtimestamp(pod.by, UTC) for name, pod in on_host.items() if pod.by is not None}
