"""Watches the objects that decisions depend on: pods that have not ended, nodes and their devices, tenants' quotas, cohorts.

    Need: a Tenant in a cohort, a class with gangs, a pod with the gate ──> Observed: informers, and Cohorts ──> Snapshot

On a host without any of these, the leader watches three small kinds and no pods. A standby watches nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from bulkhead.api import labels, ledger, names
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion
from bulkhead.api.untrusted import mapping, mappings
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_obj, decode_with
from bulkhead.kube.informer import Informer
from bulkhead.kube.objects import Meta, Resource
from bulkhead.ledger import read
from bulkhead.ledger.model import Node, Pod, Rules, Snapshot
from bulkhead.ledger.slices import Mapped, Slice, mapped_of, offered, slice_of
from bulkhead.work.clock import Clock
from controller.dispatch.avoid import Avoided
from controller.dispatch.keeps import Keeps
from controller.dispatch.moves import Moves
from controller.dispatch.quotas import Cohort, Kept, Quota, cohort_of, notes_of, quota_of, without_standing, without_status
from controller.dispatch.seen import Pods
from controller.dispatch.workers import Workers
from controller.slurm.board import Board

ALIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"
_QUOTAS: Final = f"metadata.name={names.POD_QUOTA}"
_MIB: Final = 1024 * 1024


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    scheduling_gates: Any = None


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec | None = None


_pod: Final = msgspec.json.Decoder(_Pod)


@dataclass(frozen=True, slots=True)
class _Declared:
    """A Tenant that matters to the ledger."""

    in_cohort: bool
    ending: bool


class Need:
    """Whether any tenant needs the ledger, and which tenants are being deleted."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._client = client
        self._tell, self._told = changed, False
        self._declared: Kept[_Declared] = Kept(_declared, self._heard)
        self._tenants = Informer(client, kinds.TENANTS, shrink=self._declared.shrink, on_change=self._declared.heard)
        self._classes = Informer(client, kinds.TENANT_CLASSES, shrink=_only(_with_gangs), on_change=lambda _: self._heard())
        # A Cohort without tenants needs no ledger, but its status must say that it has none.
        self.cohorts: Kept[Cohort] = Kept(cohort_of, changed, without_status)
        self._cohorts = _kept(client, kinds.COHORTS, self.cohorts, 16, optional=True)

    @property
    def informers(self) -> tuple[Informer, ...]:
        """The informers that must run while this object is in use."""
        return self._tenants, self._classes, self._cohorts

    def is_declared(self) -> bool:
        """Whether a Tenant or a class needs the ledger."""
        return bool(len(self._classes.store)) or any(declared.in_cohort for declared in self._declared.all())

    def ending(self) -> frozenset[str]:
        """The tenants whose Tenant is pending deletion."""
        return frozenset(name for name, declared in self._declared.by_name().items() if declared.ending)

    def _heard(self) -> None:
        """Report only when the first object that needs the ledger appears, or the last one goes: others change all the time."""
        before, self._told = self._told, self.is_declared()
        if self._told != before:
            self._tell()

    async def any_left(self) -> bool:
        """Whether a host pod has the gate, or a quota a note that holds only while turns are taken.

        Their tenant was in a cohort before, or it still is by what was applied last: it is held or paused.
        """
        listed = await self._client.list_metadata(kinds.RESOURCE_QUOTAS, field_selector=_QUOTAS)
        quotas = (quota_of(quota) for quota in listed.items)
        if any(quota is not None and notes_of(quota) for quota in quotas):
            return True
        async for page in self._client.pages(kinds.PODS, field_selector=f"spec.nodeName=,{ALIVE}"):
            for raw in page.items:
                spec = decode_with(_pod, raw).spec
                if spec is not None and any(gate.get("name") == ledger.GATE for gate in mappings(spec.scheduling_gates)):
                    return True
        return False


class Observed:
    """The parts of the host on which decisions depend."""

    def __init__(self, client: Client, clock: Clock, changed: Callable[[], None], board: Board, need: Need) -> None:
        self.pods = Pods(clock.monotonic, changed)
        self.workers = Workers(board, self.pods, clock)
        self._nodes: Kept[Node] = Kept(read.node_of, changed)
        self._quotas: Kept[Quota] = Kept(quota_of, changed, without_standing)
        self._cohorts, self._ending = need.cohorts, need.ending
        self._claims: Kept[Obj] = Kept(read.bare_claim, changed)
        self._classes: Kept[Mapped] = Kept(mapped_of, changed)
        self._slices: Kept[Slice] = Kept(slice_of, changed)
        self.informers = (
            Informer(
                client,
                kinds.PODS,
                field_selector=ALIVE,
                shrink=self.pods.shrink,
                on_change=self.pods.heard,
                max_bytes=256 * _MIB,
            ),
            _kept(client, kinds.NODES, self._nodes, 64),
            _kept(client, kinds.RESOURCE_QUOTAS, self._quotas, 64, field_selector=_QUOTAS),
            _kept(client, kinds.RESOURCE_CLAIMS, self._claims, 64, label_selector=labels.MIRRORED, optional=True),
            _kept(client, kinds.DEVICE_CLASSES, self._classes, 16, optional=True),
            _kept(client, kinds.RESOURCE_SLICES, self._slices, 64, optional=True),
        )

    def nodes(self) -> dict[str, Node]:
        """Every node, by name, with the devices that slices list."""
        return {node.name: node for node in offered(self._nodes.all(), self._classes.all(), self._slices.all())}

    def quotas(self) -> dict[str, Quota]:
        """Every tenant's quota, by tenant."""
        return {quota.tenant.name: quota for quota in self._quotas.all()}

    def cohorts(self) -> dict[str, Cohort]:
        """Each cohort that has an object."""
        return self._cohorts.by_name()

    def rules(self) -> dict[str, Rules]:
        """The rules of each cohort that has any."""
        return {name: cohort.rules for name, cohort in self._cohorts.by_name().items()}

    def snapshot(self, avoided: Avoided, moves: Moves, keeps: Keeps, now: float) -> Snapshot:
        """Everything from which one decision is made."""
        tenants, ending = {name: quota.tenant for name, quota in self.quotas().items()}, self._ending()
        claims = (read.claim_of(claim, tenants) for claim in self._claims.all())
        return Snapshot(
            tenants=tenants,
            nodes=tuple(self.nodes().values()),
            pods=self.workers.valued(read.without_ending(self.pods.all(), ending)),
            rules=self.rules(),
            avoid=avoided.at(now),
            claims=tuple(claim for claim in claims if claim is not None),
            # No successor comes for a moved pod of a tenant that is being deleted, or was.
            moved=tuple(moved for moved in moves.at(now, self._pod) if moved.pod.tenant in tenants.keys() - ending),
            kept_since=keeps.since(),
        )

    def _pod(self, uid: str) -> Pod | None:
        seen = self.pods.get(uid)
        return None if seen is None else seen.pod


def _kept(client: Client, r: Resource, kept: Kept[Any], mebibytes: int, **more: Any) -> Informer:
    """An informer that feeds `kept`, limited to so many mebibytes."""
    return Informer(client, r, shrink=kept.shrink, on_change=kept.heard, max_bytes=mebibytes * _MIB, **more)


def _only(matters: Callable[[Obj], bool]) -> Callable[[bytes | msgspec.Raw, Meta | None], tuple[Meta, bytes]]:
    """A `shrink` that keeps the names of objects that matter, and drops all other objects."""

    def shrink(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
        found = meta or decode_meta(raw)
        bare = Meta(name=found.name, uid=found.uid, resource_version=found.resource_version)
        return bare, b"{}" if matters(decode_obj(raw)) else b""

    return shrink


def _declared(tenant: Obj) -> _Declared | None:
    """A Tenant in a cohort or pending deletion; None for any other, of which there may be many."""
    in_cohort = bool(mapping(mapping(tenant.get("spec")).get("quota")).get("cohort"))
    found = _Declared(in_cohort, is_pending_deletion(tenant))
    return found if found.in_cohort or found.ending else None


def _with_gangs(tenant_class: Obj) -> bool:
    return mapping(mapping(tenant_class.get("spec")).get("scheduling")).get("gangs") is True
