"""The syncer of one tenant, put together and kept running: caches, queue, workers, kubelet, probes, in one TaskGroup.

    settings ──> clients of both sides ──> poll the plane until it answers ──> identity ──> informers ──> all synced
             ──> reference index ──> workers ── Item ──> Pods | Mirrors | Nodes ──> host and plane

Wiring only: what is done for a key is `worker` and the reconcilers. A side that does not answer leaves everything on the other
as it is. `drain` ends it: not ready, no new keys, what is in work gets a few seconds, the identity is written.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Key
from bulkhead.work.backoff import PerKeyBackoff
from bulkhead.work.clock import Clock, MachineClock, SystemClock
from bulkhead.work.queue import KeyedQueue
from bulkhead.work.supervise import supervise
from syncer import issuers, metrics
from syncer.drains import Drains
from syncer.events import Recorder
from syncer.fullness import Fullness
from syncer.gpumetrics import GpuMetrics
from syncer.issuers import Issuers
from syncer.kubelet.lastpages import LastPages
from syncer.kubelet.metrics import PodMetrics
from syncer.kubelet.pace import Paces
from syncer.kubelet.routes import NodePage
from syncer.kubelet.server import Kubelet, tls_context
from syncer.kubelet.targets import Targets
from syncer.kubelet.turns import Turns
from syncer.mirrors.classes import OF_STORAGE, HostClasses
from syncer.mirrors.kinds import followers
from syncer.mirrors.nodeports import NodePorts
from syncer.mirrors.reconcile import Mirrors
from syncer.mirrors.references import ReferenceIndex
from syncer.mirrors.slices import Slices
from syncer.nodefigures import NodeFigures
from syncer.nodes import Nodes
from syncer.ownquota import QuotaPicture
from syncer.patrol import Patrol
from syncer.pods.groups import PodGroups
from syncer.pods.reconcile import Pods
from syncer.pods.tokens import Tokens
from syncer.probes import Heart, Probes
from syncer.quota.claims import Claims
from syncer.quota.extent import Extent, Limits
from syncer.quota.hostqueue import HostQueue
from syncer.quota.shares import NodeShares
from syncer.quota.waiting import Starved
from syncer.rereading import Rereading
from syncer.settings import Settings
from syncer.tenure import Tenure
from syncer.tracing import UNTRACED, PodTraces, Untraced
from syncer.translate import tokens
from syncer.translate.kinds import drain, gang, nodeports
from syncer.translate.registry import KINDS
from syncer.watch.deletions import ObservedDeletions
from syncer.watch.informers import Caches, Subscriber
from syncer.watch.lastpods import LastPods
from syncer.watch.reconnect import Reconnect
from syncer.work import Item
from syncer.worker import Reconciler, Worker, by_key
from syncer.write.budget import WriteBudget
from syncer.write.host import HostWriter
from syncer.write.identity import PlaneIdentity
from syncer.write.massdelete import MassDeleteBreaker
from syncer.write.placed import PlacedPods
from syncer.write.plane import VirtualWriter

if TYPE_CHECKING:
    from bulkhead.tracing.sending import Sender

_log = logging.getLogger(__name__)

WORKERS: Final = 16
POLL_SECONDS: Final = 0.15
# A connection that is dropped on the way, because the plane is not there yet, must not cost ten seconds.
_ATTEMPT_SECONDS: Final = 2.0
DRAIN_SECONDS: Final = 8.0
_OFFER_SECONDS: Final = 10.0
_GANGS_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are: credentials and addresses to listen on."""

    pki: Path | None = Path("/etc/bulkhead/pki")
    kubelet_host: str = "0.0.0.0"  # noqa: S104 -- inside a pod, and only certificates of the plane's CA get in
    probe_host: str = "0.0.0.0"  # noqa: S104 -- inside a pod
    probe_port: int = 8080
    gpu_metrics_token: Path = Path("/var/run/secrets/bulkhead/gpumetrics/token")

    def gpu_metrics_source(self, address: str) -> KubeConfig:
        """The program that scrapes exporters, and this syncer's token for it, which the kubelet renews."""
        return KubeConfig(server=address, token_file=self.gpu_metrics_token)


class Session:
    """Everything of one tenant."""

    def __init__(
        self, settings: Settings, plane: Client, host: Client, clock: MachineClock | None = None, *, pod: str = ""
    ) -> None:
        """`pod`: the name of the pod that this process runs in; empty outside of one."""
        self._clock = clock or SystemClock()
        self.tenure = Tenure(host, settings.plane_namespace, pod, self._clock)
        self._plane, self._host = plane, host
        self.queue: KeyedQueue[Item] = KeyedQueue(clock=self._clock)
        self.backoff: PerKeyBackoff[Item] = PerKeyBackoff(0.1, 20.0, jitter=0.5)
        self.caches = Caches(settings, plane, host, self.queue)
        self.references, self.extent = ReferenceIndex(), Extent(Limits.of(settings), self._clock)
        self.identity = PlaneIdentity(plane, host, settings.plane_namespace, self._clock)
        self.deletions, self.last_pods = ObservedDeletions(), LastPods()
        self.breaker = MassDeleteBreaker(settings.mass_delete_limit, self._clock, self.deletions, self.identity.note)
        self.recorder = Recorder(self.caches, plane, self._clock, busy=lambda: not self.queue.idle)
        self.heart, self.fullness = (
            Heart(self._clock),
            Fullness(self.caches.virtual, plane, self._clock, self.identity.note_incomplete),
        )
        self.probes = Probes(self.heart, self._unready)
        targets, turns = Targets(self.caches), Turns(self._clock)
        self.node_figures = NodeFigures(settings.work_namespace, self._clock, find=targets.mirrored)
        measured = PodMetrics(
            host, plane, settings.work_namespace, self._clock,
            pods=self.caches.virtual["Pod"].store.objects,
            host_name=targets.host_name,
            figures=self.node_figures.of,
            turns=turns,
        )  # fmt: skip
        self.gpu_metrics = GpuMetrics(plane, settings.work_namespace, self._clock, find=targets.mirrored, turns=turns)

        async def page(about: NodePage, node: str) -> bytes:
            return await (self.gpu_metrics.page(node) if about == "gpus" else measured.page(about, node))

        self.paces = Paces(self._clock, logs=settings.log_bytes_per_second, sessions=settings.session_bytes_per_second)
        self.kubelet = Kubelet(
            host, targets.find, measured.answer, LastPages(page, self._clock).page, paces=self.paces, turns=turns
        )
        self.issuers = Issuers(host, settings.plane_namespace, self._clock)
        self.patrol = Patrol(self.caches, self.queue, self.references, self._clock, settings.patrol_seconds)
        self.identity.on_quarantined, self.identity.on_accepted = self._replaced, self._accepted
        self.shares = NodeShares(self.caches, self.queue)
        budget = WriteBudget(self._clock)
        self.nodes = Nodes(self.caches, plane, host, self.shares, budget)
        self.starved = Starved(self.queue, quota=self.caches.host["ResourceQuota"].store.get)
        self.groups = PodGroups(self.caches, self.queue)
        self.claims = Claims(
            (name for name in (*settings.gpu_resources, *settings.extended_resources) if "/" in name),
            settings.limits,
            self._clock,
            hard=self._quota,
            stands_for=settings.device_class_resources,
        )
        self.own_quota = QuotaPicture(self.caches, plane, self.claims, self._clock)
        self.host_queue = HostQueue(self.caches, self.queue, self.claims, quota=self._quota)
        writer, virtual = HostWriter(host, budget, self.identity), VirtualWriter(plane, self._clock)
        self.placed = PlacedPods(
            plane, host, settings.plane_namespace,
            budget=budget,
            identity=self.identity,
            cached=lambda: (meta.uid for meta in self.caches.virtual["Pod"].store.metas()),
        )  # fmt: skip
        self.classes = HostClasses(self.caches, plane, host, self._clock)
        self.slices = Slices(self.caches, self.queue, writer, self._clock)
        self.followers = followers(
            self.caches, self.queue, writer, virtual, plane, slices=self.slices, extent=self.extent, recorder=self.recorder
        )
        self.mirrors = Mirrors(
            self.caches,
            self.queue,
            writer,
            virtual,
            references=self.references,
            breaker=self.breaker,
            recorder=self.recorder,
            claims=self.claims,
            starved=self.starved,
            followers=self.followers,
            clock=self._clock,
        )
        self.drains = Drains(self.caches, self.queue, writer, self.recorder, self._clock)
        self.node_ports = NodePorts(
            self.caches, writer, virtual, breaker=self.breaker, recorder=self.recorder, extent=self.extent
        )
        self.tokens = Tokens(self.caches, self.queue, writer, plane, recorder=self.recorder, clock=self._clock)
        self._spans = _sender(settings, self._clock)
        way: Untraced = UNTRACED
        if self._spans is not None:
            way = PodTraces(settings.tenant, settings.trace_one_pod_in, self._clock, self._spans.offer)
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
            classes=self.classes,
            claims=self.claims,
            extent=self.extent,
            host_queue=self.host_queue,
            recorder=self.recorder,
            deletions=self.deletions,
            last=self.last_pods,
            breaker=self.breaker,
            placed=self.placed,
            way=way,
        )
        self.rereading = Rereading(settings, host, self._adopt)
        self._group: asyncio.TaskGroup | None = None
        self._started = False
        self._connect()

    def _connect(self) -> None:
        listen = self.caches.listen
        self.caches.refers(self.references.refers)
        self.caches.news = self.patrol.visited
        for kind in (*self.caches.virtual, *({gang.OWN_GROUP} - self.caches.virtual.keys())):
            listen("virtual", kind, self.identity.noticed)
        for kind in KINDS:
            listen("virtual", kind, partial(self.deletions.note, kind))
        for kind in (translation.kind for translation in KINDS.values() if translation.counted):
            listen("host", kind, self._counted(kind))
        listen(
            "host",
            "Service",
            lambda change: self.extent.service_seen(change, self.caches.host["Service"].store.get(change.key)),
        )
        parts: tuple[Subscriber, ...] = (
            self.last_pods,
            self.host_queue,
            self.starved,
            self.shares,
            self.groups,
            self.tokens,
            self.recorder,
            self.drains,
            self.own_quota,
            *self.followers.values(),
        )
        for part in parts:
            self.caches.subscribe(part)
        self._plane_back, host_back = (
            Reconnect(side.values(), self.backoff, self.queue, self._clock) for side in (self.caches.virtual, self.caches.host)
        )

        def host_is_back() -> None:
            self.tenure.ask_now()
            host_back()

        for side, back in ((self.caches.virtual, self._plane_back), (self.caches.host, host_is_back)):
            for informer in side.values():
                informer.on_back = back

    def _counted(self, kind: str) -> Callable[[Change], None]:
        def counted(change: Change) -> None:
            # Looked up late: a kind that the tenant is not offered has no copy, and no changes.
            store = self.caches.host[kind].store
            host = store.get(change.key)
            self.claims.seen(change, host, kind)
            if kind == "Pod":
                self.extent.pod_seen(change, host, len(store.body(change.key) or b""))

        return counted

    def _quota(self) -> Obj | None:
        """The tenant's quota of pods on the host as last seen."""
        return self.caches.host["ResourceQuota"].store.get(Key(self.caches.settings.work_namespace, names.POD_QUOTA))

    def _reconcilers(self) -> dict[str, Reconciler]:
        """Which part reconciles which kind of work."""
        own = {
            "Pod": by_key(self.pods.reconcile),
            "Node": by_key(self.nodes.reconcile),
            drain.KIND: by_key(self.drains.reconcile),
            tokens.KIND: by_key(self.tokens.reconcile),
            nodeports.KIND: by_key(self.node_ports.reconcile),
        }
        return dict.fromkeys(KINDS, self.mirrors.reconcile) | own

    def _unready(self) -> list[str]:
        suspended = self.tenure.suspended()
        return self.caches.unready() or ([] if self._started else ["starting"]) or ([suspended] if suspended else [])

    # -- running

    async def run(self) -> None:
        """Sync until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            # Even while the plane does not answer, endpoints must not keep the address of a pod that has gone.
            for kind in self.slices.reads:
                self._inform(group, kind, self.caches.host[kind])
            group.create_task(supervise("slices", self.slices.run, clock=self._clock))
            await self._until_answering()
            if self.tenure.applies:
                group.create_task(supervise("tenure", self.tenure.run, clock=self._clock))
            for side in (self.caches.host, self.caches.virtual):
                for kind, informer in side.items():
                    if side is self.caches.virtual or kind not in self.slices.reads:
                        self._inform(group, kind, informer)
            group.create_task(supervise("fullness", self.fullness.run, clock=self._clock))
            await self._offered()
            await self.caches.synced()
            self.classes.on_offer = partial(self.patrol.again, OF_STORAGE)
            self.references.fill(self.caches, self.queue)
            self._started = True
            _log.info("synced: %d keys to reconcile", len(self.queue))
            worker = Worker(self.queue, self.backoff, self.patrol, self._reconcilers(), self.tenure.granted)
            for number in range(WORKERS):
                group.create_task(worker.run(), name=f"worker-{number}")
            group.create_task(supervise("identity", self.identity.keep, clock=self._clock))
            group.create_task(supervise("classes", self.classes.run, clock=self._clock))
            group.create_task(supervise("events", self.recorder.run, clock=self._clock))
            group.create_task(supervise("own quota", self.own_quota.run, clock=self._clock))
            group.create_task(supervise("patrol", self.patrol.run, clock=self._clock))
            if self._spans is not None:
                group.create_task(supervise("traces", self._spans.run, clock=self._clock))
            self._inform(group, "settings", self.rereading.informer)
            group.create_task(supervise("settings", self.rereading.run, clock=self._clock))

    async def _adopt(self, told: Settings) -> None:
        """Go by other settings from now on. No watch is opened again, and everything is reconciled once more."""
        late = self.caches.watch_gangs() if told.gated_gangs else None
        if late is not None and self._group is not None:
            late.on_back = self._plane_back
            self._inform(self._group, gang.OWN_GROUP, late)
            # Its API may be missing in the plane, and then no pod waits for it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GANGS_SECONDS):
                    await late.synced()
        self.caches.adopt(told)
        self.claims.limits = told.limits
        self.extent.adopt(Limits.of(told))
        self.paces.change(logs=told.log_bytes_per_second, sessions=told.session_bytes_per_second)
        self.host_queue.recount()
        self.shares.recount()
        await self._offered()
        self.patrol.all_again()

    def _inform(self, group: asyncio.TaskGroup, kind: str, informer: Informer) -> None:
        group.create_task(supervise(f"informer {kind}", informer.run, clock=self._clock))

    async def _until_answering(self) -> None:
        """Ask often: the plane starts at the same time, and the tenant waits for it."""
        logged = 0.0
        while True:
            try:
                async with asyncio.timeout(_ATTEMPT_SECONDS):
                    await self.identity.establish()
                    if self.identity.established:
                        await self.placed.load()
                        self.breaker.resume(self.identity.record)
                        self.fullness.resume(self.identity.record)
                        return
            except (KubeError, TimeoutError) as error:
                if self._clock.monotonic() - logged > 10:
                    logged = self._clock.monotonic()
                    _log.info("waiting for both API servers: %s", error)
            await self._clock.sleep(POLL_SECONDS)

    async def _offered(self) -> None:
        """Know the host's classes before the first claim is worked on."""
        try:
            async with asyncio.timeout(_OFFER_SECONDS):
                await self.classes.reconcile()
        except (KubeError, TimeoutError) as error:
            _log.warning("classes not read yet: %s", error)

    async def serve(self, places: Places) -> None:
        """Sync, and serve probes and the kubelet, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.heart.beat())
            group.create_task(self.probes.serve(places.probe_host, places.probe_port))
            if places.pki is not None:
                settings = self.caches.settings
                group.create_task(self.kubelet.serve(places.kubelet_host, settings.kubelet_port, tls_context(places.pki)))
                if settings.issuers_port:
                    port = settings.issuers_port
                    group.create_task(self.issuers.serve(places.kubelet_host, port, issuers.tls_context(places.pki)))
                if settings.gpu_metrics_port:
                    tls, port = issuers.tls_context(places.pki), settings.gpu_metrics_port
                    source = places.gpu_metrics_source(settings.gpu_metrics_source)
                    group.create_task(self.gpu_metrics.serve(places.kubelet_host, port, tls, source))
                    if settings.node_figures:
                        group.create_task(self.node_figures.ask_at(source))
            group.create_task(self.run())

    def _replaced(self) -> None:
        """The plane has other data than before: no version tells what is known of it, so all is read again."""
        for informer in self.caches.virtual.values():
            informer.list_again()
        self.mirrors.forget_plane()
        self.pods.forget_plane()

    def _accepted(self, seconds: float) -> None:
        """An admin accepted the plane's data: objects that it does not have are checked now, and deleted on the host."""
        self._replaced()
        self.breaker.accept(seconds)
        self.patrol.round()

    async def drain(self) -> None:
        """Let the reconciles under way end, and record the identity."""
        self.probes.stopping = True
        self.queue.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self.queue.processing:
                    await self._clock.sleep(0.05)
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(3):
                await self.identity.flush()


def _sender(settings: Settings, clock: Clock) -> "Sender | None":
    """What sends traces; None while they are off, and then nothing of it is loaded."""
    if not settings.traces_collector:
        return None
    from bulkhead.tracing.sending import Sender  # noqa: PLC0415

    about = {"service.name": "bulkhead-syncer", "bulkhead.tenant": settings.tenant}
    return Sender(settings.traces_collector, about, clock, metrics.spans)
