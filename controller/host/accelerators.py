"""Notes on each host node how many accelerators the pods of the host hold there, whoever's they are; only while leading.

Syncers may not see pods of others, so they read this note and subtract. The whole truth is counted anew from what is watched
whenever something changed, a second later at the soonest; only notes that say something else are written. So a controller
that dies, a second one that still thinks it leads, and an outside hand leave nothing that the next count does not put right.

    pods (bound, not ended) ──> node and requests, a record ─┐
    TenantClasses ──> union of their GPU resources ──────────┼──> sums ──> differences ──> annotation, a batch at a time
    nodes ──> the annotation as it is ───────────────────────┘

Of a pod nothing is kept but its record, and nothing at all where it asks for no vendor's resource.
"""

import asyncio
import logging
from typing import Any, Final

import msgspec

from bulkhead.api import accelerators, labels
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_with
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Meta
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock, SystemClock
from controller import metrics

_log = logging.getLogger(__name__)

RUNNING: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_PAUSE: Final = 1.0
_BATCH: Final = 100
_MIB: Final = 1024 * 1024


class _Container(msgspec.Struct, gc=False):
    resources: Any = None
    restart_policy: Any = msgspec.field(default=None, name="restartPolicy")


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    node_name: Any = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: Any = None


class _Phase(msgspec.Struct, gc=False):
    phase: Any = None


class _Pod(msgspec.Struct, gc=False):
    """What of a pod is decoded at all."""

    spec: _Spec | None = None
    status: _Phase | None = None


_pod: Final = msgspec.json.Decoder(_Pod)


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is kept of a pod: where it is, and what it holds of every vendor's resource."""

    node: str
    held: dict[str, int]


_record: Final = msgspec.json.Decoder(Record)


def of_pod(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """A pod's record; nothing where it holds nothing that is counted."""
    meta = _bare(raw, meta)
    pod = msgspec.to_builtins(decode_with(_pod, raw))
    node, held = accelerators.holds(pod, accelerators.extended(pod))
    return meta, msgspec.json.encode(Record(node, held)) if held else b""


def of_node(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """A node's name and note."""
    noted = (meta or decode_meta(raw)).annotation(accelerators.HELD)
    bare = _bare(raw, meta)
    return (bare if noted is None else msgspec.structs.replace(bare, annotations={accelerators.HELD: noted})), b"{}"


def _bare(raw: bytes | msgspec.Raw, meta: Meta | None) -> Meta:
    meta = meta or decode_meta(raw)
    return Meta(name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version)


class Accelerators:
    """Watches, counts and notes."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._backoff = Backoff(1.0, 30.0)
        self._news = asyncio.Event()
        heard = self._heard
        self._pods = Informer(client, kinds.PODS, field_selector=RUNNING, shrink=of_pod, on_change=heard, max_bytes=128 * _MIB)
        self._nodes = Informer(client, kinds.NODES, metadata_only=True, shrink=of_node, on_change=heard, max_bytes=32 * _MIB)
        self._classes = Informer(client, kinds.TENANT_CLASSES, on_change=heard, max_bytes=32 * _MIB)

    async def run(self) -> None:
        """Keep the notes right until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in (self._pods, self._nodes, self._classes):
                group.create_task(informer.run(), name=f"accelerators: {informer.resource}")
            group.create_task(self._note(), name="accelerators: notes")

    def _heard(self, change: Change) -> None:
        del change
        self._news.set()

    async def _note(self) -> None:
        # A count of a part would take notes away that are right.
        for informer in (self._pods, self._nodes, self._classes):
            await informer.synced()
        while True:
            self._news.clear()
            wrong = self._wrong()
            failed = 0
            for name, text in wrong[:_BATCH]:
                failed += not await self._write(name, text)
            if failed:
                await self._clock.sleep(self._backoff.next())
                continue
            self._backoff.reset()
            if len(wrong) <= _BATCH:
                await self._news.wait()
            await self._clock.sleep(_PAUSE)

    def _wrong(self) -> list[tuple[str, str | None]]:
        """The nodes whose note says something else than the pods do, and what it should say."""
        counted = self._resources()
        records = [_record.decode(entry) for entry in self._pods.store.bodies()]
        held = accelerators.by_node(
            (each.node, {resource: number for resource, number in each.held.items() if resource in counted}) for each in records
        )
        metrics.accelerator_pods.set(len(records))
        wanted = {meta.name: accelerators.text(held.get(meta.name, {})) for meta in self._nodes.store.metas()}
        noted = {meta.name: meta.annotation(accelerators.HELD) for meta in self._nodes.store.metas()}
        return [(name, text) for name, text in sorted(wanted.items()) if noted[name] != text]

    def _resources(self) -> frozenset[str]:
        """What any class counts as a GPU."""
        found: set[str] = set()
        for each in self._classes.store.objects():
            spec = mapping(each.get("spec"))
            named = spec.get("gpuResources")
            found |= {name for name in named if isinstance(name, str)} if isinstance(named, list) else {labels.GPU}
        return frozenset(found)

    async def _write(self, node: str, text: str | None) -> bool:
        body = {"metadata": {"annotations": {accelerators.HELD: text}}}
        try:
            await self._client.patch(kinds.NODES, node, body)
        except NotFound:
            return True
        except KubeError as error:
            metrics.accelerator_notes.labels("failed").inc()
            _log.warning("held accelerators not noted: %s", error, extra={"node": node})
            return False
        metrics.accelerator_notes.labels("ok").inc()
        _log.debug("held accelerators noted: %s", text, extra={"node": node})
        return True
