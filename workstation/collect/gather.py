"""Reads everything that an archive of one tenant has: side by side, within one deadline, and as far as it answers.

    host: lists of objects, the Tenant ──┐
    host: logs of the plane's containers ├──> Collected: files, and what was not read and why
    host: what the ledger decides now ───┤
    host: the leader's metrics of it ────┤
    plane: /readyz, some metrics ────────┘

A plane that is frozen, or a host that refuses one of the reads, costs one line of the manifest.
"""

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.kube import podlog
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.podlog import Tail
from workstation.collect import redact, sources
from workstation.collect.archive import Collected

_SIDE_BY_SIDE: Final = 6
_READ_SECONDS: Final = 12.0
_LOG_BYTES: Final = 1 << 20  # of one container, and again of its former instance
_READ_BYTES: Final = 4 << 20  # the same, before lines that an archive may not have are left out
_LOG_LINES: Final = 5000
_MOST_PODS: Final = 40
_MOST_OBJECTS: Final = 5000
_METRICS_PORT: Final = 8080
_PATHS: Final = {"plane-api/readyz.txt": "/readyz?verbose", "plane-api/livez.txt": "/livez?verbose"}


class NotReadError(Exception):
    """A source that cannot be had, and why."""


Note = Callable[[str], None]
PlaneClient = Callable[[], Awaitable[Client]]
# What the ledger counts of the tenant and decides now, as JSON.
Decided = Callable[[], Awaitable[Any]]


@dataclass(slots=True)
class Gatherer:
    """One collection. `note` reports progress; `open_plane` makes a client of the tenant's plane, or raises."""

    client: Client
    tenant: str
    note: Note
    open_plane: PlaneClient
    decided: Decided
    collected: Collected = field(default_factory=Collected)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_SIDE_BY_SIDE))
    _left: int = 0

    async def run(self, seconds: float) -> Collected:
        """Read all sources; what the deadline cuts off is named. Raises nothing for a source that fails."""
        reads: list[tuple[str, Awaitable[None]]] = [
            ("host/tenant.json", self._tenant()),
            ("host/versions.json", self._versions()),
            ("plane-api", self._plane()),
            ("logs", self._logs()),
            ("ledger.json", self._ledger()),
            ("controller-metrics.txt", self._figures()),
            *((item.path, self._list(item)) for item in sources.listed(self.tenant)),
        ]
        self._left = len(reads)
        tasks = {asyncio.create_task(self._guarded(path, read)): path for path, read in reads}
        try:
            _, late = await asyncio.wait(tasks, timeout=seconds)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in late:
            self.collected.failures.setdefault(tasks[task], f"not read within {seconds:g} s")
        return self.collected

    async def _guarded(self, path: str, read: Awaitable[None]) -> None:
        try:
            await read
        except (KubeError, NotReadError, TimeoutError, OSError, ValueError) as error:
            self.collected.failures[path] = redact.line(str(error) or type(error).__name__)[:500]
        self._left -= 1
        self.note(f"{len(self.collected.files)} files read, {self._left} sources left")

    async def _turn(self, read: Awaitable[Any]) -> Any:
        async with self._turns, asyncio.timeout(_READ_SECONDS):
            return await read

    async def _tenant(self) -> None:
        self.collected.add_json(
            "host/tenant.json", redact.tenant(await self._turn(self.client.get(kinds.TENANTS, self.tenant)))
        )

    async def _ledger(self) -> None:
        """It reads nodes and pods of the whole host, which may take as long as all the rest."""
        self.collected.add_json("ledger.json", await self.decided())

    async def _versions(self) -> None:
        self.collected.add_json("host/versions.json", await self._turn(self.client.version()))

    async def _list(self, item: sources.Listed) -> None:
        found = await self._turn(self.client.list(item.resource, item.namespace, field_selector=item.field_selector))
        if len(found.items) > _MOST_OBJECTS:
            self.collected.failures[item.path] = f"only the first {_MOST_OBJECTS} of {len(found.items)} objects"
        self.collected.add_json(item.path, [item.redacted(obj) for obj in found.items[:_MOST_OBJECTS]])

    async def _logs(self) -> None:
        """The logs of the plane's containers, and of the controller where they name the tenant."""
        plane = names.plane_namespace(self.tenant)
        pods = (await self._turn(self.client.list(kinds.PODS, plane))).items
        wanted: list[tuple[str, Obj, str | None]] = [(f"logs/{plane}", pod, None) for pod in pods[:_MOST_PODS]]
        found = (await self._turn(self.client.list(kinds.PODS, label_selector=labels.CONTROLLER))).items
        wanted += [("logs/controller", pod, self.tenant) for pod in found[:_MOST_PODS]]
        reads = [
            self._guarded(f"{folder}/{pod['metadata']['name']}/{container}.log", self._log(folder, pod, container, only))
            for folder, pod, only in wanted
            for container in _containers(pod)
        ]
        self._left += len(reads)
        await asyncio.gather(*reads)

    async def _figures(self) -> None:
        """What the leading controller exports of the tenant, among it the state of its etcd: also while its API is dead."""
        why = "no pod of the controller runs"
        for pod in (await self._turn(self.client.list(kinds.PODS, label_selector=labels.CONTROLLER))).items[:_MOST_PODS]:
            meta = pod["metadata"]
            path = kinds.PODS.path(meta["namespace"], f"{meta['name']}:{_METRICS_PORT}", "proxy/metrics")
            try:
                page = await self._turn(self.client.get_raw(path, timeout=_READ_SECONDS))
            except (KubeError, TimeoutError) as error:
                why = str(error) or "no answer"
                continue
            if found := sources.lines_of_tenant(page, self.tenant).strip():
                self.collected.add("controller-metrics.txt", found + b"\n")
                return
            why = "the controller has reported nothing of the tenant yet"
        raise NotReadError(why)

    async def _log(self, folder: str, pod: Obj, container: str, only: str | None) -> None:
        meta = pod["metadata"]
        restarted = any(
            item.get("name") == container and item.get("restartCount")
            for item in mappings(mapping(pod.get("status")).get("containerStatuses"))
        )
        for suffix, more in (("", {}), (".previous", {"previous": "true"}))[: 2 if restarted else 1]:
            tail: Tail = await self._turn(
                podlog.newest(
                    self.client,
                    (meta["namespace"], meta["name"]),
                    container,
                    lines=_LOG_LINES,
                    most_bytes=_READ_BYTES,
                    query={"timestamps": "true"} | more,
                    timeout=_READ_SECONDS,
                )
            )
            self._keep(f"{folder}/{meta['name']}/{container}{suffix}.log", tail, only)

    def _keep(self, path: str, tail: Tail, only: str | None) -> None:
        """Add what an archive may have of a log, and note what is left out."""
        data, events = sources.platform_lines(tail.data)
        if only is not None:
            data = sources.log_of_tenant(data, only)
        kept = podlog.newest_bytes(data, _LOG_BYTES)
        missing = [f"audit events ({events})"] if events else []
        if tail.is_cut or len(kept) < len(data):
            missing.append(f"lines before its newest {len(list(io.BytesIO(kept)))}")
        if missing:
            self.collected.failures[path] = "; ".join(missing)
        self.collected.add(path, redact.log(kept))

    async def _plane(self) -> None:
        async with await self.open_plane() as plane:
            for path, asked in _PATHS.items():
                self.collected.add(path, redact.log((await self._turn(plane.get_raw(asked)))[:_LOG_BYTES]))
            data = await self._turn(plane.get_raw("/metrics"))
            self.collected.add("plane-api/metrics.txt", sources.metric_lines(data))
            await self._drift(plane)

    async def _drift(self, plane: Client) -> None:
        """Pods of the plane and mirrors on the host that do not match by the virtual pod's UID."""
        own, mirrors = await asyncio.gather(
            self._turn(plane.list_metadata(kinds.PODS)),
            self._turn(
                self.client.list_metadata(kinds.PODS, names.work_namespace(self.tenant), label_selector=labels.MIRRORED)
            ),
        )
        virtual = {text(item["metadata"].get("uid")): item for item in own.items}
        mirrored = {text(mapping(item["metadata"].get("labels")).get(labels.VIRTUAL_UID)): item for item in mirrors.items}
        self.collected.add_json(
            "drift.json",
            {
                "pods": len(virtual),
                "mirrors": len(mirrored),
                "withoutMirror": [_name(virtual[uid]) for uid in sorted(virtual.keys() - mirrored.keys())][:_MOST_OBJECTS],
                "withoutPod": [_name(mirrored[uid]) for uid in sorted(mirrored.keys() - virtual.keys())][:_MOST_OBJECTS],
            },
        )


def _containers(pod: Obj) -> list[str]:
    spec = mapping(pod.get("spec"))
    return [text(item.get("name")) for part in ("initContainers", "containers") for item in mappings(spec.get(part))]


def _name(obj: Obj) -> str:
    return f"{obj['metadata'].get('namespace')}/{obj['metadata'].get('name')}"
