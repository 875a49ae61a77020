"""A host for the ledger: tenants with quotas, nodes, and pods with the gate, as syncers and the controller would create them.

    async with LedgerHost.open(client) as host: ...       a test's objects are deleted at its end

`Watched` is a second observer: it sees every event of pods, and reports anything that was given twice.
"""

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from bulkhead.api import labels, ledger, names
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, Conflict, KubeError, NotFound, Unprocessable
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import COHORTS, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, TENANTS
from bulkhead.ledger import given
from bulkhead.ledger.model import Share, Tenant
from controller.dispatch.loop import Ledger
from controller.slurm.board import Board
from tests.kit import lag
from tests.kit.background import background
from tests.kit.crds import install
from tests.kit.syncerbed import SECONDS, until

GPU = "nvidia.com/gpu"
LINE = ("", GPU)
KWOK = "kwok.x-k8s.io/node"


class LedgerHost:
    """Tenants, nodes, Cohorts and gated pods of one test on a real API server; `open` deletes the test's objects at the end."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.mark = secrets.token_hex(3)
        self.spaces: list[str] = []
        self.nodes: list[str] = []
        self.tenants: list[str] = []
        self.cohorts: list[str] = []

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, client: Client) -> AsyncIterator[Self]:
        host = cls(client)
        await host.install()
        await host.member()
        try:
            yield host
        finally:
            await host.clean()

    async def install(self) -> None:
        """The kinds that the ledger watches."""
        await install(self.client)

    async def member(self) -> None:
        """Add a tenant to a cohort: the ledger works only if there is one."""
        name, spec = f"m{self.mark}", {"class": "standard", "quota": {"cohort": f"c{self.mark}"}}
        await self.client.apply(TENANTS, {"metadata": {"name": name}, "spec": spec})
        self.tenants.append(name)

    async def clean(self) -> None:
        for space in self.spaces:
            for pod in (await self.client.list(PODS, space)).items:
                await self.client.delete(PODS, pod["metadata"]["name"], space, grace_seconds=0)
            await self.client.delete(RESOURCE_QUOTAS, names.POD_QUOTA, space)
        for resource, made in ((NODES, self.nodes), (TENANTS, self.tenants), (COHORTS, self.cohorts)):
            for name in made:

                async def gone(resource: Resource = resource, name: str = name) -> bool:
                    """The chart's policy sees a moment later that no tenant is in the cohort."""
                    try:
                        await self.client.delete(resource, name)
                    except Unprocessable:
                        return False
                    return True

                await until(gone, f"{resource.kind} {name} deleted")

    async def clear(self, *tenants: str) -> None:
        """Delete all pods; no controller that counts them runs here."""
        for tenant in tenants:
            space = names.work_namespace(tenant)
            for pod in await self.pods(tenant):
                await self.client.delete(PODS, pod["metadata"]["name"], space)

            # kwok deletes by name, even if another pod has the name by then.
            async def none_left(tenant: str = tenant) -> bool:
                return not await self.pods(tenant)

            await until(none_left, f"no pods of {tenant}")
            status = {"status": {"used": {f"requests.{GPU}": "0"}}}
            await self.client.patch(RESOURCE_QUOTAS, names.POD_QUOTA, status, space, subresource="status")

    async def node(self, name: str, gpus: int = 8, **marks: str) -> str:
        """A node that is ready; if kwok runs, it plays the node's kubelet."""
        name = f"{name}-{self.mark}"
        found = {"kubernetes.io/hostname": name, "pool": self.mark} | {k.replace("__", "/"): v for k, v in marks.items()}
        meta = {"name": name, "labels": found, "annotations": {KWOK: "fake"}}
        await self.client.create(NODES, {"metadata": meta})
        room = {"cpu": "96", "memory": "1Ti", "pods": "250", GPU: str(gpus)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        ready |= {"lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        await self.client.patch(NODES, name, {"status": status}, subresource="status")
        await self.client.patch(NODES, name, {"spec": {"taints": None}})
        self.nodes.append(name)
        return name

    async def cohort(self, name: str, **spec: Any) -> str:
        """The rules of a cohort."""
        name = f"{name}-{self.mark}"
        await self.client.apply(COHORTS, {"metadata": {"name": name}, "spec": spec})
        self.cohorts.append(name)
        return name

    async def tenant(
        self, name: str, nominal: int, cohort: str = "", ceiling: int | None = None, borrowing: int | None = None
    ) -> str:
        """A tenant's work namespace and quota, with these amounts; the host counts up to its ceiling."""
        name = f"{name}{self.mark}"
        space = names.work_namespace(name)
        await self.client.create(NAMESPACES, {"metadata": {"name": space}})
        self.spaces.append(space)
        noted = _given(name, nominal, cohort, borrowing)
        meta = {"name": names.POD_QUOTA, "labels": {labels.TENANT: name}, "annotations": {ledger.GIVEN: noted}}
        hard = {f"requests.{GPU}": str(nominal if ceiling is None else ceiling)}
        await self.client.create(RESOURCE_QUOTAS, {"metadata": meta, "spec": {"hard": hard}}, space)
        status = {"status": {"hard": hard, "used": {f"requests.{GPU}": "0"}}}
        await self.client.patch(RESOURCE_QUOTAS, names.POD_QUOTA, status, space, subresource="status")
        beyond = self.pod(name, "probe", (nominal if ceiling is None else ceiling) + 1)
        await until(lambda: lag.refused_for_quota(self.client, PODS, beyond, space), f"the quota of {name} to count")
        return name

    async def give(self, tenant: str, nominal: int, cohort: str = "", borrowing: int | None = None) -> None:
        """Change the tenant's quota."""
        body = {"metadata": {"annotations": {ledger.GIVEN: _given(tenant, nominal, cohort, borrowing)}}}
        await self.client.patch(RESOURCE_QUOTAS, names.POD_QUOTA, body, names.work_namespace(tenant))

    def pod(
        self,
        tenant: str,
        name: str,
        gpus: int = 1,
        *,
        gang: tuple[str, int] | None = None,
        topology: str = "",
        own_priority: int = 0,
        **spec: Any,
    ) -> Obj:
        """A host pod with the gate, as a syncer creates it."""
        notes = {labels.VIRTUAL_NAMESPACE: "default", labels.VIRTUAL_NAME: name, ledger.OWN_PRIORITY: str(own_priority)}
        if gang is not None:
            notes |= {ledger.GANG: gang[0], ledger.GANG_SIZE: str(gang[1])}
        if topology:
            notes[ledger.GANG_TOPOLOGY] = topology
        container = {"name": "main", "image": "busybox:1.36", "resources": {"limits": {GPU: str(gpus)}}}
        meta = {"name": name, "labels": {labels.TENANT: tenant}, "annotations": notes}
        body: Obj = {"containers": [container], "schedulingGates": [{"name": ledger.GATE}]}
        body |= {"nodeSelector": {"pool": self.mark}, "terminationGracePeriodSeconds": 1}
        return {"metadata": meta, "spec": body | spec}

    async def run(self, tenant: str, name: str, gpus: int = 1, **more: Any) -> Obj:
        """Create a pod; again if the quota conflicts with the ledger's note or was not counted in time, as a syncer does."""

        async def made() -> Obj | None:
            try:
                return await self.client.create(PODS, self.pod(tenant, name, gpus, **more), names.work_namespace(tenant))
            except Conflict:
                return None
            except ApiError as error:
                if "resource quota evaluation timed out" not in error.message:
                    raise
                return None

        found: Obj = await until(made, f"{name} of {tenant} made")
        return found

    async def get(self, tenant: str, name: str) -> Obj | None:
        """One pod, as it is now."""
        with contextlib.suppress(NotFound):
            return await self.client.get(PODS, name, names.work_namespace(tenant))
        return None

    async def pods(self, tenant: str) -> list[Obj]:
        """All pods of a tenant."""
        return (await self.client.list(PODS, names.work_namespace(tenant))).items

    async def admitted(self, tenant: str, number: int, seconds: float = SECONDS) -> list[Obj]:
        """Wait until this number of a tenant's pods have no gate."""

        async def so() -> list[Obj] | None:
            found = [pod for pod in await self.pods(tenant) if not gated(pod)]
            return found if len(found) == number else None

        found: list[Obj] = await until(so, f"{number} admitted of {tenant}", seconds)
        return found

    async def told(self, tenant: str, name: str, reason: str, text: str = "", seconds: float = SECONDS) -> str:
        """Wait until a pod's status says why it waits."""

        async def so() -> str | None:
            said = verdict(await self.get(tenant, name) or {})
            return said[1] if said is not None and said[0] == reason and text in said[1] else None

        message: str = await until(so, f"{name} of {tenant} waits: {reason} {text}", seconds)
        return message

    async def standing(self, tenant: str) -> dict[str, int]:
        """The ledger's note on a tenant's quota."""
        quota = await self.client.get(RESOURCE_QUOTAS, names.POD_QUOTA, names.work_namespace(tenant))
        found: dict[str, int] = ledger.read_standing(quota["metadata"].get("annotations") or {}).get(LINE, {})
        return found

    async def end(self, tenant: str, name: str) -> None:
        """Let a pod complete."""
        await self.client.patch(
            PODS, name, {"status": {"phase": "Succeeded"}}, names.work_namespace(tenant), subresource="status"
        )


def _given(tenant: str, nominal: int, cohort: str, borrowing: int | None) -> str:
    return given.write(Tenant(tenant, cohort or f"own-{tenant}", shares={LINE: Share(nominal, borrowing)}))


def leads() -> bool:
    """A process that leads as long as it lives."""
    return True


def gated(pod: Obj) -> bool:
    return any(schedulinggate["name"] == ledger.GATE for schedulinggate in pod["spec"].get("schedulingGates") or ())


def verdict(pod: Obj) -> tuple[str, str] | None:
    return ledger.read_verdict((pod.get("metadata") or {}).get("annotations") or {})


def gpus(pod: Obj, resource: str = GPU) -> int:
    return sum(
        int(container.get("resources", {}).get("limits", {}).get(resource, 0)) for container in pod["spec"]["containers"]
    )


@dataclass
class Watched:
    """Every event of pods in some namespaces, in order: which pod held what at each moment."""

    client: Client
    # The limit for each namespace, the GPUs of each node, and limits for sums over several namespaces.
    most: dict[str, int] = field(default_factory=dict)
    room: dict[str, int] = field(default_factory=dict)
    together: dict[tuple[str, ...], int] = field(default_factory=dict)
    # Whether a pod that is pinned to a node counts there before it is bound.
    pinned: bool = True
    resource: str = GPU
    broken: list[str] = field(default_factory=list)
    events: int = 0
    _pods: dict[str, Obj] = field(default_factory=dict)
    _seen: set[tuple[str, str]] = field(default_factory=set)  # UIDs with their resource versions

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[Self]:
        listed = await self.client.list(PODS)
        for pod in listed.items:
            self._pods[pod["metadata"]["uid"]] = pod
        self._seen |= _versions(listed.items).items()
        async with background(self._watch(listed.resource_version)):
            yield self
            # What is there now, whatever is written meanwhile: a late view of pods that change is never what a list returns.
            written = _versions((await self.client.list(PODS)).items).items()

            async def seen_all() -> bool:
                return self._seen >= written

            await until(seen_all, "all that has been written to be seen")
        assert not self.broken, self.broken[:5]
        assert self.events, "an observer that sees nothing proves nothing"

    async def _watch(self, version: str) -> None:
        async for event in self.client.watch(PODS, resource_version=version, timeout_seconds=3600):
            if event.type == "BOOKMARK":
                continue
            pod = event.object()
            self.events += 1
            self._seen |= _versions([pod]).items()
            if event.type == "DELETED" or _ended(pod):
                self._pods.pop(pod["metadata"]["uid"], None)
            else:
                self._pods[pod["metadata"]["uid"]] = pod
            self._check(f"{event.type} {pod['metadata']['namespace']}/{pod['metadata']['name']}")

    def _check(self, what: str) -> None:
        held = [pod for pod in self._pods.values() if not gated(pod)]
        by_space: Counter[str] = Counter()
        by_node: Counter[str] = Counter()
        for pod in held:
            by_space[pod["metadata"]["namespace"]] += gpus(pod, self.resource)
            pinned = (pod["spec"].get("nodeSelector") or {}).get("kubernetes.io/hostname", "") if self.pinned else ""
            by_node[pod["spec"].get("nodeName") or pinned] += gpus(pod, self.resource)
        for name, most in self.most.items():
            if by_space[name] > most:
                self.broken.append(f"{what}: {name} holds {by_space[name]} of {most}")
        for names_, most in self.together.items():
            if sum(by_space[name] for name in names_) > most:
                self.broken.append(f"{what}: {names_} hold {sum(by_space[name] for name in names_)} of {most}")
        for name, most in self.room.items():
            if by_node[name] > most:
                self.broken.append(f"{what}: {by_node[name]} of {most} on {name}")


def _ended(pod: Obj) -> bool:
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}


def _versions(pods: Iterable[Obj]) -> dict[str, str]:
    """Resource versions of the pods that have not ended."""
    return {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in pods if not _ended(pod)}


class Killed(Exception):  # noqa: N818 -- reads as what happened
    """The process is gone."""


class Mortal(Client):
    """A client of a process that dies at one of its writes: right before it takes effect, or right after.

    The writes that follow it are never sent. They end after it: one that ended first would cancel it with its whole group, on a
    connection that has still to be made before it was sent.
    """

    def __init__(self, config: KubeConfig, *, user_agent: str, field_manager: str) -> None:
        super().__init__(config, user_agent=user_agent, field_manager=field_manager)
        self.dies_at = 0
        self.after = True
        self.writes = 0
        self._dead = asyncio.Event()

    async def _write(self, *args: Any, **kwargs: Any) -> Obj:
        found: Obj = await self._mortally(super()._write(*args, **kwargs))
        return found

    async def delete(self, *args: Any, **kwargs: Any) -> Obj | None:
        found: Obj | None = await self._mortally(super().delete(*args, **kwargs))
        return found

    async def _mortally(self, call: Any) -> Any:
        if self.dies_at and self.writes >= self.dies_at:
            call.close()
            await self._dead.wait()
            raise Killed
        self.writes += 1
        if self.writes != self.dies_at:
            return await call
        try:
            if self.after:
                with contextlib.suppress(KubeError):
                    await call
            else:
                call.close()
        finally:
            self._dead.set()
        raise Killed


async def lived(
    host: LedgerHost, dies_at: int, done: Callable[[], Awaitable[bool]], *, after: bool, board: Board | None = None
) -> bool:
    """Lead until all is done or the process dies. Returns whether it died."""
    async with Mortal(host.client.config, user_agent="mortal", field_manager="mortal") as client:
        client.dies_at, client.after = dies_at, after
        leader = asyncio.create_task(Ledger(client, leads, board=board).run())
        watching = asyncio.create_task(until(done, "all is done", 120))
        await asyncio.wait({leader, watching}, return_when=asyncio.FIRST_COMPLETED)
        died = leader.done()
        for task in (leader, watching):
            task.cancel()
        await asyncio.wait({leader, watching})
        if died:
            assert leader.exception() is not None
            assert leader.exception().subgroup(lambda error: not isinstance(error, Killed | BaseExceptionGroup)) is None  # type: ignore[union-attr]
        else:
            watching.result()
        return died
