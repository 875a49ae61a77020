"""Keeps the marks of dedicated nodes on the host right; only while leading. Which they are to be is decided in `dedicated`.

    Tenants, TenantClasses ──> claims ─┐
    nodes ──> labels, taints, room ────┼──> allotment ──> pods of others on nodes that are to be emptied ──> marks, a batch
    the marks themselves ──────────────┘                                            └──> findings ──> tenants' statuses

All of it is counted again whenever something changed (`recount`). So a node whose tenant is gone, or no longer asks for it, is
given back whichever controller led when that happened, and what an outsider wrote is put right.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from bulkhead.api.untrusted import mappings
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_with
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key, Meta, Obj
from bulkhead.kube.store import Store
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock, SystemClock
from controller import metrics
from controller.decide import dedicated
from controller.decide.admit import admit
from controller.decide.case import Case
from controller.decide.dedicated import Claim, Finding, HostNode, Mark
from controller.host.matters import watching
from controller.host.recount import Recount
from controller.refusal import Refusal
from controller.sections import section_of
from controller.settings import Settings

_log = logging.getLogger(__name__)

# Longer than a scheduler that has not seen a new taint yet takes to bind its pod; only then is it asked what runs there.
_PAUSE: Final = 1.0
_LOOK_AGAIN: Final = 5.0
# A pause of a tenant ends without an event.
_AT_LATEST: Final = 30.0
_BATCH: Final = 50
_LOOKS: Final = 20
_MIB: Final = 1024 * 1024


class _Spec(msgspec.Struct, gc=False):
    taints: Any = None


class _Status(msgspec.Struct, gc=False):
    allocatable: Any = None


class _Node(msgspec.Struct, gc=False):
    """What of a node is decoded at all."""

    spec: _Spec | None = None
    status: _Status | None = None


_node: Final = msgspec.json.Decoder(_Node)


def of_node(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """A node's name, labels, taints and room."""
    meta = meta or decode_meta(raw)
    kept = Meta(name=meta.name, uid=meta.uid, resource_version=meta.resource_version, labels=meta.labels)
    found = decode_with(_node, raw)
    taints = found.spec.taints if found.spec else None
    allocatable = found.status.allocatable if found.status else None
    return kept, msgspec.json.encode({"taints": taints or [], "allocatable": allocatable or {}})


def of_tenant(tenant: Obj) -> Obj:
    """What of a Tenant its claim follows from: not what is reported of it, but that it was built, and with which version."""
    meta, status = tenant["metadata"], section_of(tenant, "status")
    fields = ("name", "uid", "generation", "creationTimestamp", "deletionTimestamp")
    reported = {"class": {"name": section_of(status, "class").get("name")}} if status.get("class") else {}
    return {
        "metadata": {field: meta.get(field) for field in fields},
        "spec": tenant.get("spec"),
        "status": reported | {"versions": {"kubernetes": section_of(status, "versions").get("kubernetes")}},
    }


def of_class(tenant_class: Obj) -> Obj:
    """What of a TenantClass claims follow from."""
    meta = tenant_class["metadata"]
    return {"metadata": {field: meta.get(field) for field in ("name", "uid", "generation")}, "spec": tenant_class.get("spec")}


@dataclass(frozen=True, slots=True)
class _Judged:
    """A tenant's claim, and what it follows from: as long as that is the same, nobody asks again."""

    tenant: bytes | None
    class_key: Key
    tenant_class: bytes | None
    pause_ends: datetime | None
    paused: bool
    claim: Claim | None
    looked: tuple[str, int]

    def holds(self, tenant: bytes | None, tenant_class: bytes | None, now: datetime) -> bool:
        """Whether it would be the same now: a pause ends without an event."""
        paused = self.pause_ends is not None and now < self.pause_ends
        return (self.tenant, self.tenant_class, self.paused) == (tenant, tenant_class, paused)


def claim_of(tenant: Obj, tenant_class: Obj | None, settings: Settings, now: datetime) -> Claim | None:
    """A tenant's claim; None where it may be built and asks for no nodes of its own."""
    meta = tenant["metadata"]
    name, since = str(meta["name"]), str(meta.get("creationTimestamp") or "")
    runs = bool(section_of(section_of(tenant, "status"), "class"))
    admission = admit(Case(tenant, tenant_class, settings, now, runs=runs))
    if meta.get("deletionTimestamp") or isinstance(admission, Refusal):
        return Claim(name, since, active=False)
    if not admission.claims_nodes:
        return None if admission.held is None else Claim(name, since, active=False)
    plane = admission.plane
    most = section_of(section_of(tenant_class or {}, "spec"), "nodes").get("maxDedicated")
    return Claim(
        name,
        since,
        selector=dict(plane.node_selector),
        most=int(most) if most is not None else None,
        gpu_resources=plane.gpu_resources,
    )


class Dedication:
    """Watches, allots and marks."""

    def __init__(
        self, client: Client, settings: Settings, on_tenant: Callable[[str], object], clock: Clock | None = None
    ) -> None:
        self._client = client
        self._settings = settings
        self._on_tenant = on_tenant
        self._clock = clock or SystemClock()
        self._backoff = Backoff(1.0, 30.0)
        self._recount = Recount("dedication", self._clock, pause=_PAUSE)
        self._store: Store | None = None
        self._known: dict[str, Any] = {}
        self._judged: dict[str, _Judged] = {}
        self._found: Mapping[str, Finding] = {}
        # The UID and the generation of each tenant that the findings speak of.
        self._looked: Mapping[str, tuple[str, int]] = {}

    def finding(self, tenant: Obj) -> Finding | None:
        """What was found for a tenant as it is now; None before that was looked at."""
        meta = tenant["metadata"]
        uid, generation = self._looked.get(str(meta["name"]), ("", 0))
        if uid != meta.get("uid") or generation < int(meta.get("generation") or 0):
            return None
        return self._found.get(str(meta["name"]))

    async def run(self) -> None:
        """Keep the marks right until cancelled."""
        self._found, self._looked = {}, {}
        client, self._judged = self._client, {}
        nodes = Informer(client, kinds.NODES, shrink=of_node, on_change=self._heard_node, max_bytes=64 * _MIB)
        self._store, self._known = nodes.store, {}
        tenants = watching(client, kinds.TENANTS, of_tenant, self._heard)
        classes = watching(client, kinds.TENANT_CLASSES, of_class, self._heard, max_bytes=32 * _MIB)
        await self._recount.run((nodes, tenants, classes), lambda: self._turn(nodes, tenants, classes))

    def _heard(self, _: str) -> None:
        """Something that a claim follows from is another."""
        self._recount.changed()

    def _heard_node(self, change: Change) -> None:
        """A node says that it lives every few minutes; only what matters here is news."""
        before = self._known.pop(change.key.name, None)
        body = None if change.kind == "deleted" or self._store is None else self._store.get(change.key)
        if body is not None:
            self._known[change.key.name] = (change.meta.labels, section_of(body, "allocatable"), body.get("taints"))
        if self._known.get(change.key.name) != before:
            self._recount.changed()

    async def _turn(self, nodes: Informer, tenants: Informer, classes: Informer) -> float:
        """One look and the writes that follow from it; returns after how long to look again, at the latest."""
        seen = [_host_node(meta, nodes.store.get(meta.key)) for meta in nodes.store.metas()]
        claims, looked = self._claims(tenants, classes)
        allotted = dedicated.allot(seen, claims)
        waiting = dedicated.to_be_emptied(seen, allotted)
        running: dict[str, dict[str, int]] = {}
        for name, owner in waiting[:_LOOKS]:
            found = await self._others(name, owner)
            if found is not None:
                running[name] = found
        wrong = dedicated.marks(seen, allotted, running)
        failed = 0
        for mark in wrong[:_BATCH]:
            failed += not await self._write(mark)
        self._publish(dedicated.findings(seen, claims, allotted, running), looked)
        if failed:
            return self._backoff.next()
        self._backoff.reset()
        return _PAUSE if len(wrong) > _BATCH else _LOOK_AGAIN if waiting else _AT_LATEST

    def _claims(self, tenants: Informer, classes: Informer) -> tuple[list[Claim], dict[str, tuple[str, int]]]:
        """Every claim; a tenant is judged again only where something that its own follows from is another."""
        now, before, self._judged = self._clock.now(), self._judged, {}
        for key in tenants.store.keys():  # noqa: SIM118 - a store, not a dict
            judged = before.get(key.name)
            if judged is None or not judged.holds(tenants.store.body(key), classes.store.body(judged.class_key), now):
                judged = self._judge(key, tenants, classes, now)
            self._judged[key.name] = judged
        claims = [each.claim for each in self._judged.values() if each.claim is not None]
        return claims, {name: each.looked for name, each in self._judged.items()}

    def _judge(self, key: Key, tenants: Informer, classes: Informer, now: datetime) -> _Judged:
        tenant = tenants.store.get(key) or {}
        meta, spec = section_of(tenant, "metadata"), section_of(tenant, "spec")
        class_key = Key("", str(spec.get("class") or ""))
        until = spec.get("pausedUntil")
        ends = datetime.fromisoformat(str(until)) if until else None
        return _Judged(
            tenant=tenants.store.body(key),
            class_key=class_key,
            tenant_class=classes.store.body(class_key),
            pause_ends=ends,
            paused=ends is not None and now < ends,
            claim=claim_of(tenant, classes.store.get(class_key), self._settings, now),
            looked=(str(meta.get("uid") or ""), int(meta.get("generation") or 0)),
        )

    def _publish(self, found: Mapping[str, Finding], looked: Mapping[str, tuple[str, int]]) -> None:
        before, earlier, self._found, self._looked = self._found, self._looked, found, looked
        for tenant in found.keys() | before.keys():
            # After an edit of the Tenant the same finding is news too: a reconcile in between found it outdated.
            if found.get(tenant) != before.get(tenant) or looked.get(tenant) != earlier.get(tenant):
                self._on_tenant(tenant)

    async def _others(self, node: str, owner: str) -> dict[str, int] | None:
        """How many pods of which other tenants run on a node; None when that is not known."""
        fields = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
        selector = f"{dedicated.KEY},{dedicated.KEY}!={owner}"
        try:
            listed = await self._client.list_metadata(kinds.PODS, label_selector=selector, field_selector=fields)
        except KubeError as error:
            _log.warning("pods not listed: %s", error, extra={"node": node})
            return None
        return Counter(each["metadata"]["labels"][dedicated.KEY] for each in listed.items)

    async def _write(self, mark: Mark) -> bool:
        name = mark.node.name
        try:
            await self._client.patch(kinds.NODES, name, mark.patch())
        except NotFound:
            return True
        except KubeError as error:
            metrics.dedicated_nodes.labels("failed").inc()
            _log.warning("dedicated node not marked: %s", error, extra={"node": name})
            return False
        metrics.dedicated_nodes.labels("ok").inc()
        _log.info("node marked", extra={"node": name, "tenant": mark.taint or "", "alone": mark.label is not None})
        return True


def _host_node(meta: Meta, body: Obj | None) -> HostNode:
    found = body or {}
    taints = tuple(dict(each) for each in mappings(found.get("taints")))
    return HostNode(meta.name, meta.resource_version, meta.labels or {}, taints, section_of(found, "allocatable"))
