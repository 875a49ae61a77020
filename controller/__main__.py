"""Run the controller: `python -m controller`. In a cluster it uses its ServiceAccount, elsewhere KUBECONFIG.

    kopf + informers ──> queue ──> workers (only while the lease is held) ──> reconciles

Every replica watches, so that a standby has warm caches; only the holder of the lease works through the queue.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from aiohttp import web

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ConfigError
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.lease import LeaderLease
from bulkhead.work import jsonlog
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import SystemClock
from bulkhead.work.queue import KeyedQueue
from bulkhead.work.steadyclock import SteadyClock
from bulkhead.work.supervise import supervise
from controller import handlers, metrics, probes
from controller.dispatch import metrics as ledger_metrics
from controller.dispatch.loop import Ledger
from controller.host import definitions
from controller.host.accelerators import Accelerators
from controller.host.auditreceivers import AuditReceivers
from controller.host.classusers import ClassUsers
from controller.host.cohorts import Cohorts
from controller.host.dedication import Dedication
from controller.host.hostranges import HostRanges
from controller.host.identitykeys import IdentityKeys
from controller.host.issuers import Issuers, over_https
from controller.host.logins import Logins
from controller.host.owned import Owned
from controller.host.pullsecrets import PullSecrets
from controller.host.quarantines import Quarantines
from controller.host.restores import Restores
from controller.host.secretwatch import SecretWatch
from controller.host.snapshots import Snapshots
from controller.inside.access import PlaneAccess
from controller.inside.apifigures import PlaneFigures
from controller.inside.budget import Budget
from controller.inside.contents import ContentsReader
from controller.inside.etcdaccess import EtcdAccess
from controller.inside.members import Members
from controller.inside.stores import Stores
from controller.metering.reservations import Reservations
from controller.metering.shown import Shown
from controller.metering.usage import Usage
from controller.metering.utilisation import Utilisation
from controller.pki.renewals import Renewals
from controller.settings import Settings, SettingsError, load
from controller.shares.loop import ShareLoops
from controller.shares.sources import Sources
from controller.shares.spec import Item
from controller.shares.volumes.host import HostVolumes
from controller.slurm.board import Board
from controller.slurm.keystore import KeyStore
from controller.slurm.lease.free import free_of
from controller.slurm.loop import SlurmLoops
from controller.slurm.ordering import Ordering
from controller.slurm.ssh.authorities import Authorities
from controller.slurm.ssh.desks import Desks
from controller.snapshots.loop import SnapshotTasks
from controller.snapshots.places import Places
from controller.snapshots.removal import SnapshotRemovals
from controller.tenant.apply import Applier
from controller.tenant.consists import built_in
from controller.tenant.facets.adoption.facet import Adoption
from controller.tenant.facets.audit.facet import AuditReceiver
from controller.tenant.facets.identity.facet import Identity
from controller.tenant.facets.issuers.facet import SignIn
from controller.tenant.facets.members.facet import MembersCared
from controller.tenant.facets.nodes.facet import Nodes
from controller.tenant.facets.pulls.facet import Pulls
from controller.tenant.facets.restores.comparing import Comparing
from controller.tenant.facets.restores.dropping import RestoreKeysDropped
from controller.tenant.facets.restores.facet import RestoreBegun, RestoreEnded
from controller.tenant.facets.restores.host import RestoreHost
from controller.tenant.facets.schedule.facet import SnapshotSchedule
from controller.tenant.facets.shares.facet import Shares
from controller.tenant.facets.slurm.facet import Slurm
from controller.tenant.facets.snapshots.facet import TenantSnapshots
from controller.tenant.facets.store.facet import StoreRoom
from controller.tenant.facets.stranding.facet import Stranding
from controller.tenant.interior import Interior
from controller.tenant.reconcile import Reconciler
from controller.tenant.tools import Tools
from controller.tenant.tracing import CreationTraces
from controller.tracing import Traces
from controller.worker import Workers

LEASE = "bulkhead-controller"
_STUCK_SECONDS = 300.0
# Tenants wait this long for the CRDs of this release. If the host refuses the CRDs, tenants are reconciled anyway.
_DEFINITIONS_SECONDS = 20.0


def main() -> None:
    """Run until a signal ends it."""
    try:
        settings = load()
        config = _config()
    except (SettingsError, ConfigError) as error:
        sys.exit(f"bulkhead-controller cannot start: {error}")
    jsonlog.configure(settings.log_level)
    asyncio.run(run(settings, config))


async def run(settings: Settings, config: KubeConfig) -> None:
    """Build the controller and run it until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with Client(config, user_agent="bulkhead-controller", field_manager="bulkhead-controller") as client:
        controller = Controller(client, config, settings)
        running = asyncio.create_task(controller.run(), name="controller")
        stopping = asyncio.create_task(stop.wait(), name="signal")
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


class Controller:
    """Creates the parts of the controller, and starts and stops them."""

    def __init__(self, client: Client, config: KubeConfig, settings: Settings) -> None:
        self._clock = SteadyClock(SystemClock())
        client.transport.on_date = self._clock.heard
        metrics.clock_wrong.set_function(lambda: bool(self._clock.trouble))
        self._client = client
        self._config = config
        self._settings = settings
        self._queue: KeyedQueue[str] = KeyedQueue(max_keys=10_000)
        self._owned = Owned(client, self._queue.add, self._queue.add_after)
        self._events = handlers.Events(self._queue.add)
        self._cohorts = Cohorts(client, self._events.cohort)
        self._quarantines = Quarantines(client, self._queue.add)
        self._ranges = HostRanges(client, self._look_at_all, settings.reserved, settings.named_servers)
        self._secrets = SecretWatch(client, self._owned.tenants, self._queue.add, self._clock)
        budget = Budget()
        metrics.plane_bytes.set_function(lambda: budget.held)
        self._planes = PlaneAccess(self._clock, self._queue.add, budget)
        self._board = Board()
        self._slurm = SlurmLoops(
            self._clock,
            self._planes.plane,
            lambda tenant: free_of(self._owned.pod_quota(tenant)),
            self._queue.add,
            board=self._board,
            budget=budget,
        )
        authorities = Authorities(client, self._clock)
        self._desks = Desks(client, self._clock, self._planes.plane, authorities, budget=budget)
        ordering = Ordering(KeyStore(client, self._clock), self._slurm, authorities, self._desks)
        self._sources = Sources(client, settings.shared_namespace, self._shared_changed)
        self._volumes = HostVolumes(client, self._clock, settings.shared_volume_types, self._shared_volumes_changed)
        self._shares = ShareLoops(
            self._clock, self._planes.plane, self._sources.of, self._queue.add, budget=budget, volumes=self._volumes
        )
        self._pulls = PullSecrets(client, settings.pull_secrets, settings.system_namespace, self._look_at_all, self._clock)
        self._dedication = Dedication(client, settings, self._queue.add, self._clock, accepted=self._owned.accepted)
        self._issuers = Issuers(self._clock, self._queue.add, partial(over_https, proxy=settings.issuer_proxy))
        self._receivers = AuditReceivers(client, settings.shared_namespace, self._queue.add)
        self._figures = PlaneFigures(self._planes, self._owned.tenants, self._clock, budget)
        etcds = EtcdAccess(self._clock)
        self._stores = Stores(self._clock, self._queue.add, access=etcds)
        identity_keys = IdentityKeys(client, settings.system_namespace, self._clock)
        self._snapshots = Snapshots(client, self._queue.add)
        self._restores = Restores(client, self._queue.add)
        restore_host = RestoreHost(client)
        places = Places.of(settings, etcds.client, identity_keys.ring)
        self._taking = SnapshotTasks(client, self._clock, places)
        self._removing = SnapshotRemovals(client, self._clock, places, self._taking)
        self._traces = Traces(settings, self._clock)
        tools = Tools(
            client,
            self._owned,
            self._ranges,
            settings,
            self._clock,
            self._planes,
            budget,
            applier=Applier(client),
            interior=Interior(self._owned, self._planes, self._clock, resync_seconds=settings.resync_seconds),
            renewals=Renewals(self._clock, lambda: self._clock.trouble if self._clock.unknown else ""),
            traces=CreationTraces(self._clock, self._traces.offer),
        )
        facets = (
            *built_in(tools),
            Nodes(self._dedication),
            SignIn(self._issuers),
            Adoption(client, identity_keys),
            Identity(client, self._clock, identity_keys),
            RestoreBegun(self._restores, restore_host, self._clock, identity_keys),
            RestoreEnded(restore_host, self._clock, Comparing(restore_host, self._planes, budget)),
            RestoreKeysDropped(self._restores, restore_host),
            Stranding(client, self._snapshots),
            SnapshotSchedule(self._snapshots, self._removing, client, self._clock),
            TenantSnapshots(self._snapshots, self._taking, tools.interior),
            Pulls(client, tools.applier, self._clock, self._pulls),
            AuditReceiver(self._receivers),
            MembersCared(client, tools.interior, Members(etcds), self._clock),
            Slurm(ordering),
            StoreRoom(self._stores, tools.interior, ContentsReader(self._planes, self._clock, budget)),
            Shares(self._shares),
        )
        reconciler = Reconciler(tools, facets)
        self._workers = Workers(self._queue, reconciler, self._clock, count=settings.workers)
        self._synced = False
        self._defined = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        server = await self._serve()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(supervise("definitions", self._define))
                group.create_task(supervise("informers", self._owned.run))
                group.create_task(supervise("host ranges", self._ranges.run))
                group.create_task(supervise("cohorts", self._cohorts.run))
                group.create_task(supervise("quarantines", self._quarantines.run))
                group.create_task(supervise("shared objects", self._sources.run))
                group.create_task(supervise("shared volumes", self._volumes.run))
                group.create_task(supervise("snapshots", self._snapshots.run))
                group.create_task(supervise("restores", self._restores.run))
                group.create_task(supervise("kopf", self._watch))
                group.create_task(supervise("leader", self._lead))
                group.create_task(supervise("traces", self._traces.run))
        finally:
            await self._desks.close()
            await self._slurm.close()
            await self._shares.close()
            await self._removing.close()
            await self._taking.close()
            await self._stores.close()
            await self._planes.close()
            await server.cleanup()

    async def _define(self) -> None:
        await definitions.bring_up(self._client)
        self._defined.set()

    async def _watch(self) -> None:
        await handlers.run(self._events, self._config)

    async def _meter(self, reservations: Reservations, utilisation: Utilisation) -> None:
        usage = Usage(
            self._client,
            self._settings.system_namespace,
            resting=self._slurm.resting,
            lines=self._owned.device_lines,
            reserved=reservations.count,
            load=utilisation.count,
            holders=self._owned.holders,
            clock=self._clock,
        )
        shown = Shown(self._client, self._settings.system_namespace, self._clock, lambda: usage.page)
        async with asyncio.TaskGroup() as group:
            group.create_task(usage.run())
            group.create_task(supervise("usage shown to tenants", shown.run))

    async def _lead(self) -> None:
        """Work while this process holds the lease; wait for the lease again after losing it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DEFINITIONS_SECONDS):
                await self._defined.wait()
        await self._owned.synced()
        # If a policy lacked an exception that it needs, the tenant could reach the host.
        await self._ranges.synced()
        self._synced = True
        identity = self._settings.identity or f"{socket.gethostname()}-{os.getpid()}"
        while True:
            lease = LeaderLease(self._client, self._settings.system_namespace, LEASE, identity)
            async with lease.leading():
                metrics.leading.set(1)
                if self._settings.pull_secrets:
                    await self._pulls.look()
                await self._act(lease)

    async def _act(self, lease: LeaderLease) -> None:
        """Do what the leader alone does, in planes and on the host, until the lease is lost."""
        self._enqueue_known()
        work = asyncio.create_task(self._workers.run(), name="workers")
        lost = asyncio.create_task(lease.lost.wait(), name="lease lost")
        reservations = Reservations(self._clock)
        tasks = [
            *(asyncio.create_task(supervise(name, part), name=name) for name, part in self._beside(reservations).items()),
            asyncio.create_task(self._ledger(lease, reservations), name="ledger"),
            work,
            lost,
        ]
        try:
            await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            metrics.leading.set(0)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._desks.close()
            await self._slurm.close()
            await self._shares.close()
            await self._stores.pause()
            await self._removing.close()
            await self._taking.close()
            self._stand_down()

    def _beside(self, reservations: Reservations) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """What the leader runs beside its workers and the ledger.

        Those that are made here are new with each term, so that a standby keeps no records of all pods.
        """
        utilisation = Utilisation(self._settings, self._clock)
        return {
            "tenants": self._enqueue_listed,
            "accelerators": lambda: Accelerators(self._client).run(),
            "dedication": self._dedication.run,
            "secrets": self._secrets.run,
            "issuers": self._issuers.run,
            "class users": lambda: ClassUsers(self._client, self._clock).run(),
            "pull secrets": self._pulls.run,
            "logins": lambda: Logins(self._client, self._clock).run(),
            "stores": self._stores.run,
            "figures of planes": self._figures.run,
            "usage": partial(self._meter, reservations, utilisation),
            "utilisation": utilisation.run,
        }

    def _stand_down(self) -> None:
        """Drop the metrics that only the leader keeps up to date."""
        self._figures.pause()
        metrics.stand_down()
        ledger_metrics.stand_down()

    async def _ledger(self, lease: LeaderLease, reservations: Reservations) -> None:
        def ledger() -> Ledger:
            return Ledger(
                self._client,
                lambda: lease.held,
                self._clock,
                board=self._board,
                reserved=reservations.show,
                traced=self._traces.admitted,
            )

        await supervise("ledger", lambda: ledger().run(), backoff=Backoff(0.5, 5.0))

    def _shared_changed(self, item: Item) -> None:
        self._shares.changed(item)
        if item.kind == "Secret":
            self._receivers.changed(item.name)

    def _shared_volumes_changed(self) -> None:
        self._shares.volumes_changed()

    def _look_at_all(self) -> None:
        for name in self._owned.tenants():
            self._queue.add(name)

    def _enqueue_known(self) -> None:
        """Enqueue every name with host objects or unfinished TenantSnapshots; its Tenant may be gone."""
        self._look_at_all()
        for name in self._snapshots.unfinished():
            self._queue.add(name)

    async def _enqueue_listed(self) -> None:
        """Enqueue every Tenant on the host. Raises KubeError; then it is called again while this process leads."""
        for tenant in (await self._client.list(kinds.TENANTS)).items:
            self._queue.add(str(tenant["metadata"]["name"]))

    async def _serve(self) -> web.AppRunner:
        runner = web.AppRunner(probes.application(self._alive, self._ready), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, port=self._settings.http_port).start()
        return runner

    def _alive(self) -> str | None:
        stuck = self._queue.longest_running()
        return f"a reconcile has been running for {stuck:.0f} s" if stuck > _STUCK_SECONDS else None

    def _ready(self) -> str | None:
        return None if self._synced else "the first list of the host's objects is not complete yet"


def _config() -> KubeConfig:
    path = os.environ.get("KUBECONFIG")
    return KubeConfig.from_file(path) if path else KubeConfig.in_cluster()


if __name__ == "__main__":
    main()
