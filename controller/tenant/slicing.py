"""Gives each tenant its slice of the service range once, and finds it again in the ServiceCIDR object on the host.

Slices are allocated one at a time: two tenants that arrive together must not get the same slice, so choosing and claiming
happen under one lock, on lists read from the API server. If the host has meanwhile given a needed address of the slice to
another Service, the controller releases the slice and takes another one, as long as no plane was built on it.
"""

import asyncio
import logging
from collections.abc import Container, Iterable

from bulkhead.api import labels, names
from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from controller.decide import slices
from controller.decide.remnant import abandoned, missing
from controller.plane.spec import PLANE
from controller.refusal import Refusal
from controller.settings import Settings
from controller.tenant.observe import Observed
from controller.tenant.remnants import end, leave

_log = logging.getLogger(__name__)
_NEEDED = (1, 10, 11, 12)


class Slicer:
    """Allocates slices."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._lock = asyncio.Lock()

    async def slice_of(self, observed: Observed, wished: str = "") -> str | Refusal:
        """The tenant's slice: the one it has, or a new one; the wished one if it is free."""
        name = names.plane_namespace(observed.name)
        there = observed.get(kinds.SERVICE_CIDRS, name)
        built = observed.get(kinds.STATEFUL_SETS, PLANE, name) is not None
        if there is not None and built:
            return cidr_of(there)
        async with self._lock:
            return await self._claim(observed, name, wished)

    async def _claim(self, observed: Observed, name: str, wished: str) -> str | Refusal:
        listed = (await self._client.list(kinds.SERVICE_CIDRS)).items
        for remnant in abandoned(listed):
            await end(self._client, remnant)
        addresses = (await self._client.list(kinds.IP_ADDRESSES)).items
        own = next((service_cidr for service_cidr in listed if service_cidr["metadata"]["name"] == name), None)
        if own is not None and (own["metadata"].get("labels") or {}).get(labels.TENANT) != observed.name:
            return Refusal(Reason.NAMESPACE_TAKEN, f"ServiceCIDR {name} exists and is not this tenant's")
        if own is not None:
            clash = slices.clash(cidr_of(own), _NEEDED, _used_by_others(addresses, _namespaces(observed.name)))
            if clash is None:
                return cidr_of(own)
            _log.warning("slice given back", extra={"tenant": observed.name, "slice": cidr_of(own), "address": clash})
            await self._give_back(observed, own)
            # The host keeps the slice for those Services, and with it the name that the next slice has.
            for remnant in missing([own], listed, addresses):
                await leave(self._client, remnant)
            return Refusal(Reason.PROVISIONING, f"address {clash} was given to another Service; choosing another slice")
        wished = str((observed.tenant.get("status") or {}).get("serviceSlice") or wished)
        chosen = slices.allocate(
            self._settings.service_range,
            self._settings.slice_prefix,
            taken=[cidr for service_cidr in listed for cidr in service_cidr["spec"].get("cidrs") or []],
            used=_used_by_others(addresses, _inhabited(observed)),
            wished=wished or None,
        )
        if chosen is None:
            whole, size = self._settings.service_range, self._settings.slice_prefix
            way_out = "set a larger services.range in the chart, or delete tenants"
            return Refusal(Reason.ADDRESSES_EXHAUSTED, f"the service range {whole} has no free /{size}; {way_out}")
        try:
            await self._client.create(kinds.SERVICE_CIDRS, _cidr_object(observed.name, name, chosen))
        except AlreadyExists:
            return Refusal(Reason.PROVISIONING, f"ServiceCIDR {name} is being created")
        _log.info("slice given", extra={"tenant": observed.name, "slice": chosen})
        return chosen

    async def _give_back(self, observed: Observed, own: Obj) -> None:
        """Services keep their address for life, so they are deleted with the slice; the next reconcile recreates them."""
        for service in observed.in_plane(kinds.SERVICES).values():
            meta = service["metadata"]
            await self._client.delete(kinds.SERVICES, meta["name"], meta["namespace"], uid=meta["uid"])
        await self._client.delete(kinds.SERVICE_CIDRS, own["metadata"]["name"], uid=own["metadata"]["uid"])


def _namespaces(tenant: str) -> set[str]:
    return {names.plane_namespace(tenant), names.work_namespace(tenant)}


def _inhabited(observed: Observed) -> set[str]:
    """The tenant's namespaces that contain Services of it.

    If a Service was deleted together with the slice, its IPAddress stays until the host's next repair, minutes later. It names
    the namespace of a deleted tenant of the same name, and counts as taken like any other address.
    """
    return _namespaces(observed.name) if observed.in_plane(kinds.SERVICES) else set()


def _used_by_others(addresses: Iterable[Obj], own: Container[str]) -> list[str]:
    """Addresses of Services outside these namespaces."""
    parents = ((address, (address.get("spec") or {}).get("parentRef") or {}) for address in addresses)
    return [str(address["metadata"]["name"]) for address, parent in parents if parent.get("namespace") not in own]


def cidr_of(service_cidr: Obj) -> str:
    """The network of a tenant's ServiceCIDR object."""
    return str(service_cidr["spec"]["cidrs"][0])


def _cidr_object(tenant: str, name: str, chosen: str) -> Obj:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": name, "labels": labels.made_for(tenant)},
        "spec": {"cidrs": [chosen]},
    }
