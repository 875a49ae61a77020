"""The informers for all host objects of tenants, one for each kind; they map a change to its tenant.

Secrets are not among them, because the controller may not read Secrets across the host (`secretwatch`).

    label selector ──> informer per kind ──> change ──> tenant's name from the label ──> queue

An object without the label has no owner, so the removal of the label counts as a deletion: the informer reports it, and the
tenant's reconcile applies the object again, with the label.

A quota changes with every pod that its tenant creates. A mere change of its counts causes no reconcile. Its counts of
accelerators, which the tenant's status shows, cause one after a moment, so that a burst of pods is one reconcile; so does the
ledger's standing. Other notes for the tenant cause none. A tenant's record of quota in a cohort bounds what others may borrow,
so a change of that causes a reconcile of each of them.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from bulkhead.api import deviceclaims, labels, names, ownusage
from bulkhead.api.ledger import OVER_SINCE, QUEUE, STANDING
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key, Resource
from bulkhead.kube.store import Entry
from bulkhead.ledger.given import tenant_of
from bulkhead.ledger.model import Line
from bulkhead.ledger.model import Tenant as Member
from controller.decide.accepted import CONFIG_MAP, accepted_before

OWNED = (
    kinds.NAMESPACES,
    kinds.CONFIG_MAPS,
    kinds.SERVICES,
    kinds.SERVICE_ACCOUNTS,
    kinds.STATEFUL_SETS,
    kinds.DEPLOYMENTS,
    kinds.ROLE_BINDINGS,
    kinds.CLUSTER_ROLE_BINDINGS,
    kinds.NETWORK_POLICIES,
    kinds.RESOURCE_QUOTAS,
    kinds.LIMIT_RANGES,
    kinds.POD_DISRUPTION_BUDGETS,
    kinds.SERVICE_CIDRS,
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.PODS,
)
# Hosts serve none or some of these versions.
ROUTES = (kinds.TLS_ROUTES, kinds.TLS_ROUTES_V1ALPHA3, kinds.TLS_ROUTES_V1ALPHA2)
# Mirrored objects also have the tenant's label; they belong to the syncer and would fill the memory.
SELECTOR = f"{labels.MANAGED_BY}={labels.MANAGED_BY_BULKHEAD},{labels.TENANT},!{labels.SYNCED}"
_RECOUNT_DELAY_SECONDS = 1.0
_NOTES = frozenset({STANDING, OVER_SINCE, QUEUE, ownusage.ANNOTATION})


class Owned:
    """The informers of one controller."""

    def __init__(
        self, client: Client, on_tenant: Callable[[str], object], later: Callable[[str, float], object] | None = None
    ) -> None:
        self._on_tenant = on_tenant
        # Enqueues a tenant after so many seconds; of several times the earliest counts.
        self._later = later or (lambda tenant, _: on_tenant(tenant))
        # The last observed state of each quota: its content, and its counts of accelerators.
        self._quotas: dict[Key, tuple[Obj, Obj]] = {}
        # The record of each tenant in a cohort.
        self._given: dict[str, Member] = {}
        self._informers = {
            resource: Informer(
                client,
                resource,
                label_selector=SELECTOR,
                on_change=partial(self._changed, resource),
                indexers={"tenant": _tenant},
                optional=resource in ROUTES,
            )
            for resource in (*OWNED, *ROUTES)
        }

    async def run(self) -> None:
        """Keep every informer running until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run(), name=f"informer {informer.resource}")

    async def synced(self) -> None:
        """Wait until every kind has been listed once."""
        for informer in self._informers.values():
            await informer.synced()

    def of_tenant(self, tenant: str) -> Iterator[tuple[Resource, Obj]]:
        """Every object of a tenant, as last observed."""
        for resource, informer in self._informers.items():
            if not informer.served:  # its store is outdated, and nothing in it can be deleted
                continue
            for key in informer.store.by_index("tenant", tenant):
                obj = informer.store.get(key)
                if obj is not None:
                    yield resource, obj

    def pods_of(self, tenant: str) -> list[Obj]:
        """The pods of a tenant's plane, as last observed."""
        return [obj for resource, obj in self.of_tenant(tenant) if resource is kinds.PODS]

    def get(self, resource: Resource, key: Key) -> Obj | None:
        """One object, as last observed."""
        return self._informers[resource].store.get(key)

    def accepted(self, tenant: Obj) -> Obj | None:
        """A Tenant with its last accepted spec, as last observed; None if that is its present spec, or is unknown."""
        namespace = f"bh-{tenant['metadata']['name']}"
        return accepted_before(tenant, self.get(kinds.CONFIG_MAPS, Key(namespace, CONFIG_MAP)))

    def route_version(self) -> str:
        """The version in which the host serves TLSRoutes; empty if it serves none."""
        return next((resource.version for resource in ROUTES if self._informers[resource].served), "")

    def given(self) -> tuple[Member, ...]:
        """The records of all tenants in cohorts, from their quotas."""
        return tuple(self._given.values())

    def pod_quota(self, tenant: str) -> Obj | None:
        """The quota of a tenant's pods, as last observed."""
        return self.get(kinds.RESOURCE_QUOTAS, Key(names.work_namespace(tenant), names.POD_QUOTA))

    def device_lines(self) -> dict[str, dict[str, Line]]:
        """For each tenant that may have claims for devices: the line in which a device of each class counts."""
        store = self._informers[kinds.RESOURCE_QUOTAS].store
        keys = [meta.key for meta in store.metas() if meta.name == names.OBJECT_QUOTA]
        found = {names.tenant_of_work(key.namespace): deviceclaims.lines_of(store.get(key) or {}) for key in keys}
        return {tenant: lines for tenant, lines in found.items() if tenant and lines}

    def holders(self) -> dict[str, str]:
        """By tenant the UID of its work namespace: tells apart two tenants that have a name one after the other."""
        metas = self._informers[kinds.NAMESPACES].store.metas()
        return {tenant: meta.uid for meta in metas if (tenant := names.tenant_of_work(meta.name))}

    def tenants(self) -> set[str]:
        """The names of all tenants of which any object is left."""
        return {name for informer in self._informers.values() for name in informer.store.index_values("tenant")}

    def _changed(self, resource: Resource, change: Change) -> None:
        tenant = change.meta.label(labels.TENANT)
        if not tenant:
            return
        if resource is not kinds.RESOURCE_QUOTAS:
            self._on_tenant(tenant)
            return
        before, now = self._quotas.pop(change.key, None), self.get(resource, change.key)
        if change.key.name == names.POD_QUOTA:
            self._note(tenant, now if change.kind != "deleted" else None)
        if now is not None and change.kind != "deleted":
            self._quotas[change.key] = seen = _quota(now)
            if before == seen:
                return
            if before is not None and before[0] == seen[0]:
                self._later(tenant, _RECOUNT_DELAY_SECONDS)
                return
        self._on_tenant(tenant)

    def _note(self, tenant: str, quota: Obj | None) -> None:
        """Keep a tenant's record, and enqueue the others of its cohort if it has changed."""
        before, noted = self._given.pop(tenant, None), tenant_of(quota) if quota is not None else None
        now = replace(noted, over_since={}) if noted is not None and noted.cohort else None
        if now is not None:
            self._given[tenant] = now
        if now == before:
            return
        touched = {mate.cohort for mate in (before, now) if mate is not None}
        for mate in self._given.values():
            if mate.cohort in touched and mate.name != tenant:
                self._later(mate.name, _RECOUNT_DELAY_SECONDS)


def _quota(quota: Obj) -> tuple[Obj, Obj]:
    """A quota's content, and its counts of accelerators with the ledger's annotations; its other counts are left out."""
    status = quota.get("status") or {}
    used = status.get("used") or {}
    meta = {key: value for key, value in quota["metadata"].items() if key not in {"resourceVersion", "managedFields"}}
    noted = meta.get("annotations") or {}
    meta["annotations"] = {key: value for key, value in noted.items() if key not in _NOTES}
    what = {"metadata": meta, "spec": quota.get("spec"), "hard": status.get("hard")}
    counted = {name: value for name, value in used.items() if name.startswith("requests.") and "/" in name}
    return what, counted | {STANDING: noted.get(STANDING)}


def _tenant(entry: Entry) -> list[str]:
    value: Any = entry.meta.label(labels.TENANT)
    return [value] if value else []
