"""The stores of all planes: how full they are, how fast their disks are, and what frees space in them.

    every 20 s, and with each reconcile: the state of each member ──> Store ──> conditions and metrics
    once a minute: each member's metrics ──> fsyncs, changes of the leader
    a store that is full, or mostly empty pages: one step after another, in a task (`storecare`)

Keys and values are never read or written. What is remembered only spares work: each step is decided from what etcd reports
then.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final

from bulkhead.kube.errors import KubeError
from bulkhead.work.clock import Clock
from bulkhead.work.supervise import apart
from controller import metrics
from controller.inside.etcdaccess import Etcd, EtcdAccess
from controller.plane import etcdfigures, storecare
from controller.plane.etcdfigures import Figures
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import PlaneSpec
from controller.plane.storecare import Compact, Defragment, Disarm, MoveLeader, Past, Step
from controller.plane.storestate import Member, Slow, Store, store_of

_log = logging.getLogger(__name__)
LOOK_PERIOD_SECONDS: Final = 20.0
_FIGURES_PERIOD_SECONDS: Final = 55.0
_LOOKS_AT_ONCE: Final = 8
# Defragmentations take the host's disks; other planes wait.
_CARED_FOR_AT_ONCE: Final = 2
_MOST_STEPS: Final = 20
# From here on less room is worth a new status; the same steps as in its message.
_FILLING_PERCENT: Final = 80
_STEP_PERCENT: Final = 5


@dataclass(slots=True)
class _Plane:
    """What is known of one plane's store."""

    spec: PlaneSpec
    keys: KeyMaterial
    addresses: dict[str, str]
    store: Store = field(default_factory=Store)
    past: Past = field(default_factory=Past)
    figures: dict[str, tuple[Figures, ...]] = field(default_factory=dict)
    figures_at: float = float("-inf")
    reported: object = None
    task: "asyncio.Task[None] | None" = None

    @property
    def cared_for(self) -> bool:
        return self.task is not None and not self.task.done()


class Stores:
    """The stores of all planes; close it at the end."""

    def __init__(self, clock: Clock, on_change: Callable[[str], object], *, access: EtcdAccess | None = None) -> None:
        self._clock = clock
        self._on_change = on_change
        self._access = access or EtcdAccess(clock)
        self._planes: dict[str, _Plane] = {}
        self._caring = asyncio.Semaphore(_CARED_FOR_AT_ONCE)

    async def look(self, spec: PlaneSpec, keys: KeyMaterial, addresses: Mapping[str, str]) -> Store:
        """The state of a plane's store; starts to free space if that is needed. `addresses` are those of its pods."""
        plane = self._planes.setdefault(spec.tenant, _Plane(spec, keys, {}))
        plane.spec, plane.keys, plane.addresses = spec, keys, dict(addresses)
        store = await self._look(plane)
        plane.reported = _worth_a_status(store)
        return store

    async def run(self) -> None:
        """Look at every plane again and again until cancelled; a tenant whose store has changed is enqueued."""
        slots = asyncio.Semaphore(_LOOKS_AT_ONCE)

        async def look(tenant: str) -> None:
            async with slots:
                plane = self._planes.get(tenant)
                if plane is None or not plane.addresses:
                    return
                found = _worth_a_status(await self._look(plane))
                if found != plane.reported:
                    plane.reported = found
                    self._on_change(tenant)

        while True:
            await self._clock.sleep(LOOK_PERIOD_SECONDS)
            async with asyncio.TaskGroup() as group:
                for tenant in list(self._planes):
                    group.create_task(apart("the look at a plane's store", partial(look, tenant), tenant=tenant))

    async def forget(self, tenant: str) -> None:
        """Drop a deleted tenant."""
        plane = self._planes.pop(tenant, None)
        if plane is not None and plane.task is not None:
            plane.task.cancel()
            await asyncio.wait([plane.task])
        await self._access.forget(tenant)

    async def pause(self) -> None:
        """End all work: only the leader acts on stores."""
        for tenant in list(self._planes):
            await self.forget(tenant)

    async def close(self) -> None:
        """End all tasks and connections."""
        await self.pause()
        await self._access.close()

    async def _look(self, plane: _Plane) -> Store:
        if not plane.addresses:
            return Store(wanted=plane.spec.control_plane.replicas)
        if plane.cared_for:
            # A member does not answer while it is being defragmented.
            return plane.store
        store = await self._ask(plane)
        now = self._clock.monotonic()
        plane.past = storecare.looked(plane.past, store, now)
        store = replace(store, slow=await self._disks(plane, store), rests_until=self._rests(plane.past, store))
        plane.store = store
        metrics.report_store(plane.spec.tenant, size=store.size, used=store.used, quota=store.quota)
        if storecare.next_step(store, plane.past, now) is not None:
            plane.task = asyncio.create_task(self._care(plane), name=f"making room in the store of {plane.spec.tenant}")
        return store

    async def _ask(self, plane: _Plane) -> Store:
        pods = sorted(plane.addresses)
        answers = await asyncio.gather(*(self._member(plane, pod) for pod in pods))
        return store_of(answers, plane.spec.control_plane.replicas)

    async def _member(self, plane: _Plane, pod: str) -> Member | str:
        try:
            return await (await self._etcd(plane, pod)).member(pod)
        except (KubeError, TimeoutError) as error:
            return f"etcd of pod {pod} does not answer: {error}"

    def _rests(self, past: Past, store: Store) -> str:
        """When a store that was filled again and again may open, as a time of day."""
        left = storecare.rests_until(past) - self._clock.monotonic()
        if not store.full or left <= 0:
            return ""
        return (self._clock.now() + timedelta(seconds=left)).strftime("%H:%M UTC")

    async def _disks(self, plane: _Plane, store: Store) -> tuple[Slow, ...] | None:
        """The members with slow disks; None while too little is known. Asks at most about once a minute."""
        now = self._clock.monotonic()
        if now - plane.figures_at < _FIGURES_PERIOD_SECONDS:
            return plane.store.slow
        plane.figures_at = now
        was = {slow.name for slow in plane.store.slow or ()}
        slow: list[Slow] = []
        known = False
        for member in store.members:
            seconds = await self._fsync(plane, member.name)
            if seconds is None:
                continue
            known = True
            metrics.store_fsync.labels(plane.spec.tenant, member.name).set(seconds)
            found = etcdfigures.slow_of(member.name, seconds, was=member.name in was)
            slow += [found] if found is not None else []
        return tuple(slow) if known else plane.store.slow

    async def _fsync(self, plane: _Plane, pod: str) -> float | None:
        """The seconds that nearly all fsyncs of a member took lately; None if that is unknown."""
        try:
            new = etcdfigures.read(await (await self._etcd(plane, pod)).metrics(), self._clock.monotonic())
        except (KubeError, TimeoutError) as error:
            _log.info("no metrics of the etcd in pod %s: %s", pod, error, extra={"tenant": plane.spec.tenant})
            return None
        before = plane.figures.get(pod, ())
        history = plane.figures[pod] = etcdfigures.kept(before, new)
        if before and len(history) > 1:
            changes = new.leader_changes - before[-1].leader_changes
            metrics.store_leader_changes.labels(plane.spec.tenant, pod).inc(max(0, changes))
        return etcdfigures.slowest_of_most(history)

    async def _care(self, plane: _Plane) -> None:
        """Free space, one step after another; each is decided from what etcd reports before it."""
        extra = {"tenant": plane.spec.tenant}
        async with self._caring:
            try:
                for _ in range(_MOST_STEPS):
                    store, now = await self._ask(plane), self._clock.monotonic()
                    step = storecare.next_step(store, plane.past, now)
                    if step is None:
                        break
                    _log.info("the store gets room: %s", _words(step, store), extra=extra)
                    await self._apply(plane, store, step, now)
            except (KubeError, TimeoutError) as error:
                _log.warning("cannot free space in the store: %s", error, extra=extra)
                return
        # The task is removed before it enqueues the tenant, so that the following reconcile looks again.
        if plane.task is asyncio.current_task():
            plane.task = None
        self._on_change(plane.spec.tenant)

    async def _apply(self, plane: _Plane, store: Store, step: Step, now: float) -> None:
        """Do one step. What may fail and must not be tried all the time counts as done before it is."""
        if not isinstance(step, Compact):
            plane.past = storecare.done(plane.past, step, now)
        match step:
            case Compact(revision):
                await (await self._etcd(plane, store.members[0].name)).compact(revision)
                plane.past = storecare.done(plane.past, step, now)
            case MoveLeader(leader, to):
                await (await self._etcd(plane, leader.name)).hand_leadership_to(to.id)
            case Defragment(member):
                await (await self._etcd(plane, member.name)).defragment()
                metrics.store_defragmentations.labels(plane.spec.tenant).inc()
            case Disarm(alarms):
                for alarm in alarms:
                    await (await self._etcd(plane, store.members[0].name)).disarm(alarm)
                metrics.store_openings.labels(plane.spec.tenant).inc()

    async def _etcd(self, plane: _Plane, pod: str) -> Etcd:
        return await self._access.etcd(plane.spec.tenant, plane.keys, pod, plane.addresses[pod])


def _worth_a_status(store: Store) -> object:
    """The parts of a store that change its tenant's status."""
    percent = store.size * 100 // max(1, store.quota)
    step = percent // _STEP_PERCENT if percent >= _FILLING_PERCENT else 0
    slow = None if store.slow is None else tuple(slow.name for slow in store.slow)
    return (bool(store.unread), store.full, step, slow, len(store.silent))


def _words(step: Step, store: Store) -> str:
    match step:
        case Compact(revision):
            return f"forgetting the versions before revision {revision}"
        case MoveLeader(leader, to):
            return f"{leader.name} hands leadership on to {to.name}"
        case Defragment(member):
            return f"defragmenting {member.name}: {member.used} of {member.size} bytes are used"
        case Disarm():
            return f"it accepts writes again: {store.size} bytes of {store.quota}"
