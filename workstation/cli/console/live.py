"""A host as the console follows it: watches of what `top` lists, and a picture at most twice a second.

    watches of tenants and quotas ──> the first picture: tenants and bars, as the ledger noted them
    watches of nodes and pods ──> values ──> Observed ──> picture ──> board         (a slow picture comes less often)
                                               └──> the ledger's decision, beside ──> places in the queue, and forecasts
    a small read every few seconds ──> whether the host answers
    the leading controller's metrics, every ten minutes ──> certificates that end

Nodes and pods of a large host are hundreds of megabytes: they are read once the first picture is there, which says so. The
whole picture does not wait for a decision either: until then the queue has what the ledger wrote on the pods. Nothing is
written to the host. What this user may not read is named in the picture. `times` on the board are the seconds since the start,
and the process's CPU seconds, of the first picture and of the first whole one.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from sys import intern
from typing import Any, Final

from bulkhead.api import labels, ledger
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.ledger import given, read
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import GATED, Decisions, Line, Node, Pod, PodVerdict, Snapshot, Standing, Tenant, Why
from bulkhead.ledger.slices import mapped_of, offered, slice_of
from workstation.cli.console.alarms import Closed, closed_of
from workstation.cli.console.certificates import Ends, read_ends
from workstation.cli.console.drawing import Observed, picture_of
from workstation.cli.console.probing import probe
from workstation.cli.console.watched import Watched
from workstation.cli.output import plain
from workstation.cli.quotas import hostview
from workstation.cli.quotas.hostview import View
from workstation.cli.quotas.summary import noted_standings
from workstation.console.board import Board
from workstation.console.picture import MAX_NODES_AT_ONCE, Picture, as_json, count_nodes, node_json, rack_of
from workstation.console.server import QuestionError

_PICTURE_SECONDS: Final = 0.5
_DECISION_SECONDS: Final = 2.0
# While nodes and pods are being read, the picture says this often how many there are.
_READING_SECONDS: Final = 2.0
_CERTIFICATES_SECONDS: Final = 600.0
_CERTIFICATES_AGAIN_SECONDS: Final = 60.0
# The part of the time in which pictures or decisions may be computed.
_SHARE: Final = 4
_UNJUDGED: Final = PodVerdict(Why.QUEUE, "the ledger has not judged it yet")


@dataclass(frozen=True, slots=True)
class _Noted:
    """A pod, and why it waits as the ledger wrote it."""

    pod: Pod
    verdict: PodVerdict | None


class Live:
    """The host, followed until `run` is cancelled."""

    def __init__(self, client: Client, source: str, board: Board) -> None:
        self._client = client
        self._source = source
        self._board = board
        self._dirty = asyncio.Event()
        self._decisions = Decisions()
        self._undecided = asyncio.Event()
        self._ends = Ends()
        self._times: dict[str, float] = {}
        self.picture: Picture | None = None
        self.first = asyncio.Event()

        def watched(r: Any, take: Any, **more: Any) -> Watched[Any]:
            return Watched(client, r, take, self._dirty.set, **more)

        self._tenants = watched(kinds.TENANTS, _whole, needed=True)
        self._cohorts = watched(kinds.COHORTS, _rules, optional=True)
        self._quotas = watched(kinds.RESOURCE_QUOTAS, _quota, field_selector=hostview.QUOTAS)
        self._lines = watched(kinds.RESOURCE_QUOTAS, hostview.lines_of_quota, field_selector=hostview.OBJECT_QUOTAS)
        self._nodes = watched(kinds.NODES, _node, needed=True)
        self._pods = watched(kinds.PODS, _pod, field_selector=hostview.ALIVE, needed=True)
        self._controllers = watched(kinds.DEPLOYMENTS, _whole, label_selector=labels.CONTROLLER)
        self._classes = watched(kinds.DEVICE_CLASSES, mapped_of, optional=True)
        self._slices = watched(kinds.RESOURCE_SLICES, slice_of, optional=True)
        self._claims = watched(kinds.RESOURCE_CLAIMS, read.bare_claim, label_selector=labels.MIRRORED, optional=True)
        self._small = {
            "tenants": self._tenants,
            "the rules of cohorts": self._cohorts,
            "quotas": self._quotas,
            "quotas of claims": self._lines,
            "whether the controller runs": self._controllers,
        }
        self._large = {
            "nodes": self._nodes,
            "pods": self._pods,
            "device classes": self._classes,
            "devices of nodes": self._slices,
            "claims for devices": self._claims,
        }
        self._all = self._small | self._large

    async def run(self) -> None:
        """Follow the host until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for watched in self._small.values():
                tasks.create_task(watched.run())
            tasks.create_task(self._draw())
            tasks.create_task(self._decide())
            tasks.create_task(probe(self._client, kinds.TENANTS, None, self._board, self._all.values()))
            await self.first.wait()
            for watched in self._large.values():
                tasks.create_task(watched.run())
            tasks.create_task(self._look_at_certificates())

    def read(self) -> tuple[int, int]:
        """How many kinds were read, of how many that the first picture needs; for the progress of the start."""
        return sum(watched.answered.is_set() for watched in self._small.values()), len(self._small)

    def _reading(self) -> str:
        """The kinds that are not read yet, with their numbers so far; empty if all are."""
        if all(watched.answered.is_set() for watched in self._large.values()):
            return ""
        left = [(name, watched) for name, watched in self._large.items() if not watched.answered.is_set()]
        return ", ".join(
            f"{name} ({plain(watched.informer.last_error)})" if watched.informer.last_error
            else f"{name} ({watched.count} so far)" if watched.count else name
            for name, watched in left
        )  # fmt: skip

    @property
    def controllers(self) -> tuple[Obj, ...] | None:
        """The Deployments of the controller; None if they cannot be read."""
        return None if self._controllers.missing else tuple(self._controllers.values())

    def observed(self) -> Observed:
        """The host as it is known now."""
        reading = self._reading()
        if reading:
            return self._observed_so_far(reading)
        noted: list[_Noted] = self._pods.values()
        nodes: list[tuple[Node, Closed | None]] = self._nodes.values()
        lines = dict(self._lines.values())
        tenants = {quota.name: hostview.with_devices(quota, lines.get(quota.name, {})) for quota, _ in self._quotas.values()}
        rooms = tuple(node for node, _ in nodes)
        if classes := self._classes.values():
            rooms = offered(rooms, classes, self._slices.values())
        claims = (read.claim_of(bare, tenants) for bare in self._claims.values())
        snapshot = Snapshot(
            tenants,
            rooms,
            read.without_ending(tuple(item.pod for item in noted), hostview.ending(self._tenants.values())),
            dict(self._cohorts.values()),
            claims=tuple(claim for claim in claims if claim is not None),
        )
        closed = {node.name: why for node, why in nodes if why is not None}
        return replace(self._bare(snapshot), closed=closed)

    def _observed_so_far(self, reading: str) -> Observed:
        """Tenants and quotas, without what depends on nodes and pods."""
        quotas: list[tuple[Tenant, dict[Line, Standing]]] = self._quotas.values()
        snapshot = Snapshot({tenant.name: tenant for tenant, _ in quotas}, (), (), dict(self._cohorts.values()))
        return replace(self._bare(snapshot), reading=reading, noted={tenant.name: standings for tenant, standings in quotas})

    def _bare(self, snapshot: Snapshot) -> Observed:
        unread = [f"{name}: {plain(watched.missing)}" for name, watched in self._all.items() if watched.missing]
        if self._ends.missing:
            unread.append(f"when certificates end: {plain(self._ends.missing)}")
        return Observed(
            View(snapshot, time.time(), {str(item["metadata"]["name"]): item for item in self._tenants.values()}),
            self._source,
            self.controllers,
            unread=tuple(unread),
            ends=self._ends.tenants,
        )

    async def nodes(self, parameters: Mapping[str, str]) -> Any:
        """The nodes of one rack."""
        rack = self.picture and rack_of(self.picture, parameters.get("resource", ""), parameters.get("rack", ""))
        if not rack:
            raise QuestionError("this rack has gone")
        return [node_json(node) for node in rack.nodes]

    async def _draw(self) -> None:
        begun = time.monotonic()
        for watched in self._small.values():
            await watched.answered.wait()
        self._dirty.set()
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            started = time.monotonic()
            seen = self.observed()
            picture = await asyncio.to_thread(picture_of, seen, self._judged() if not seen.reading else Decisions())
            if self.picture is None or replace(picture, at=self.picture.at) != self.picture:
                self._board.put("picture", as_json(picture, nodes=count_nodes(picture) <= MAX_NODES_AT_ONCE))
            self.picture = picture
            self._time(begun, "first" if seen.reading else "whole")
            self.first.set()
            if seen.reading:
                await self._until_read(_READING_SECONDS)
                self._dirty.set()
                continue
            self._undecided.set()
            await asyncio.sleep(max(_PICTURE_SECONDS, _SHARE * (time.monotonic() - started)))

    async def _until_read(self, seconds: float) -> None:
        """Wait until nodes, pods and the rest are read, but no longer than that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for watched in self._large.values():
                    await watched.answered.wait()

    def _time(self, begun: float, what: str) -> None:
        if what not in self._times:
            self._times |= {what: time.monotonic() - begun, f"{what}Cpu": time.process_time()}
            self._board.put("times", self._times)

    async def _look_at_certificates(self) -> None:
        while True:
            ends = await read_ends(self._client)
            if ends != self._ends:
                self._ends = ends
                self._dirty.set()
            await asyncio.sleep(_CERTIFICATES_AGAIN_SECONDS if ends.missing else _CERTIFICATES_SECONDS)

    def _judged(self) -> Decisions:
        """What the queue shows: the newest decision, and for younger pods what the ledger wrote, the oldest first."""
        decided = self._decisions.verdicts
        waiting = (item for item in self._pods.values() if item.pod.stage in GATED and item.pod.tenant)
        others = sorted((item for item in waiting if item.pod.uid not in decided), key=lambda item: item.pod.created)
        verdicts = {**decided, **{item.pod.uid: item.verdict or _UNJUDGED for item in others}}
        return replace(self._decisions, verdicts=verdicts)

    async def _decide(self) -> None:
        while True:
            await self._undecided.wait()
            self._undecided.clear()
            started = time.monotonic()
            seen = self.observed().view
            decisions = await asyncio.to_thread(decide, seen.snapshot, seen.now)
            if decisions.verdicts != self._decisions.verdicts:
                self._decisions = decisions
                self._dirty.set()
            await asyncio.sleep(max(_DECISION_SECONDS, _SHARE * (time.monotonic() - started)))


def _whole(obj: Obj) -> Obj:
    obj["metadata"].pop("managedFields", None)
    return obj


def _quota(quota: Obj) -> tuple[Tenant, dict[Line, Standing]] | None:
    tenant = hostview.tenant_of_quota(quota)
    return None if tenant is None else (tenant, noted_standings(quota, tenant))


def _rules(cohort: Obj) -> tuple[str, Any]:
    return str(cohort["metadata"]["name"]), given.rules_of(cohort)


def _node(obj: Obj) -> tuple[Node, Closed | None]:
    node = read.node_of(obj)
    # Most labels of a node are those of all others.
    shared = {intern(key): intern(value) for key, value in node.labels.items()}
    return replace(node, labels=shared, allocatable={intern(key): room for key, room in node.allocatable.items()}), closed_of(
        obj
    )


def _pod(obj: Obj) -> _Noted | None:
    pod = read.pod_of(obj)
    if pod is None:
        return None
    verdict = None
    if pod.stage in GATED and (written := ledger.read_verdict(mapping(mapping(obj.get("metadata")).get("annotations")))):
        reason, message = written[0], written[1]
        verdict = PodVerdict(Why(reason) if reason in set(Why) else Why.QUEUE, message)
    asks = {intern(name): amount for name, amount in pod.asks.items()}
    return _Noted(
        replace(
            pod, asks=asks, virtual_uid="", namespace=intern(pod.namespace), tenant=intern(pod.tenant), node=intern(pod.node)
        ),
        verdict,
    )
