"""Writes onto each TenantClass which Tenants use it, for people and for the policy that keeps it there; only while leading.

    Tenants ──────> class that each names, or was built of ─┬──> differences ──> status, a batch at a time
    TenantClasses ──> what stands there ────────────────────┘

Counted again whenever something changed, a second later at the soonest (`recount`). The policy asks the Tenants themselves
whether a class may go, so a status that is late makes its message shorter, and opens nothing.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from bulkhead.api.tenantclass.status import MOST_SHOWN
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_with
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.informer import Informer
from bulkhead.kube.objects import Meta, Obj
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock, SystemClock
from controller.host.recount import Recount
from controller.sections import section_of

_log = logging.getLogger(__name__)
_PAUSE: Final = 1.0
_BATCH: Final = 50
_MIB: Final = 1024 * 1024


class _Tenant(msgspec.Struct, gc=False):
    """What of a Tenant is decoded at all."""

    spec: Any = None
    status: Any = None


class _Class(msgspec.Struct, gc=False):
    """What of a TenantClass is decoded at all."""

    status: Any = None


_tenant: Final = msgspec.json.Decoder(_Tenant)
_class: Final = msgspec.json.Decoder(_Class)


def of_tenant(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """A Tenant's name and the classes that it uses: the one that it names, and the one that it was built of."""
    meta = meta or decode_meta(raw)
    found = decode_with(_tenant, raw)
    named, built = mapping(found.spec).get("class"), mapping(mapping(found.status).get("class")).get("name")
    used = [] if meta.deleting else sorted({str(each) for each in (named, built) if each})
    return _kept(meta), msgspec.json.encode({"uses": used})


def of_class(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """A class's name and status."""
    meta = meta or decode_meta(raw)
    return _kept(meta), msgspec.json.encode({"status": decode_with(_class, raw).status or {}})


def _kept(meta: Meta) -> Meta:
    return Meta(name=meta.name, uid=meta.uid, resource_version=meta.resource_version)


def statuses(uses: Iterable[tuple[str, Iterable[str]]]) -> dict[str, Obj]:
    """The status of every class that is used; `uses` are Tenants, each with its classes."""
    users: dict[str, list[str]] = {}
    for tenant, classes in uses:
        for name in classes:
            users.setdefault(name, []).append(tenant)
    return {name: {"tenants": len(found), "tenantNames": sorted(found)[:MOST_SHOWN]} for name, found in users.items()}


# `None` deletes a field in a merge patch, and a class that nobody uses has no status at all before its first user.
_NOBODY: Final[Obj] = {"tenants": 0, "tenantNames": None}


class ClassUsers:
    """Watches, counts and writes."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self._client = client
        self._backoff = Backoff(1.0, 30.0)
        self._recount = Recount("class users", clock or SystemClock(), pause=_PAUSE)

    async def run(self) -> None:
        """Keep the statuses right until cancelled."""
        heard = self._recount.changed
        tenants = Informer(self._client, kinds.TENANTS, shrink=of_tenant, on_change=heard, max_bytes=16 * _MIB)
        classes = Informer(self._client, kinds.TENANT_CLASSES, shrink=of_class, on_change=heard, max_bytes=16 * _MIB)
        await self._recount.run((tenants, classes), lambda: self._turn(tenants, classes))

    async def _turn(self, tenants: Informer, classes: Informer) -> float | None:
        seen = ((meta.name, section_of({"": tenants.store.get(meta.key)}, "")) for meta in tenants.store.metas())
        wanted = statuses((name, body.get("uses") or ()) for name, body in seen)
        wrong: list[tuple[str, Obj]] = []
        for meta in classes.store.metas():
            there = section_of(section_of({"": classes.store.get(meta.key)}, ""), "status")
            status = wanted.get(meta.name, _NOBODY)
            if (int(there.get("tenants") or 0), there.get("tenantNames")) != (status["tenants"], status["tenantNames"]):
                wrong.append((meta.name, status))
        failed = 0
        for name, status in wrong[:_BATCH]:
            failed += not await self._write(name, status)
        if failed:
            return self._backoff.next()
        self._backoff.reset()
        return _PAUSE if len(wrong) > _BATCH else None

    async def _write(self, name: str, status: Obj) -> bool:
        try:
            await self._client.patch(kinds.TENANT_CLASSES, name, {"status": status}, subresource="status")
        except NotFound:
            # It was deleted, of which the informer tells at once; or its definition is of an older version, for a moment.
            return False
        except KubeError as error:
            _log.warning("users of a class not written: %s", error, extra={"class": name})
            return False
        return True
