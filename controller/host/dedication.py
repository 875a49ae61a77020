"""Keeps the marks of dedicated nodes on the host up to date; only while leading. `dedicated` decides what they should be.

    Tenants, TenantClasses ──> claims ─┐
    nodes ──> labels, taints, room ────┼──> allotment ──> pods of others on nodes that must become empty ──> marks, a batch
    the marks themselves ──────────────┘                                            └──> findings ──> tenants' statuses

Everything is computed again after each change (`recount`). So a node is released if its tenant is gone or no longer claims it,
whichever controller led when that happened, and marks that anything else has written are corrected.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import msgspec

from bulkhead.api.moments import moment_of
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mappings
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_with
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key, Meta
from bulkhead.kube.store import Store
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock, SystemClock
from controller import metrics
from controller.cohorts import cohort_of
from controller.decide import dedicated
from controller.decide.admit import admit
from controller.decide.case import Admitted, Case
from controller.decide.dedicated import Claim, Finding, HostNode, Mark
from controller.host.matters import asked, watching
from controller.host.recount import Recount
from controller.refusal import Refusal
from controller.sections import section_of
from controller.settings import Settings

_log = logging.getLogger(__name__)

# Longer than a scheduler that has not yet seen a new taint takes to bind its pod; only then are the node's pods listed.
_RECOUNT_PAUSE_SECONDS: Final = 1.0
_LOOK_AGAIN_SECONDS: Final = 5.0
# A tenant's pause ends without an event.
_LONGEST_PAUSE_SECONDS: Final = 30.0
_MAX_WRITES_A_RECOUNT: Final = 50
_MAX_NODES_A_LOOK: Final = 20
_MIB: Final = 1024 * 1024


class _Spec(msgspec.Struct, gc=False):
    taints: Any = None


class _Status(msgspec.Struct, gc=False):
    allocatable: Any = None


class _Node(msgspec.Struct, gc=False):
    """The decoded part of a node."""

    spec: _Spec | None = None
    status: _Status | None = None


_node: Final = msgspec.json.Decoder(_Node)


def of_node(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """A node's name, labels, taints and capacity."""
    meta = meta or decode_meta(raw)
    kept = Meta(name=meta.name, uid=meta.uid, resource_version=meta.resource_version, labels=meta.labels)
    found = decode_with(_node, raw)
    taints = found.spec.taints if found.spec else None
    allocatable = found.status.allocatable if found.status else None
    return kept, msgspec.json.encode({"taints": taints or [], "allocatable": allocatable or {}})


def of_tenant(tenant: Obj) -> Obj:
    """The part of a Tenant that its claim is computed from; of its status only that it was built, and with which version."""
    meta, status = tenant["metadata"], section_of(tenant, "status")
    fields = ("name", "uid", "generation", "creationTimestamp", "deletionTimestamp")
    reported = {"class": {"name": section_of(status, "class").get("name")}} if status.get("class") else {}
    return {
        "metadata": {field: meta.get(field) for field in fields},
        "spec": tenant.get("spec"),
        "status": reported | {"versions": {"kubernetes": section_of(status, "versions").get("kubernetes")}},
    }


@dataclass(frozen=True, slots=True)
class Offers:
    """The other objects on the host that claims depend on, by name."""

    tenant_class: Callable[[str], Obj | None]
    cohort: Callable[[str], Obj | None]
    accepted: Callable[[Obj], Obj | None]  # a Tenant with its last accepted spec, if it now requests something else


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a tenant claims, and what it claims instead if that is refused."""

    claim: Claim | None
    edited: bool = False
    before: Claim | None = None


@dataclass(frozen=True, slots=True)
class _Judged:
    """A tenant's claim, and its inputs: while these are unchanged, the claim is not computed again."""

    tenant: bytes | None
    # The classes and Cohorts of the present and of the last accepted spec, with their content.
    seen: tuple[tuple[Store, Key, bytes | None], ...]
    accepted: Obj | None
    pause_ends: datetime | None
    paused: bool
    claimed: Claimed
    looked: tuple[str, int]

    def holds(self, tenant: bytes | None, accepted: Obj | None, now: datetime) -> bool:
        """Whether the claim would be the same now; a pause ends without an event."""
        paused = self.paused if self.pause_ends is None else now < self.pause_ends
        same = all(store.body(key) == body for store, key, body in self.seen)
        return same and (self.tenant, self.accepted, self.paused) == (tenant, accepted, paused)


def claimed(tenant: Obj, offers: Offers, settings: Settings, now: datetime) -> Claimed:
    """A tenant's claim; if its present spec is refused, the claim of the last accepted one."""
    before = offers.accepted(tenant)
    claim, held = _claim(tenant, offers, settings, now, accepted=section_of(before or {}, "spec"))
    if before is None:
        return Claimed(claim)
    earlier, _ = _claim(before, offers, settings, now)
    return Claimed(earlier) if held else Claimed(claim, edited=True, before=earlier)


def _claim(
    tenant: Obj, offers: Offers, settings: Settings, now: datetime, *, accepted: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Claim | None, bool]:
    """The claim of a Tenant, and whether the Tenant is held to its class."""
    spec = section_of(tenant, "spec")
    tenant_class, cohort = offers.tenant_class(str(spec.get("class") or "")), offers.cohort(cohort_of(spec))
    runs = bool(section_of(section_of(tenant, "status"), "class"))
    admission = admit(Case(tenant, tenant_class, settings, now, runs=runs, cohort=cohort, accepted=accepted))
    claim = claim_of(tenant, tenant_class, admission)
    return claim, isinstance(admission, Admitted) and admission.held is not None


def claim_of(tenant: Obj, tenant_class: Obj | None, admission: Admitted | Refusal) -> Claim | None:
    """A tenant's claim; None if it may be built and requests no nodes of its own."""
    meta = tenant["metadata"]
    name, since = str(meta["name"]), str(meta.get("creationTimestamp") or "")
    if meta.get("deletionTimestamp") or isinstance(admission, Refusal):
        return Claim(name, since, active=False)
    if not admission.claims_nodes:
        return None if admission.held is None else Claim(name, since, active=False)
    plane = admission.plane
    most = section_of(section_of(tenant_class or {}, "spec"), "nodes").get("maxDedicated")
    return Claim(
        name,
        since,
        selector=dict(plane.nodes.selector),
        most=int(most) if most is not None else None,
        gpu_resources=plane.quota.gpu_resources,
    )


class Dedication:
    """Watches, allots and marks nodes."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        on_tenant: Callable[[str], object],
        clock: Clock | None = None,
        *,
        accepted: Callable[[Obj], Obj | None] = lambda _: None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._on_tenant = on_tenant
        self._accepted = accepted
        self._clock = clock or SystemClock()
        self._backoff = Backoff(1.0, 30.0)
        self._recount = Recount("dedication", self._clock, pause=_RECOUNT_PAUSE_SECONDS)
        self._store: Store | None = None
        self._known: dict[str, Any] = {}
        self._judged: dict[str, _Judged] = {}
        self._found: Mapping[str, Finding] = {}
        self._refused: Mapping[str, Finding] = {}
        # Claims whose pods have chosen a node that is to be emptied, by UID, and since when they are known.
        self._chosen: Mapping[str, float] = {}
        # The UID and the generation of each tenant in the findings.
        self._looked: Mapping[str, tuple[str, int]] = {}

    def finding(self, tenant: Obj, *, accepted: bool = False) -> Finding | None:
        """The finding for a tenant with its present or its last accepted spec; None before that was looked at."""
        meta = tenant["metadata"]
        uid, generation = self._looked.get(str(meta["name"]), ("", 0))
        if uid != meta.get("uid") or generation < int(meta.get("generation") or 0):
            return None
        name = str(meta["name"])
        return self._found.get(name) if accepted else self._refused.get(name, self._found.get(name))

    async def run(self) -> None:
        """Keep the marks up to date until cancelled."""
        self._found, self._refused, self._looked = {}, {}, {}
        client, heard, self._judged = self._client, self._recount.changed, {}
        nodes = Informer(client, kinds.NODES, shrink=of_node, on_change=self._heard_node, max_bytes=64 * _MIB)
        self._store, self._known = nodes.store, {}
        tenants = watching(client, kinds.TENANTS, of_tenant, heard)
        classes = watching(client, kinds.TENANT_CLASSES, asked, heard, max_bytes=32 * _MIB)
        # The kind does not exist until the CRDs of an upgrade are in place.
        cohorts = watching(client, kinds.COHORTS, asked, heard, max_bytes=4 * _MIB, optional=True)
        informers = (tenants, classes, cohorts)
        await self._recount.run((nodes, *informers), lambda: self._turn(nodes, *(informer.store for informer in informers)))

    def _heard_node(self, change: Change) -> None:
        """Nodes report every few minutes that they live; only a change of what matters here starts a turn."""
        before = self._known.pop(change.key.name, None)
        body = None if change.kind == "deleted" or self._store is None else self._store.get(change.key)
        if body is not None:
            self._known[change.key.name] = (change.meta.labels, section_of(body, "allocatable"), body.get("taints"))
        if self._known.get(change.key.name) != before:
            self._recount.changed()

    async def _turn(self, nodes: Informer, tenants: Store, classes: Store, cohorts: Store) -> float:
        """One pass over everything, with its writes; returns the seconds until the next one at the latest."""
        seen = [_host_node(meta, nodes.store.get(meta.key)) for meta in nodes.store.metas()]
        judged = self._claims(tenants, classes, cohorts)
        looked = {name: judgement.looked for name, judgement in judged.items()}
        before = {name: judgement.claimed.before for name, judgement in judged.items() if judgement.claimed.edited}
        wanted = [judgement.claimed.claim for judgement in judged.values() if judgement.claimed.claim is not None]
        claims, allotted, refused = dedicated.settled(seen, wanted, before)
        waiting = dedicated.to_be_emptied(seen, allotted)
        running = await self._running(waiting[:_MAX_NODES_A_LOOK])
        wrong = dedicated.marks(seen, allotted, running)
        failed = 0
        for mark in wrong[:_MAX_WRITES_A_RECOUNT]:
            failed += not await self._write(mark)
        edits = {name: Finding(refusing=refusal) for name, refusal in refused.items()}
        self._publish(dedicated.findings(seen, claims, allotted, running), edits, looked)
        if failed:
            return self._backoff.next()
        self._backoff.reset()
        if len(wrong) > _MAX_WRITES_A_RECOUNT:
            return _RECOUNT_PAUSE_SECONDS
        return _LOOK_AGAIN_SECONDS if waiting else _LONGEST_PAUSE_SECONDS

    def _claims(self, tenants: Store, classes: Store, cohorts: Store) -> dict[str, _Judged]:
        """Every tenant's claim; one is computed again only after a change of its inputs."""
        now, before, self._judged = self._clock.now(), self._judged, {}
        for key in tenants.keys():  # noqa: SIM118 - a store, not a dict
            accepted, judged = self._accepted(tenants.get(key) or {}), before.get(key.name)
            if judged is None or not judged.holds(tenants.body(key), accepted, now):
                judged = self._judge(tenants.body(key), accepted, classes, cohorts, now)
            self._judged[key.name] = judged
        return self._judged

    def _judge(self, body: bytes | None, accepted: Obj | None, classes: Store, cohorts: Store, now: datetime) -> _Judged:
        tenant: Obj = msgspec.json.decode(body or b"{}")
        seen: dict[tuple[Store, Key], bytes | None] = {}

        def looked_up(store: Store, name: str) -> Obj | None:
            seen[store, Key("", name)] = store.body(Key("", name))
            return store.get(Key("", name))

        meta, until = section_of(tenant, "metadata"), section_of(tenant, "spec").get("pausedUntil")
        looked = (str(meta.get("uid") or ""), int(meta.get("generation") or 0))
        offers = Offers(partial(looked_up, classes), partial(looked_up, cohorts), lambda _: accepted)
        try:
            found = claimed(tenant, offers, self._settings, now)
        except Exception:  # noqa: BLE001 -- logged with its trace; one Tenant may not stop the dedication of nodes to the others
            # Without a claim its nodes would be given back; this one keeps what it has, and nothing is reported of it.
            name, looked = str(meta.get("name")), ("", 0)
            _log.exception("a claim of nodes cannot be computed", extra={"tenant": name})
            found = Claimed(Claim(name, str(meta.get("creationTimestamp") or ""), active=False))
        ends = moment_of(until)
        return _Judged(
            tenant=body,
            seen=tuple((store, key, body) for (store, key), body in seen.items()),
            accepted=accepted,
            pause_ends=ends,
            paused=bool(until) and (ends is None or now < ends),
            claimed=found,
            looked=looked,
        )

    def _publish(
        self, found: Mapping[str, Finding], refused: Mapping[str, Finding], looked: Mapping[str, tuple[str, int]]
    ) -> None:
        before, earlier, self._found, self._looked = self._found, self._looked, found, looked
        edits, self._refused = self._refused, refused
        for tenant in found.keys() | before.keys() | refused.keys() | edits.keys():
            # After an edit of the Tenant the same finding must be reported again: a reconcile in between found it outdated.
            same = found.get(tenant) == before.get(tenant) and refused.get(tenant) == edits.get(tenant)
            if not same or looked.get(tenant) != earlier.get(tenant):
                self._on_tenant(tenant)

    async def _running(self, waiting: Collection[tuple[str, str]]) -> dict[str, dict[str, int]]:
        """How many pods of which other tenants run on nodes with their owners, or will; without nodes where that is unknown."""
        if not waiting:
            self._chosen = {}
            return {}
        running: dict[str, dict[str, int]] = {}
        try:
            claims = (await self._client.list_metadata(kinds.PERSISTENT_VOLUME_CLAIMS, label_selector=dedicated.KEY)).items
            coming = dedicated.coming(claims, self._chosen, self._clock.monotonic())
            self._chosen = coming.since
            for name, owner in waiting:
                running[name] = await self._others(name, owner) + coming.to(name, owner)
        except KubeError as error:
            _log.warning("cannot see whether nodes are empty: %s", error)
        return running

    async def _others(self, node: str, owner: str) -> Counter[str]:
        fields = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
        selector = f"{dedicated.KEY},{dedicated.KEY}!={owner}"
        listed = await self._client.list_metadata(kinds.PODS, label_selector=selector, field_selector=fields)
        return Counter(pod["metadata"]["labels"][dedicated.KEY] for pod in listed.items)

    async def _write(self, mark: Mark) -> bool:
        name = mark.node.name
        try:
            await self._client.patch(kinds.NODES, name, mark.patch())
        except NotFound:
            return True
        except KubeError as error:
            metrics.dedicated_nodes.labels("failed").inc()
            _log.warning("cannot mark dedicated node: %s", error, extra={"node": name})
            return False
        metrics.dedicated_nodes.labels("ok").inc()
        _log.info("marked node", extra={"node": name, "tenant": mark.taint or "", "alone": mark.label is not None})
        return True


def _host_node(meta: Meta, body: Obj | None) -> HostNode:
    found = body or {}
    taints = tuple(dict(taint) for taint in mappings(found.get("taints")))
    return HostNode(meta.name, meta.resource_version, meta.labels or {}, taints, section_of(found, "allocatable"))
