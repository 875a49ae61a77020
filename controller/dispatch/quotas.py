"""Keeps decoded nodes, quotas of tenants and rules of cohorts. Each object is decoded once for each change.

    Node ──> model.Node      tenant-quota ──> Quota: model.Tenant, and its present standing
    Cohort ──> Cohort: model.Rules, and its present status

A node changes every few minutes with its heartbeat, and a quota with each pod. Only fields that matter to a decision count as a
change.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import msgspec

from bulkhead.api import ledger, names
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube.codec import decode_meta, decode_obj
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta
from bulkhead.ledger.given import rules_of, tenant_of
from bulkhead.ledger.model import Rules, Tenant

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Quota:
    """ResourceQuota `tenant-quota` of a tenant."""

    namespace: str
    tenant: Tenant
    standing: str
    queue: str = ""


def quota_of(obj: Obj) -> Quota | None:
    """A tenant's quota; None if the namespace does not belong to that tenant."""
    tenant = tenant_of(obj)
    meta: Any = mapping(obj.get("metadata"))
    namespace = str(meta.get("namespace") or "")
    if tenant is None or names.tenant_of_work(namespace) != tenant.name:
        return None
    noted = mapping(meta.get("annotations"))
    return Quota(namespace, tenant, *(str(noted.get(name) or "") for name in (ledger.STANDING, ledger.QUEUE)))


def notes_of(quota: Quota) -> list[str]:
    """The annotations of the ledger that a quota has: they hold only while turns are taken."""
    present = {
        ledger.STANDING: bool(quota.standing),
        ledger.QUEUE: bool(quota.queue),
        ledger.OVER_SINCE: bool(quota.tenant.over_since),
    }
    return [name for name, there in present.items() if there]


@dataclass(frozen=True, slots=True)
class Cohort:
    """The rules of a cohort, and its last status."""

    rules: Rules
    generation: int
    status: Obj


def cohort_of(obj: Obj) -> Cohort:
    """A Cohort."""
    generation = mapping(obj.get("metadata")).get("generation")
    status = obj.get("status")
    return Cohort(rules_of(obj), generation if type(generation) is int else 0, dict(status) if isinstance(status, dict) else {})


def without_status(cohort: Cohort) -> Cohort:
    """The part of a cohort on which decisions depend."""
    return replace(cohort, status={})


def without_standing(quota: Quota) -> Quota:
    """The part of a quota on which decisions depend."""
    return replace(quota, standing="", queue="")


class Kept(Generic[T]):
    """Decoded objects of one kind, filled by one informer through its `shrink` and `on_change`."""

    def __init__(
        self, decode: Callable[[Obj], T | None], changed: Callable[[], None], matters: Callable[[T], object] = lambda kept: kept
    ) -> None:
        self._decode = decode
        self._changed = changed
        self._matters = matters
        self._kept: dict[Key, T] = {}
        # The object that `shrink` decoded last: the informer calls `heard` right after, if at all.
        self._next: T | None = None

    def shrink(self, raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
        """Decode an object for the informer, which itself keeps only the name."""
        found = meta or decode_meta(raw)
        self._next = self._decode(decode_obj(raw))
        bare = Meta(name=found.name, namespace=found.namespace, uid=found.uid, resource_version=found.resource_version)
        return bare, b"" if self._next is None else b"{}"

    def heard(self, change: Change) -> None:
        """Take a change from the informer."""
        before = self._kept.pop(change.key, None)
        after = None if change.kind == "deleted" else self._next
        if after is not None:
            self._kept[change.key] = after
        if self._weighed(before) != self._weighed(after):
            self._changed()

    def all(self) -> list[T]:
        """All objects."""
        return list(self._kept.values())

    def by_name(self) -> dict[str, T]:
        """All objects of a cluster-scoped kind, by name."""
        return {key.name: kept for key, kept in self._kept.items()}

    def _weighed(self, kept: T | None) -> object:
        return None if kept is None else self._matters(kept)
