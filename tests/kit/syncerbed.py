"""One tenant on two real API servers: the real session of the syncer, while the test plays kubelet and scheduler.

    async with SyncerBed.open(host, plane) as bed: ...      both namespaces, one node, the session running

Only API server and etcd run on the host, so the test does the work of scheduler, kubelet and controllers itself.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound, Unprocessable
from bulkhead.kube.informer import Informer
from bulkhead.kube.objects import Key, Resource
from bulkhead.kube.resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    SERVICES,
)
from syncer.session import Session
from syncer.translate.registry import KINDS
from syncer.watch.informers import resource_of
from tests.kit import lag
from tests.kit.hastening import hasten
from tests.kit.podstatus import pod_status
from tests.kit.syncersettings import settings_for

# How long an event that is certain to come may take on a busy machine; no test normally waits for that long.
SECONDS = 60.0
FIRST_PAUSE = 0.02  # seconds between the first two checks
LONGEST_PAUSE = 0.2


async def until(check: Callable[[], Awaitable[Any]], what: str, seconds: float = SECONDS) -> Any:
    """Poll until `check` returns something true, less and less often: the checks take CPU from the work that they wait for."""
    deadline, pause = time.monotonic() + seconds, FIRST_PAUSE
    while True:
        found = await check()
        if found:
            return found
        assert time.monotonic() < deadline, f"not in time: {what}"
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)


class SyncerBed:
    """One tenant; see the module."""

    def __init__(self, host: Client, plane: Client, **more: Any) -> None:
        self.host = host
        self.plane = plane
        self.tenant = f"t{secrets.token_hex(4)}"
        self.settings = settings_for(self.tenant, **more)
        self.work = self.settings.work_namespace
        self.space = f"space-{self.tenant}"
        self.session: Session | None = None
        self._priorities: list[str] = []
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[Client, str] = {}  # the revision of each server that the session has seen

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, host: Client, plane: Client, *, start: bool = True, **more: Any) -> AsyncIterator["SyncerBed"]:
        bed = cls(host, plane, **more)
        await bed.prepare()
        try:
            if start:
                await bed.start()
            yield bed
        finally:
            await bed.stop()
            await bed.clean()

    async def prepare(self) -> None:
        for client, name in (
            (self.host, self.settings.plane_namespace), (self.host, self.work), (self.plane, self.space),
        ):  # fmt: skip
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        with contextlib.suppress(AlreadyExists):
            await self.plane.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, self.space)
        with contextlib.suppress(AlreadyExists):
            await self.host.create(SERVICE_CIDRS, {"metadata": {"name": "plane"}, "spec": {"cidrs": ["10.112.0.0/22"]}})
            await until(self._has_the_planes_range, "the host gives addresses of the plane's range")
        self.node = f"node-{self.tenant}"
        await self.make_node(self.node)

    async def _has_the_planes_range(self) -> bool:
        address = f"10.112.3.{secrets.randbelow(250) + 1}"
        service = {"metadata": {"name": "probe"}, "spec": {"clusterIP": address, "ports": [{"port": 1}]}}
        with contextlib.suppress(Unprocessable):
            await self.host.create(SERVICES, service, self.work)
            await self.host.delete(SERVICES, "probe", self.work)
            return True
        return False

    async def make_node(self, name: str, gpus: int = 8) -> None:
        await self.host.create(NODES, {"metadata": {"name": name, "labels": {"pool": self.tenant}}})
        resources = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
        await self.host.patch(NODES, name, {"status": status}, subresource="status")
        await self.host.patch(NODES, name, {"spec": {"taints": None}})

    def begin(self) -> Session:
        """Start the session, and do not wait until it is ready."""
        self.session = Session(self.settings, self.plane, self.host)
        self._seen = {}
        self._task = asyncio.create_task(self.session.run())
        return self.session

    async def start(self) -> Session:
        session = self.begin()

        async def ready() -> bool:
            assert self._task is not None
            if self._task.done():
                self._task.result()
            return not session._unready()

        await until(ready, "session ready")
        return session

    async def stop(self) -> None:
        """End the session abruptly, as a kill would."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def caught_up(self) -> None:
        """Wait until the syncer has seen what both servers have: its watches lag behind a test's writes."""
        assert self.session is not None
        caches = self.session.caches
        await asyncio.gather(self._sees(self.plane, caches.virtual.values()), self._sees(self.host, caches.host.values()))

    async def _sees(self, server: Client, copies: Iterable[Informer]) -> None:
        """List nothing where nothing was written since all copies were like the server's."""
        now = ""
        with contextlib.suppress(KubeError):  # it may be away for a while
            now = await lag.revision(server)
        if now and self._seen.get(server) == now:
            return
        await until(lag.Behind(copies).caught_up, "the syncer's copies to be what both servers have")
        self._seen[server] = now

    async def idle(self) -> None:
        """Wait until the syncer has seen everything that exists now, and no key is due; keys may be scheduled for later."""
        await self.caught_up()

        async def done() -> bool:
            return self.session is not None and self.session.queue.idle

        await until(done, "every key reconciled")

    async def at_rest(self) -> None:
        """Wait until no key is due and no event is under way, also none of what the syncer itself wrote last."""
        assert self.session is not None
        queue = self.session.queue

        async def seen_and_done() -> bool:
            if not queue.idle:
                return False
            added = queue.added
            await self.caught_up()
            return queue.idle and queue.added == added

        await until(seen_and_done, "nothing due, and nothing added while the copies caught up")

    async def patrolled(self) -> None:
        """Wait until the syncer has reconciled everything once more as it is now; keys may be scheduled for later."""
        assert self.session is not None
        await self.at_rest()
        self.session.patrol.round()
        await self.idle()

    async def quiet(self, seconds: float = SECONDS) -> None:
        """Wait until the syncer has reconciled everything once more, and no key is scheduled for later.

        A key that is scheduled for later is reconciled now: it has to come to rest, and not its time to pass.
        """
        assert self.session is not None
        queue = self.session.queue

        async def nothing_to_do() -> bool:
            if queue.idle and queue.delayed:
                hasten(queue)
            return queue.idle and not queue.delayed

        await self.patrolled()
        await until(nothing_to_do, "nothing to do", seconds)

    async def clean(self) -> None:
        await empty(self.plane, self.space)
        await empty(self.host, self.work)
        for name in self._priorities:
            await self.plane.delete(PRIORITY_CLASSES, name)
        for client in (self.host, self.plane):
            for item in (await client.list_metadata(NODES)).items:
                if self.tenant in item["metadata"]["name"]:
                    await client.delete(NODES, item["metadata"]["name"])

    # -- the tenant

    def pod(self, name: str, **spec: Any) -> Obj:
        body = {"containers": [{"name": "main", "image": "busybox:1.36"}]} | spec
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": self.space}, "spec": body}

    def gpu_pod(self, name: str, gpus: int = 1) -> Obj:
        limits = {"nvidia.com/gpu": str(gpus)}
        return self.pod(name, containers=[{"name": "main", "image": "busybox:1.36", "resources": {"limits": limits}}])

    async def priority(self, name: str, value: int) -> str:
        """A PriorityClass of the plane, deleted at the end. Returns its name."""
        name = f"{name}-{self.tenant}"
        await self.plane.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        self._priorities.append(name)
        return name

    async def create(self, pod: Obj) -> Obj:
        """Create a pod in the plane; its API server admits a PriorityClass some moments after the class was created."""

        async def made() -> Obj | None:
            try:
                return await self.plane.create(PODS, pod)
            except Forbidden as error:
                if "no PriorityClass with name" not in str(error):
                    raise
            return None

        found: Obj = await until(made, f"{pod['metadata']['name']} is created")
        return found

    async def virtual(self, name: str) -> Obj | None:
        with contextlib.suppress(NotFound):
            return await self.plane.get(PODS, name, self.space)
        return None

    async def bind_virtual(self, name: str, node: str | None = None) -> None:
        """Bind a pod in the plane, as a scheduler of the tenant's own does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node or self.node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.plane.create_subresource(PODS, name, "binding", body, self.space)

    async def virtual_node(self) -> Obj | None:
        """The tenant's node as the plane shows it."""
        with contextlib.suppress(NotFound):
            return await self.plane.get(NODES, self.node)
        return None

    async def condition(self, name: str) -> Obj | None:
        pod = await self.virtual(name)
        conditions = ((pod or {}).get("status") or {}).get("conditions") or ()
        return next((condition for condition in conditions if condition["type"] == "PodScheduled"), None)

    async def events(self, name: str) -> list[Obj]:
        return [
            item for item in (await self.plane.list(EVENTS, self.space)).items if item["involvedObject"].get("name") == name
        ]

    async def event(self, name: str, *texts: str, reason: str = "", seconds: float = SECONDS) -> Obj:
        """Wait for an event of an object with this reason, if given, and a message that contains all texts."""

        async def found() -> Obj | None:
            events = [item for item in await self.events(name) if reason in {"", item["reason"]}]
            return next((item for item in events if all(text in item["message"] for text in texts)), None)

        event: Obj = await until(found, f"event {reason} of {name} with {texts}", seconds)
        return event

    # -- the host

    def host_name(self, kind: str, name: str) -> str:
        assert self.session is not None
        return self.session.caches.host_key(kind, Key(self.space, name)).name

    async def copy(self, r: Resource, name: str) -> Obj | None:
        """The host object of a virtual object."""
        with contextlib.suppress(NotFound):
            return await self.host.get(r, self.host_name(r.kind, name), self.work)
        return None

    async def copied(self, r: Resource, name: str, seconds: float = SECONDS) -> Obj:
        """Wait for the host object of a virtual object."""
        found: Obj = await until(lambda: self.copy(r, name), f"{r.kind} {name} on the host", seconds)
        return found

    async def uncopied(self, r: Resource, name: str, seconds: float = SECONDS) -> None:
        """Wait until the host object of a virtual object is gone."""

        async def absent() -> bool:
            return await self.copy(r, name) is None

        await until(absent, f"{r.kind} {name} gone from the host", seconds)

    async def mirror(self, name: str) -> Obj | None:
        with contextlib.suppress(NotFound):
            return await self.host.get(PODS, self.host_name("Pod", name), self.work)
        return None

    async def mirrored(self, name: str) -> Obj:
        found: Obj = await until(lambda: self.mirror(name), f"host pod of {name}")
        return found

    async def host_pods(self) -> list[Obj]:
        return (await self.host.list(PODS, self.work)).items

    async def bind(self, host: Obj, node: str | None = None) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node or self.node}
        name = host["metadata"]["name"]
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.host.create_subresource(PODS, name, "binding", body, self.work)

    async def run(self, host: Obj, phase: str = "Running") -> None:
        status = pod_status(phase)
        await self.host.patch(PODS, host["metadata"]["name"], {"status": status}, self.work, subresource="status")

    async def running(self, name: str, pod: Obj | None = None) -> Obj:
        """Create a pod and bring it to Running on both sides. Returns its host pod."""
        await self.create(pod or self.pod(name))
        host = await self.mirrored(name)
        await self.bind(host)
        await self.run(host)

        async def runs() -> bool:
            return (((await self.virtual(name)) or {}).get("status") or {}).get("phase") == "Running"

        await until(runs, f"{name} running in the plane")
        return host

    async def kubelet_ends(self, host: Obj) -> None:
        """The kubelet's last status of a pod that is being deleted."""
        await self.host.delete(PODS, host["metadata"]["name"], self.work, grace_seconds=0)

    async def quota(self, hard: int, used: int = 0) -> None:
        key = "requests.nvidia.com/gpu"
        await self.host.create(
            RESOURCE_QUOTAS, {"metadata": {"name": "tenant-quota"}, "spec": {"hard": {key: str(hard)}}}, self.work
        )
        await self.set_used(used, hard)
        await self.refuses(PODS, self.gpu_pod("probe", hard + 1))

    async def refuses(self, r: Resource, obj: Obj) -> None:
        """Wait until the host refuses this because of a quota that was just created or counted."""
        await until(lambda: lag.refused_for_quota(self.host, r, obj, self.work), f"a quota to count {r.plural}")

    async def set_used(self, used: int, hard: int) -> None:
        key = "requests.nvidia.com/gpu"
        status = {"hard": {key: str(hard)}, "used": {key: str(used)}}
        await self.host.patch(RESOURCE_QUOTAS, "tenant-quota", {"status": status}, self.work, subresource="status")


async def empty(client: Client, namespace: str) -> None:
    """Delete everything that a syncer mirrors: a later session on the same plane would mirror it for its own tenant."""
    for kind, entry in KINDS.items():
        r = resource_of(entry)
        found: list[Obj] = []
        with contextlib.suppress(NotFound):  # a server that does not serve the kind
            found = (await client.list_metadata(r, namespace)).items
        for item in found:
            with contextlib.suppress(KubeError):
                if kind not in {"Pod", "Service"} and item["metadata"].get("finalizers"):
                    await client.patch(r, item["metadata"]["name"], {"metadata": {"finalizers": None}}, namespace)
                await client.delete(r, item["metadata"]["name"], namespace, grace_seconds=0)


def virtual_uid(host: Obj) -> str:
    return str(host["metadata"]["annotations"][marks.VIRTUAL_UID])
