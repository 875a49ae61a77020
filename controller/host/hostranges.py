"""The host's own part of the address space, kept up to date: ranges of Services, pods and nodes, and its API server.

Also servers that trust the host's nodes (`controller.host.servers`), and the names of its default StorageClasses. Every replica
watches, as it does for the tenants' objects. Of a node only its addresses are kept, and of a volume only its servers. Nodes
change every few seconds; tenants are reconciled again only if something of this has appeared or disappeared.

The last address of the API server counts until there is another one: a restarting API server removes its address for a moment,
and policies that are rendered without it would cut the syncers off.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from bulkhead.api.storageclass import is_default
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_with
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Meta
from bulkhead.work.clock import SystemClock
from controller.host import servers
from controller.host.matters import watching
from controller.host.recount import Recount
from controller.plane.addresses import (
    API,
    NODES,
    PODS,
    RECEIVERS,
    SERVICES,
    SLICES,
    STORAGE,
    Reserved,
    contains,
    network,
)

_RECOUNT_PAUSE_SECONDS: Final = 1.0
_CACHE_BYTES: Final = 32 * 1024 * 1024


class _Address(msgspec.Struct, gc=False):
    type: Any = None
    address: Any = None


class _Status(msgspec.Struct, gc=False):
    addresses: list[_Address] | None = None


class _Spec(msgspec.Struct, gc=False):
    one: Any = msgspec.field(default=None, name="podCIDR")
    all: list[Any] | None = msgspec.field(default=None, name="podCIDRs")


class _Node(msgspec.Struct, gc=False):
    """The decoded part of a node."""

    spec: _Spec | None = None
    status: _Status | None = None


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The record of a node."""

    pods: tuple[str, ...]
    addresses: tuple[str, ...]


_node: Final = msgspec.json.Decoder(_Node)
_record: Final = msgspec.json.Decoder(Record)


def of_node(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """A node's record."""
    meta = meta or decode_meta(raw)
    node = decode_with(_node, raw)
    spec, status = node.spec or _Spec(), node.status or _Status()
    pods = {str(cidr) for cidr in (spec.one, *(spec.all or ())) if cidr}
    addresses = {str(address.address) for address in status.addresses or () if address.type in {"InternalIP", "ExternalIP"}}
    bare = Meta(name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version)
    return bare, msgspec.json.encode(Record(tuple(sorted(pods)), tuple(sorted(addresses))))


class HostRanges:
    """The informers, and the function to call after a change."""

    def __init__(
        self,
        client: Client,
        on_change: Callable[[], object] = lambda: None,
        known: Iterable[Reserved] = (),
        named: Iterable[str] = (),
    ) -> None:
        """`named`: servers whose addresses are in `known`, as names, or as ends of names that begin with a dot."""
        self._on_change = on_change
        self._known = tuple(known)
        self._named = tuple(named)
        self._recount = Recount("host ranges", SystemClock(), pause=_RECOUNT_PAUSE_SECONDS)
        self._reported: object = None
        self._listening: frozenset[tuple[str, int]] = frozenset()
        heard = self._recount.changed
        self._services = Informer(client, kinds.SERVICE_CIDRS, on_change=heard)
        self._nodes = Informer(client, kinds.NODES, shrink=of_node, on_change=heard, max_bytes=_CACHE_BYTES)
        self._api = Informer(
            client,
            kinds.ENDPOINT_SLICES,
            namespace="default",
            label_selector="kubernetes.io/service-name=kubernetes",
            on_change=self._moved,
        )
        self._storage = (
            watching(client, kinds.PERSISTENT_VOLUMES, servers.of_volume, self._served, max_bytes=_CACHE_BYTES),
            watching(client, kinds.STORAGE_CLASSES, servers.of_storage_class, self._served),
            # Neither kind exists until Bulkhead's CRDs are in place.
            watching(client, kinds.SHARED_VOLUMES, servers.of_shared_volume, self._served, optional=True),
        )
        self._defaults = watching(client, kinds.STORAGE_CLASSES, is_default, self._recount.changed)
        self._classes = watching(client, kinds.TENANT_CLASSES, servers.of_tenant_class, self._served, optional=True)
        # Cached: each reconcile of each tenant needs all of them, and a host may have very many volumes.
        self._beside: tuple[Reserved, ...] | None = None
        self._informers = (self._services, self._nodes, self._api, *self._storage, self._defaults, self._classes)

    async def run(self) -> None:
        """Keep every informer running until cancelled."""
        self._reported = None
        await self._recount.run(self._informers, self._turn)

    async def synced(self) -> None:
        """Wait until every kind has been listed once."""
        for informer in self._informers:
            await informer.synced()

    def api(self) -> tuple[tuple[str, int], ...]:
        """The real addresses and ports of the host's API server: network policies see addresses after translation."""
        return tuple(sorted(self._listening))

    def default_storage_classes(self) -> tuple[str, ...]:
        """The names of the host's default StorageClasses."""
        store = self._defaults.store
        return tuple(sorted(key.name for key in store.keys() if store.body(key)))  # noqa: SIM118 -- a store, not a dict

    def reserved(self) -> tuple[Reserved, ...]:
        """The configured and the observed ranges, each once and in order."""
        # The tenants' own slices come and go inside their range.
        slices = [range_.cidr for range_ in self._known if range_.what == SLICES]
        return (*self._known, *sorted({range_ for range_ in self._seen() if not contains(range_.cidr, slices)}))

    def _seen(self) -> Iterator[Reserved]:
        for obj in self._services.store.objects():
            yield from _ranges((obj.get("spec") or {}).get("cidrs") or (), SERVICES)
        for body in self._nodes.store.bodies():
            node = _record.decode(body)
            yield from _ranges(node.pods, PODS)
            yield from _ranges(node.addresses, NODES)
        yield from _ranges((address for address, _ in self.api()), API)
        if self._beside is None:
            self._beside = tuple(self._servers())
        yield from self._beside

    def _servers(self) -> Iterator[Reserved]:
        """Servers with known addresses, and the names of those whose addresses are unknown."""
        found = servers.kept_in(body for informer in self._storage for body in informer.store.bodies())
        yield from _ranges(found, STORAGE)
        yield from (Reserved(server, STORAGE) for server in found if network(server) is None and not self._answered(server))
        yield from _ranges(servers.kept_in(self._classes.store.bodies()), RECEIVERS)

    def _answered(self, name: str) -> bool:
        return any(name == known or (known.startswith(".") and name.endswith(known)) for known in self._named)

    def _served(self, _: str) -> None:
        self._beside = None
        self._recount.changed()

    def _moved(self, change: Change) -> None:
        found: set[tuple[str, int]] = set()
        for obj in self._api.store.objects():
            ports = [int(port["port"]) for port in obj.get("ports") or [] if port.get("port")]
            for endpoint in obj.get("endpoints") or []:
                found |= {(address, port) for address in endpoint.get("addresses") or [] for port in ports}
        self._listening = frozenset(found) or self._listening
        self._recount.changed(change)

    async def _turn(self) -> None:
        found = (self.api(), self.reserved(), self.default_storage_classes())
        before, self._reported = self._reported, found
        if before is not None and before != found:
            self._on_change()


def _ranges(texts: Iterable[Any], what: str) -> Iterator[Reserved]:
    for text in texts:
        found = network(str(text))
        if found is not None:
            yield Reserved(str(found), what)
