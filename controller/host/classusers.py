"""Writes into each TenantClass's status which Tenants use it, for people and for its policy; only while leading.

    Tenants ──────> the class that each names, or was built from ─┬──> differences ──> status, a batch at a time
    TenantClasses ──> their present status ───────────────────────┘

The count is repeated after each change of these (`matters`), at most once a second (`recount`). The policy itself asks the
Tenants whether a class may be deleted, so an outdated status only shortens the policy's message.
"""

import logging
from collections.abc import Iterable
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion
from bulkhead.api.tenantclass.status import MOST_SHOWN
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.store import Store
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock, SystemClock
from controller.host.matters import watching
from controller.host.recount import Recount

_log = logging.getLogger(__name__)
_RECOUNT_PAUSE_SECONDS: Final = 1.0
_MAX_WRITES_A_RECOUNT: Final = 50
_MIB: Final = 1024 * 1024


def of_tenant(tenant: Obj) -> Obj:
    """The classes that a Tenant uses: the one that it names, and the one that it was built from."""
    named, built = mapping(tenant.get("spec")).get("class"), mapping(mapping(tenant.get("status")).get("class")).get("name")
    return {"uses": [] if is_pending_deletion(tenant) else sorted({str(name) for name in (named, built) if name})}


def of_class(tenant_class: Obj) -> Obj:
    """A class's status."""
    return {"status": tenant_class.get("status") or {}}


def statuses(uses: Iterable[tuple[str, Iterable[str]]]) -> dict[str, Obj]:
    """The status of every class that is used; `uses` are the Tenants, each with its classes."""
    users: dict[str, list[str]] = {}
    for tenant, classes in uses:
        for name in classes:
            users.setdefault(name, []).append(tenant)
    return {name: {"tenants": len(found), "tenantNames": sorted(found)[:MOST_SHOWN]} for name, found in users.items()}


# `None` deletes a field in a merge patch. A class without users has no status before its first user.
_NOBODY: Final[Obj] = {"tenants": 0, "tenantNames": None}


class ClassUsers:
    """Watches Tenants and classes, counts and writes."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self._client = client
        self._backoff = Backoff(1.0, 30.0)
        self._recount = Recount("class users", clock or SystemClock(), pause=_RECOUNT_PAUSE_SECONDS)

    async def run(self) -> None:
        """Keep the statuses up to date until cancelled."""
        heard = self._recount.changed
        tenants = watching(self._client, kinds.TENANTS, of_tenant, heard, max_bytes=16 * _MIB)
        classes = watching(self._client, kinds.TENANT_CLASSES, of_class, heard, max_bytes=16 * _MIB)
        await self._recount.run((tenants, classes), lambda: self._turn(tenants.store, classes.store))

    async def _turn(self, tenants: Store, classes: Store) -> float | None:
        wanted = statuses((meta.name, mapping(tenants.get(meta.key)).get("uses") or ()) for meta in tenants.metas())
        wrong: list[tuple[str, Obj]] = []
        for meta in classes.metas():
            there = mapping(mapping(classes.get(meta.key)).get("status"))
            status = wanted.get(meta.name, _NOBODY)
            if (int(there.get("tenants") or 0), there.get("tenantNames")) != (status["tenants"], status["tenantNames"]):
                wrong.append((meta.name, status))
        failed = 0
        for name, status in wrong[:_MAX_WRITES_A_RECOUNT]:
            failed += not await self._write(name, status)
        if failed:
            return self._backoff.next()
        self._backoff.reset()
        return _RECOUNT_PAUSE_SECONDS if len(wrong) > _MAX_WRITES_A_RECOUNT else None

    async def _write(self, name: str, status: Obj) -> bool:
        try:
            await self._client.patch(kinds.TENANT_CLASSES, name, {"status": status}, subresource="status")
        except NotFound:
            # The class was deleted, which the informer reports soon; or its CRD is still that of an older version.
            return False
        except KubeError as error:
            _log.warning("cannot write the users of a class: %s", error, extra={"class": name})
            return False
        return True
