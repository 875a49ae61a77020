"""Annotates each host node with the number of accelerators that all pods of the host hold on it; only while leading.

Syncers may not see pods of other tenants, so they read this annotation and subtract. The count is repeated after each change,
at most once a second (`recount`), and written where it differs.

    pods (bound, not ended) ──> node and requests, a record ─┐
    TenantClasses ──> union of their GPU resources ──────────┼──> sums ──> differences ──> annotation, a batch at a time
    nodes ──> the annotation as it is ───────────────────────┘

Only a record is kept of each pod, and none if the pod requests no resource of a vendor.
"""

import logging
from typing import Any, Final

import msgspec

from bulkhead.api import accelerators, labels
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_with
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.informer import Informer
from bulkhead.kube.objects import Meta
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock, SystemClock
from controller import metrics
from controller.host.recount import Recount

_log = logging.getLogger(__name__)

RUNNING: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_RECOUNT_PAUSE_SECONDS: Final = 1.0
_MAX_WRITES_A_RECOUNT: Final = 100
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
    """The decoded part of a pod."""

    spec: _Spec | None = None
    status: _Phase | None = None


_pod: Final = msgspec.json.Decoder(_Pod)


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The record of a pod: its node, and what it holds of each vendor's resources."""

    node: str
    held: dict[str, int]


_record: Final = msgspec.json.Decoder(Record)


def of_pod(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """A pod's record; empty if the pod holds nothing that is counted."""
    meta = _bare(raw, meta)
    pod = msgspec.to_builtins(decode_with(_pod, raw))
    node, held = accelerators.holds(pod, accelerators.extended(pod))
    return meta, msgspec.json.encode(Record(node, held)) if held else b""


def of_node(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """A node's name and annotation."""
    noted = (meta or decode_meta(raw)).annotation(accelerators.HELD)
    bare = _bare(raw, meta)
    return (bare if noted is None else msgspec.structs.replace(bare, annotations={accelerators.HELD: noted})), b"{}"


def _bare(raw: bytes | msgspec.Raw, meta: Meta | None) -> Meta:
    meta = meta or decode_meta(raw)
    return Meta(name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version)


class Accelerators:
    """Watches pods and nodes, counts and annotates."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._backoff = Backoff(1.0, 30.0)
        self._recount = Recount("accelerators", self._clock, pause=_RECOUNT_PAUSE_SECONDS)
        heard = self._recount.changed
        self._pods = Informer(client, kinds.PODS, field_selector=RUNNING, shrink=of_pod, on_change=heard, max_bytes=128 * _MIB)
        self._nodes = Informer(client, kinds.NODES, metadata_only=True, shrink=of_node, on_change=heard, max_bytes=32 * _MIB)
        self._classes = Informer(client, kinds.TENANT_CLASSES, on_change=heard, max_bytes=32 * _MIB)

    async def run(self) -> None:
        """Keep the annotations up to date until cancelled."""
        await self._recount.run((self._pods, self._nodes, self._classes), self._turn)

    async def _turn(self) -> float | None:
        wrong = self._wrong()
        failed = 0
        for name, text in wrong[:_MAX_WRITES_A_RECOUNT]:
            failed += not await self._write(name, text)
        if failed:
            # Pods change all the time: such a change must not repeat a request at once that the host has just refused.
            await self._clock.sleep(self._backoff.next())
            return 0
        self._backoff.reset()
        return 0 if len(wrong) > _MAX_WRITES_A_RECOUNT else None

    def _wrong(self) -> list[tuple[str, str | None]]:
        """The nodes whose annotation differs from the count, with the annotation that they should have."""
        counted = self._resources()
        records = [_record.decode(entry) for entry in self._pods.store.bodies()]
        held = accelerators.by_node(
            (record.node, {resource: number for resource, number in record.held.items() if resource in counted})
            for record in records
        )
        metrics.accelerator_pods.set(len(records))
        wanted = {meta.name: accelerators.text(held.get(meta.name, {})) for meta in self._nodes.store.metas()}
        noted = {meta.name: meta.annotation(accelerators.HELD) for meta in self._nodes.store.metas()}
        return [(name, text) for name, text in sorted(wanted.items()) if noted[name] != text]

    def _resources(self) -> frozenset[str]:
        """The resources that any class counts as a GPU."""
        found: set[str] = set()
        for obj in self._classes.store.objects():
            spec = mapping(obj.get("spec"))
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
            _log.warning("cannot annotate held accelerators: %s", error, extra={"node": node})
            return False
        metrics.accelerator_notes.labels("ok").inc()
        _log.debug("annotated held accelerators: %s", text, extra={"node": node})
        return True
