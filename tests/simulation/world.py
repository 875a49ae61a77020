"""Host, plane, the syncer between them, and all other actors: tenant, scheduler, kubelet, garbage collectors.

    async with World.open(seed) as world:
        world.tenant.pod("web"); await world.settle(); world.check()

The actors act at once and never fail; only the syncer's calls and watches do. `until` lets the actors act every half second
until the awaited state is reached, and fails if it is not reached. `settle` waits in the same way until nothing differs any
longer, and `check` asks the oracle.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from syncer.session import Session
from tests.kit.syncersettings import settings_for
from tests.simulation import wire
from tests.simulation.actors import HostActors, PlaneActors
from tests.simulation.api import Api, Refused
from tests.simulation.faults import Faults
from tests.simulation.oracle import HOST_USER, PLANE_USER, TAINT, Oracle, secret_text
from tests.simulation.virtualtime import LoopClock

TENANT = "sim"
SPACE = "space"
WORK = f"bh-{TENANT}-work"
# What the design grants: caught up 30 s after the last disturbance; a client that has met trouble waits longer before it asks.
QUIET_SECONDS = 30.0
PATIENCE_SECONDS = 150.0
STILL_SECONDS = 60.0
PATROL_SECONDS = 60
_STEP = 0.5

T = TypeVar("T")


# What a late write of the tenant's own quota consists of: it is written, or made, and the plane's new revision is recorded.
_OF_THE_PICTURE = {"kube-public/configmaps/bulkhead-quota", "kube-public/configmaps", "bh-sim/configmaps/plane-identity"}


def _last_of_path(call: str) -> str:
    return call.rpartition("/namespaces/")[2]


class World:
    """One simulated tenant: both API servers, the syncer's processes and all actors, by one seed. Belongs to one event loop."""

    def __init__(self, seed: int, **settings: Any) -> None:
        loop = asyncio.get_running_loop()
        # What the code under test draws for its pauses must follow from the seed as well.
        random.seed(seed)
        self.rng = random.Random(seed)
        self.settings = settings_for(TENANT, patrolSeconds=PATROL_SECONDS, **settings)
        self.clock = LoopClock()
        self.host = Api("host", loop.time)
        self.plane = Api("plane", loop.time)
        self.host_faults = Faults(random.Random(seed + 1))
        self.plane_faults = Faults(random.Random(seed + 2))
        self.on_host = HostActors(self.host, WORK, TENANT)
        self.in_plane = PlaneActors(self.plane)
        self.tenant = Tenant(self.plane)
        self.oracle = Oracle(self.host, self.plane, self.settings)
        self.session: Session | None = None
        self.life: wire.Life | None = None
        self.lives = 0
        self.crashed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._acted: object = None
        self._still = False
        self._prepare()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, seed: int = 0, *, start: bool = True, **settings: Any) -> AsyncIterator["World"]:
        # What the syncer logs about faults is of no use here, and formatting it costs more than the rest.
        logging.disable(logging.CRITICAL)
        world = cls(seed, **settings)
        try:
            if start:
                await world.start()
            yield world
        finally:
            await world.stop()
            logging.disable(logging.NOTSET)

    def _prepare(self) -> None:
        for api, names in ((self.host, (f"bh-{TENANT}", WORK)), (self.plane, ("kube-system", "kube-public", "default", SPACE))):
            for name in names:
                api.do("POST", NAMESPACES, {"metadata": {"name": name}})
        for name in ("default", SPACE):
            self.plane.do("POST", SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": name}})
        self.host.do(
            "POST", RESOURCE_QUOTAS,
            {"metadata": {"name": "tenant-quota", "namespace": WORK}, "spec": {"hard": {"requests.nvidia.com/gpu": "4"}}},
        )  # fmt: skip
        for name in ("node-a", "node-b"):
            self.on_host.add_node(name)

    # -- the syncer's process

    async def start(self, crash_at: tuple[int, str] | None = None) -> None:
        """A fresh process with empty memory."""
        self.lives += 1
        self.crashed = asyncio.Event()
        self.life = life = wire.Life(random.Random(self.rng.random()), self.crashed.set, crash_at)
        plane = wire.client(self.plane, self.plane_faults, life, PLANE_USER)
        host = wire.client(self.host, self.host_faults, life, HOST_USER)
        self.session = Session(self.settings, plane, host, self.clock)
        self._task = asyncio.create_task(self.session.run(), name=f"syncer-{self.lives}")

    async def stop(self) -> None:
        """Kill it: nothing is flushed, and it does nothing more."""
        if self._task is None:
            return
        if self.life is not None:
            self.life.alive = False
        if self._task.done() and not self._task.cancelled() and self._task.exception() is not None:
            self.oracle.violate(f"the session ended by itself: {self._task.exception()!r}")
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._task
        self._task = None

    async def restart(self, crash_at: tuple[int, str] | None = None) -> None:
        """Kill and start."""
        await self.stop()
        await self.start(crash_at)

    @property
    def trace(self) -> list[str]:
        """The calls of the present process that counted."""
        return [] if self.life is None else self.life.trace

    def quiet(self) -> None:
        """No more faults, clocks right."""
        self.host_faults.quiet()
        self.plane_faults.quiet()
        self.clock.skew = 0.0

    def relist(self, *apis: Api) -> None:
        """Make API servers, both unless named, forget history and watches: a client that saw wrong events has to list."""
        for api in apis or (self.host, self.plane):
            # Past the version that even the freshest watch has seen.
            api.store.version += 1
            api.store.compact()
            self.cut(api)

    def cut(self, api: Api) -> None:
        """Break every watch of one side."""
        for each in list(api.breaks):
            each()

    def lose(self) -> None:
        """The plane loses all of its data: a new cluster, that knows nothing, answers under the old address."""
        other = Api("other", self.clock.monotonic)
        for name in ("kube-system", "kube-public", "default", SPACE):
            other.do("POST", NAMESPACES, {"metadata": {"name": name}})
        self.plane.store.restore(other.store.snapshot())
        self.cut(self.plane)

    def restore(self, backup: Any) -> None:
        """The plane is as it was when the backup was made, and counts on from there."""
        self.plane.store.restore(backup)
        self.cut(self.plane)

    # -- time

    def act(self) -> None:
        """One round of all actors except the syncer and the tenant."""
        seen = (self.host.store.version, self.plane.store.version, self.on_host.mood)
        if seen != self._acted:
            self.in_plane.step()
            self.on_host.step()
            # What they did themselves is acted on once more.
            self._acted = seen

    async def wait(self, seconds: float, *, act: bool = True) -> None:
        """Let time pass: in which nothing may happen, or whatever does. What has to come is waited for by `until`."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            if act:
                self.act()
            await asyncio.sleep(min(_STEP, max(1e-3, end - self.clock.monotonic())))

    async def until(
        self, what: str, seen: Callable[[], T], within: float = QUIET_SECONDS, *, step: float = _STEP, act: bool = True
    ) -> T:
        """Let all actors act until something is seen, and return it; fails if it is not seen in time."""
        end = self.clock.monotonic() + within
        while True:
            if act:
                self.act()
            before = self._versions()
            await asyncio.sleep(step)
            self._still = before == self._versions()
            self.oracle.raise_violations()
            found = seen()
            if found:
                return found
            if self.clock.monotonic() >= end:
                raise AssertionError(f"not within {within:g} s: {what}. Seen: {found!r}; {self.summary()}")

    async def settle(self, seconds: float = QUIET_SECONDS) -> None:
        """Let all actors act until both sides agree and no more writes happen; fails if that takes too long."""
        await self.until("both sides agree", lambda: not self.oracle.differences() and self._still, seconds)

    async def ready(self) -> None:
        """Wait until the syncer has seen both sides."""
        await self.until("the syncer is ready", lambda: self.session is not None and not self.session._unready())

    def summary(self) -> str:
        """What is on each side, for the message of a failure."""
        sides = {"plane": self.plane.store.all(PODS), "host": self.on_host.pods()}
        pods = [
            f"{side} pod {pod['metadata']['name']} ({pod['spec'].get('nodeName') or 'no node'}, {pod['status'].get('phase')}"
            f"{', pending deletion' if pod['metadata'].get('deletionTimestamp') else ''})"
            for side, found in sides.items()
            for pod in found
        ]
        faults = {"plane": dict(self.plane_faults.happened), "host": dict(self.host_faults.happened)}
        return "; ".join([*(pods or ["no pods"]), f"faults {faults}", *self.oracle.differences()[:10]])

    def _versions(self) -> tuple[int, int]:
        return self.host.store.version, self.plane.store.version

    async def _writes_of_a_minute(self) -> list[str]:
        before = len(self.trace)
        await self.wait(STILL_SECONDS)
        self.oracle.raise_violations()
        # An event that repeats is written again, ever more rarely.
        return [call for call in self.trace[before:] if " GET " not in call and "/events" not in call]

    async def check(self, seconds: float = QUIET_SECONDS) -> None:
        """I1 and its kin after quiet, then I9: a minute without a write."""
        if not self.oracle.observed and not self.host.store.all(NODES):
            # A history in which the syncer had nothing to do shows nothing: it has to mirror one node at least.
            self.on_host.add_node("node-a")
        await self.settle(seconds)
        # The record of the plane's revision follows the last change within seconds; a token whose time the syncer's clock got
        # wrong is renewed by the next patrol.
        await self.wait(PATROL_SECONDS + 10)
        late = await self._writes_of_a_minute()
        if late and all(part in _OF_THE_PICTURE for part in map(_last_of_path, late)):
            # The picture of the quota that could not be written comes again after a pause of minutes, and once.
            late = await self._writes_of_a_minute()
        assert not late, f"I9: {len(late)} writes although all is quiet: {late[:5]}"
        assert not self.oracle.differences()


class Tenant:
    """What a tenant does in its plane."""

    def __init__(self, plane: Api, space: str = SPACE) -> None:
        self.plane = plane
        self.space = space

    def pod(
        self,
        name: str,
        *,
        gpus: int = 0,
        refers: bool = False,
        token: bool = False,
        claim: str = "",
        priority: int = 0,
        gang: tuple[str, int] | None = None,
        gate: str = "",
    ) -> Obj:
        """Create a pod; `refers`: to ConfigMap `config` and Secret `secret`; `gang`: its name and how many pods it has."""
        container: Obj = {"name": "main", "image": "busybox:1.36", "resources": {"requests": {"cpu": "100m"}}}
        if gpus:
            container["resources"]["limits"] = {"nvidia.com/gpu": str(gpus)}
        volumes: list[Obj] = []
        if refers:
            container["envFrom"] = [{"secretRef": {"name": "secret"}}]
            volumes.append({"name": "config", "configMap": {"name": "config"}})
        if token:
            sources = [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}]
            volumes.append({"name": "token", "projected": {"sources": sources}})
        if claim:
            volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": claim}})
        spec: Obj = {"containers": [container], "volumes": volumes, "serviceAccountName": "default"}
        # What an API server computes from a class, of which there is none here.
        spec |= {"priority": priority} if priority else {}
        spec |= {"schedulingGates": [{"name": gate}]} if gate else {}
        meta: Obj = {"name": name, "namespace": self.space, "labels": {"app": name}}
        if gang:
            meta["labels"]["kueue.x-k8s.io/pod-group-name"] = gang[0]
            meta["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(gang[1])}
        return self.plane.do("POST", PODS, {"metadata": meta, "spec": spec}, user="tenant")

    def config(self, value: str, name: str = "config") -> Obj:
        return self._apply(CONFIG_MAPS, name, {"data": {"value": value}})

    def secret(self, value: str, name: str = "secret") -> Obj:
        return self._apply(SECRETS, name, {"data": {"value": secret_text(value)}})

    def service(self, port: int, name: str = "web") -> Obj:
        return self._apply(SERVICES, name, {"spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": port}]}})

    def claim(self, name: str) -> Obj:
        """Ask for a volume, unless that was done."""
        body = {"metadata": {"name": name, "namespace": self.space}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        held = self.plane.store.get(PERSISTENT_VOLUME_CLAIMS, Key(self.space, name))
        return held or self.plane.do("POST", PERSISTENT_VOLUME_CLAIMS, body | {"spec": spec}, user="tenant")

    def policy(self, name: str, app: str, types: list[str]) -> Obj:
        """Isolate the pods of an app, of every one where that is empty."""
        selector = {"matchLabels": {"app": app}} if app else {}
        return self._apply(NETWORK_POLICIES, name, {"spec": {"podSelector": selector, "policyTypes": types}})

    def _apply(self, r: Any, name: str, content: Obj) -> Obj:
        body = {"metadata": {"name": name, "namespace": self.space}} | content
        held = self.plane.store.get(r, Key(self.space, name))
        if held is None:
            return self.plane.do("POST", r, body, user="tenant")
        return self.plane.do("PATCH", r, body, user="tenant", content_type="application/merge-patch+json")

    def delete(self, r: Any, name: str, grace: int | None = None) -> bool:
        """Delete; False when there was nothing."""
        try:
            options = {} if grace is None else {"gracePeriodSeconds": grace}
            self.plane.do("DELETE", r, options, namespace=self.space, name=name, user="tenant")
        except Refused:
            return False
        return True

    def cordon(self, name: str, wish: bool) -> None:
        """`kubectl cordon` and `kubectl uncordon`: writes nothing where the node says so already."""
        node = self.plane.store.get(NODES, Key("", name))
        if node is not None and ((node.get("spec") or {}).get("unschedulable") is True) is not wish:
            body = {"metadata": {"name": name}, "spec": {"unschedulable": wish or None}}
            self.plane.do("PATCH", NODES, body, user="tenant", content_type="application/merge-patch+json")

    def taint(self, name: str, wish: bool) -> None:
        """Keep pods that do not tolerate it away from a node, or no more."""
        if self.plane.store.get(NODES, Key("", name)) is not None:
            taints = [{"key": TAINT, "effect": "NoSchedule"}] if wish else None
            body = {"metadata": {"name": name}, "spec": {"taints": taints}}
            self.plane.do("PATCH", NODES, body, user="tenant", content_type="application/merge-patch+json")

    def make_space(self) -> None:
        """Create the namespace, which comes with its service account."""
        self.plane.do("POST", NAMESPACES, {"metadata": {"name": self.space}}, user="tenant")
        self.plane.do("POST", SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": self.space}})

    def delete_space(self) -> None:
        """Delete the namespace with all that is in it."""
        self.plane.do("DELETE", NAMESPACES, {}, name=self.space, user="tenant")

    def label_space(self, value: str) -> None:
        """Change a label of the namespace, which its pods carry on the host."""
        body = {"metadata": {"name": self.space, "labels": {"step": value}}}
        self.plane.do("PATCH", NAMESPACES, body, user="tenant", content_type="application/merge-patch+json")

    def resize(self, name: str, cpu: str) -> None:
        """Ask for more or less CPU for a pod."""
        spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
        self.plane.do("PATCH", PODS, {"spec": spec}, namespace=self.space, name=name, subresource="resize", user="tenant",
                      content_type="application/strategic-merge-patch+json")  # fmt: skip

    def debug(self, name: str, container: str) -> None:
        """`kubectl debug`: a container more in a pod that runs."""
        spec = {"ephemeralContainers": [{"name": container, "image": "busybox:1.36"}]}
        self.plane.do("PATCH", PODS, {"spec": spec}, namespace=self.space, name=name, subresource="ephemeralcontainers",
                      user="tenant", content_type="application/strategic-merge-patch+json")  # fmt: skip

    def bind(self, name: str, node: str) -> None:
        """What a scheduler of the tenant's own does, or any user with a Binding."""
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.plane.do("POST", PODS, body, namespace=self.space, name=name, subresource="binding", user="tenant")

    def claims_placed(self, name: str, status: str) -> None:
        """Write on a pod that it is scheduled, or that it is not: a tenant may write any status."""
        body = {"status": {"conditions": [{"type": "PodScheduled", "status": status}]}}
        self.plane.do("PATCH", PODS, body, namespace=self.space, name=name, subresource="status", user="tenant",
                      content_type="application/strategic-merge-patch+json")  # fmt: skip

    def lift_gates(self, name: str) -> None:
        """Let a pod be scheduled."""
        body = {"metadata": {"name": name, "namespace": self.space}, "spec": {"schedulingGates": None}}
        self.plane.do("PATCH", PODS, body, user="tenant", content_type="application/merge-patch+json")

    def label(self, name: str, value: str) -> None:
        """Change a label of a pod."""
        body = {"metadata": {"name": name, "namespace": self.space, "labels": {"step": value}}}
        with contextlib.suppress(Refused):
            self.plane.do("PATCH", PODS, body, user="tenant", content_type="application/merge-patch+json")
