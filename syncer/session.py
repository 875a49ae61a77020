"""The syncer of one tenant, put together and kept running: clients, caches, queue, workers, shim, probes, in one TaskGroup.

    settings ──> clients of both sides ──> poll the plane until it answers ──> identity ──> informers ──> all synced
             ──> reference index ──> workers ── Item ──> Pods | Mirrors | Nodes ──> host and plane

One bad key is one bad key: its error is logged, counted, backed off. A side that does not answer leaves everything on the
other as it is. SIGTERM: not ready, no new keys, what is in work gets a few seconds, the identity is written, the end.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bulkhead.api import names
from bulkhead.api.podphase import has_ended
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, KubeError, Throttled, Unavailable
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Key, Obj, key_of, uid_of
from bulkhead.work.backoff import PerKeyBackoff
from bulkhead.work.clock import Clock, SystemClock
from bulkhead.work.queue import KeyedQueue, QueueClosed
from bulkhead.work.supervise import supervise
from syncer import metrics
from syncer.events import Recorder
from syncer.kubelet.metrics import PodMetrics
from syncer.kubelet.server import Shim, Target, tls_context
from syncer.logs import about
from syncer.mirrors.classes import Offers
from syncer.mirrors.nodeports import NodePorts
from syncer.mirrors.reconcile import Mirrors
from syncer.mirrors.references import HOLDERS, ReferenceIndex, mirrored_references
from syncer.mirrors.slices import Slices
from syncer.mirrors.volumes import Volumes
from syncer.nodes import Nodes
from syncer.patrol import Patrol
from syncer.pods.claims import Claims
from syncer.pods.groups import PodGroups
from syncer.pods.reconcile import Pods
from syncer.pods.tokens import Tokens
from syncer.pods.waiting import Starved
from syncer.probes import Heart, Probes
from syncer.settings import Settings
from syncer.translate.kinds import deviceclaim, endpointslice, nodeports, tokens
from syncer.translate.references import POD_GROUP
from syncer.translate.registry import KINDS
from syncer.watch.caches import Caches
from syncer.watch.deletions import ObservedDeletions
from syncer.watch.reconnect import HeardAgain
from syncer.work import Again, Item
from syncer.write.budget import WriteBudget
from syncer.write.host import HostWriter
from syncer.write.identity import PlaneIdentity
from syncer.write.massdelete import MassDeleteBreaker
from syncer.write.plane import VirtualWriter

_log = logging.getLogger(__name__)

WORKERS: Final = 16
POLL_SECONDS: Final = 0.15
# A connection that is dropped on the way, because the plane is not there yet, must not cost ten seconds.
_ATTEMPT_SECONDS: Final = 2.0
DRAIN_SECONDS: Final = 8.0
_OFFER_SECONDS: Final = 10.0
RECONCILE_SECONDS: Final = 60.0
_USER_AGENT: Final = "bulkhead-syncer"


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are: credentials and addresses to listen on."""

    pki: Path | None = Path("/etc/bulkhead/pki")
    shim_host: str = "0.0.0.0"  # noqa: S104 -- inside a pod, and only certificates of the plane's CA get in
    probe_host: str = "0.0.0.0"  # noqa: S104 -- inside a pod
    probe_port: int = 8080


class Session:
    """Everything of one tenant."""

    def __init__(self, settings: Settings, plane: Client, host: Client, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._plane = plane
        self._host = host
        self.queue: KeyedQueue[Item] = KeyedQueue(clock=self._clock)
        self.backoff: PerKeyBackoff[Item] = PerKeyBackoff(0.1, 20.0, jitter=0.5)
        self.caches = Caches(settings, plane, host, self.queue)
        self.identity = PlaneIdentity(plane, host, settings.plane_namespace, self._clock)
        self.deletions = ObservedDeletions()
        self.breaker = MassDeleteBreaker(settings.mass_delete_limit, self._clock, self.deletions)
        self.references = ReferenceIndex()
        self.recorder = Recorder(self.caches, plane, self._clock, busy=lambda: not self.queue.idle)
        self.heart = Heart(self._clock)
        self.probes = Probes(self.heart, self._unready)
        measured = PodMetrics(
            host, plane, settings.work_namespace, self._clock,
            pods=self.caches.virtual["Pod"].store.objects,
            host_name=self._host_name,
        )  # fmt: skip
        self.shim = Shim(host, self.find, measured.answer)
        self.patrol = Patrol(self.caches, self.queue, self.references, self._clock, settings.patrol_seconds)
        self.nodes = Nodes(self.caches, self.queue, plane, self.identity)
        self.starved = Starved(self.queue)
        self.groups = PodGroups(self.caches, self.queue)
        self.claims = Claims(
            (name for name in (*settings.gpu_resources, *settings.extended_resources) if "/" in name),
            settings.limits,
            self._clock,
            hard=self._quota,
            stands_for=settings.device_class_resources,
        )
        writer, virtual = HostWriter(host, WriteBudget(self._clock), self.identity), VirtualWriter(plane, self._clock)
        self.offers = Offers(settings, self.caches, plane, host, self._clock)
        self.mirrors = Mirrors(
            self.caches,
            self.queue,
            writer,
            virtual,
            references=self.references,
            breaker=self.breaker,
            recorder=self.recorder,
            volumes=Volumes(plane),
            claims=self.claims,
            starved=self.starved,
            slices=Slices(self.caches, self.queue, writer, self._clock),
        )
        self.node_ports = NodePorts(self.caches, writer, virtual, breaker=self.breaker, recorder=self.recorder)
        self.tokens = Tokens(self.caches, self.queue, writer, plane, self._clock)
        self.pods = Pods(
            self.caches,
            writer,
            virtual,
            mirrors=self.mirrors,
            references=self.references,
            tokens=self.tokens,
            nodes=self.nodes,
            starved=self.starved,
            groups=self.groups,
            offers=self.offers,
            claims=self.claims,
            recorder=self.recorder,
            deletions=self.deletions,
            breaker=self.breaker,
        )
        self._started = False
        self._connect()

    def _connect(self) -> None:
        listen = self.caches.listen
        self.caches.refers(self.references.refers)
        self.caches.news = self.patrol.looked_at
        for kind in self.caches.virtual:
            listen("virtual", kind, lambda change: self.identity.saw(change.meta.resource_version))
        for kind in KINDS:
            listen("virtual", kind, partial(self.deletions.note, kind))
        for kind in ("Pod", deviceclaim.KIND):
            listen("host", kind, self._counted(kind))
            listen("host", kind, self.starved.gone)
        listen("host", "Pod", self.nodes.pod_changed)
        listen("host", "Pod", self.mirrors.slices.pod_changed)
        listen("virtual", endpointslice.KIND, self.mirrors.slices.above)
        listen("host", endpointslice.KIND, self.mirrors.slices.below)
        listen("virtual", POD_GROUP, self.groups.above)
        listen("host", POD_GROUP, self.groups.below)
        listen("host", "Node", self.nodes.changed)
        listen("host", "ResourceQuota", self.starved.room)
        listen("host", "Secret", self.tokens.heard)
        listen("host", "VolumeSnapshot", self.mirrors.snapshots.seen)
        listen("host", "Event", self.recorder.heard)
        for side in (self.caches.virtual, self.caches.host):
            heard_again = HeardAgain(side.values(), self.backoff, self.queue, self._clock)
            for informer in side.values():
                informer.on_back = heard_again

    def _counted(self, kind: str) -> Callable[[Change], None]:
        return lambda change: self.claims.seen(change, self.caches.host[kind].store.get(change.key), kind)

    def _quota(self) -> Obj | None:
        """The tenant's quota of pods on the host as last seen."""
        return self.caches.host["ResourceQuota"].store.get(Key(self.settings.work_namespace, names.POD_QUOTA))

    def _unready(self) -> list[str]:
        return self.caches.unready() or ([] if self._started else ["starting"])

    def find(self, key: Key) -> Target | None:
        """Answer the shim: which host pod is this virtual pod."""
        virtual, host = self.caches.virtual_pod(key), self.caches.host_pod(key)
        if virtual is None or host is None:
            return None
        meta = self.caches.host["Pod"].store.meta(self.caches.host_key("Pod", key))
        who = self.caches.origin(meta) if meta is not None else None
        if who is None or who.uid != uid_of(virtual) or not (host.get("spec") or {}).get("nodeName"):
            return None
        return Target(virtual, self.caches.host_key("Pod", key))

    def _host_name(self, key: Key) -> str | None:
        target = self.find(key)
        return target.host.name if target is not None else None

    # -- running

    async def run(self) -> None:
        """Sync until cancelled."""
        async with asyncio.TaskGroup() as group:
            # A plane that does not answer yet is no reason to leave a pod's address where the pod is not.
            early = ("Pod", endpointslice.KIND)
            for kind in early:
                self._inform(group, kind, self.caches.host[kind])
            group.create_task(supervise("slices", self.mirrors.slices.run, clock=self._clock))
            await self._until_answering()
            for side in (self.caches.host, self.caches.virtual):
                for kind, informer in side.items():
                    if side is self.caches.virtual or kind not in early:
                        self._inform(group, kind, informer)
            await self._offered()
            await self.caches.synced()
            self._index_references()
            self._started = True
            _log.info("synced: %d keys to look at", len(self.queue))
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"worker-{number}")
            group.create_task(supervise("identity", self.identity.keep, clock=self._clock))
            group.create_task(supervise("offers", self.offers.run, clock=self._clock))
            group.create_task(supervise("events", self.recorder.run, clock=self._clock))
            group.create_task(supervise("patrol", self.patrol.run, clock=self._clock))

    def _inform(self, group: asyncio.TaskGroup, kind: str, informer: Informer) -> None:
        group.create_task(supervise(f"informer {kind}", informer.run, clock=self._clock))

    async def _until_answering(self) -> None:
        """The plane starts at the same time: ask often, it is asked for by somebody who waits."""
        told = 0.0
        while True:
            try:
                async with asyncio.timeout(_ATTEMPT_SECONDS):
                    await self.identity.establish()
                if self.identity.established:
                    return
            except (KubeError, TimeoutError) as error:
                if self._clock.monotonic() - told > 10:
                    told = self._clock.monotonic()
                    _log.info("waiting for both API servers: %s", error)
            await self._clock.sleep(POLL_SECONDS)

    async def _offered(self) -> None:
        """Know the host's classes before the first claim is worked on."""
        try:
            async with asyncio.timeout(_OFFER_SECONDS):
                await self.offers.round()
        except (KubeError, TimeoutError) as error:
            _log.warning("classes not read yet: %s", error)

    def _index_references(self) -> None:
        """Know every reference before the first key is worked on."""
        for kind in HOLDERS:
            for virtual in self.caches.virtual[kind].store.objects():
                if self._refers(kind, virtual):
                    first, _ = self.references.set(Item(kind, key_of(virtual)), mirrored_references(kind, virtual))
                    for item in first:
                        self.queue.add(item)
        for kind in ("ConfigMap", "Secret"):
            for meta in self.caches.host[kind].store.metas():
                who = self.caches.origin(meta)
                if who is not None and who.kind == kind:
                    self.queue.add(Item(kind, Key(who.namespace, who.name)))

    def _refers(self, kind: str, virtual: Obj) -> bool:
        """Whether an object holds, right after the start, what it refers to."""
        if kind != "Pod":
            # Without a copy on the host it may be refused, and then nothing leaves the plane for its sake.
            return self.caches.host_key(kind, key_of(virtual)) in self.caches.host[kind].store
        return not has_ended(virtual)

    async def _work(self) -> None:
        while True:
            try:
                item = await self.queue.get()
            except QueueClosed:
                return
            if item.kind == "Pod":
                metrics.IN_QUEUE.observe(self.queue.waited)
            try:
                await self._one(item)
            finally:
                self.queue.done(item)
                metrics.QUEUE_DEPTH.set(len(self.queue))

    async def _one(self, item: Item) -> None:
        result = "done"
        found_by_patrol = item in self.patrol.pending
        noted: list[str] = []
        token = metrics.writes.set(noted)
        with metrics.RECONCILE_SECONDS.labels(item.kind).time():
            try:
                async with asyncio.timeout(RECONCILE_SECONDS):
                    after = await self._reconcile(item)
                self.backoff.forget(item)
                if after is not None:
                    self.queue.add_after(item, after)
            except Again as again:
                result = "again"
                self.queue.add_after(item, again.seconds)
            except Conflict:
                result = "conflict"
                self.queue.add_after(item, max(0.02, self.backoff.next(item)))
            except (KubeError, TimeoutError) as error:
                result = "error"
                self._retry(item, error)
            except Exception as error:  # noqa: BLE001 -- whatever a hostile object brings about stays with its key
                result = "error"
                _log.exception("reconcile failed", extra=about(item.kind, item.key))
                self._retry(item, error, quiet=True)
        metrics.writes.reset(token)
        self.patrol.looked_at(item)
        if found_by_patrol and noted and result == "done":
            metrics.PATROL_REPAIRS.labels(item.kind).inc()
            _log.warning("patrol repaired what no event told of", extra=about(item.kind, item.key, writes=noted))
        metrics.RECONCILES.labels(item.kind, result).inc()

    def _retry(self, item: Item, error: Exception, *, quiet: bool = False) -> None:
        delay = max(0.05, self.backoff.next(item))
        if isinstance(error, (Throttled, Unavailable)) and error.retry_after is not None:
            delay = max(delay, error.retry_after)
        if not quiet:
            _log.warning("reconcile failed: %s", error, extra=about(item.kind, item.key, retry_in=round(delay, 2)))
        self.queue.add_after(item, delay)

    async def _reconcile(self, item: Item) -> float | None:
        if item.kind == "Pod":
            return await self.pods.reconcile(item.key)
        if item.kind == "Node":
            return await self.nodes.reconcile(item.key)
        if item.kind == tokens.KIND:
            return await self.tokens.reconcile(item.key)
        if item.kind == nodeports.KIND:
            return await self.node_ports.reconcile(item.key)
        return await self.mirrors.reconcile(item)

    async def serve(self, places: Places) -> None:
        """Sync, and serve probes and the shim, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.heart.beat())
            group.create_task(self.probes.serve(places.probe_host, places.probe_port))
            if places.pki is not None:
                group.create_task(self.shim.serve(places.shim_host, self.settings.shim_port, tls_context(places.pki)))
            group.create_task(self.run())

    async def drain(self) -> None:
        """Let what is in work end, and write down what must not be forgotten."""
        self.probes.stopping = True
        self.queue.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self.queue.processing:
                    await self._clock.sleep(0.05)
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(3):
                await self.identity.flush()


async def run_until_signal(settings: Settings, plane: KubeConfig, host: KubeConfig, places: Places) -> None:
    """The whole process: until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with (
        Client(
            plane, user_agent=_USER_AGENT, field_manager=_USER_AGENT, timeout=15.0, max_body=8 << 20, max_list=96 << 20
        ) as up,
        Client(host, user_agent=f"{_USER_AGENT}/{settings.tenant}", field_manager=_USER_AGENT, timeout=15.0) as down,
    ):
        session = Session(settings, up, down)
        serving = asyncio.create_task(session.serve(places))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            _log.info("stopping")
            await session.drain()
            serving.cancel()
        stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
