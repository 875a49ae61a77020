"""Which informers there are on both sides, how a change becomes an item in the queue, and whether all are ready.

    virtual: every mirrored kind that the tenant is offered; namespaces*, nodes             (* metadata only)
             where gangs are offered, PodGroups of the coscheduling plugin too
    host:    the same kinds in the work namespace, marked; nodes of the pool; events; quota
    change ──> Item(kind, virtual key) ──> queue, fresh when observed in an event, backfill when found by a list

Kinds that are mirrored on reference are watched as metadata only on both sides, the tenant's without annotations: bodies are
read when a pod needs them, so a tenant's flood of ConfigMaps is not a flood of memory here. `Caches` is the face of all this
and of the view that translation gets; nothing is decided here, and nothing is read or written but by the informers.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, Literal, NamedTuple, Protocol

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import placed_on
from bulkhead.kube.client import Client
from bulkhead.kube.codec import bare, compact
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key, Meta, Resource
from bulkhead.kube.resources import COSCHEDULING_GROUPS, EVENTS, NAMESPACES, NODES, RESOURCE_QUOTAS
from bulkhead.work.queue import Lane
from syncer import metrics
from syncer.settings import Settings
from syncer.translate import origin, tokens
from syncer.translate.kinds import gang, nodemarks, nodeports
from syncer.translate.metadata import Identity
from syncer.translate.registry import KINDS, Translation
from syncer.translate.view import TenantView
from syncer.watch.view import Views
from syncer.work import UNPLACED, Item, Queue

_MIB: Final = 1024 * 1024
# Of most kinds a tenant has few objects, and what it creates more of must not fill the memory.
_FEW: Final = 24
_MANY: Final = 64
# MiB of the virtual side of those kinds of which it has more; those that are mirrored on reference are kept without bodies.
_ROOM: Final[Mapping[str, int]] = {"Pod": 128, "Service": _MANY}
SILENT_SECONDS: Final = 150.0
# API servers keep no watch cache of events and so send no bookmarks for them: their watch may be silent until its end.
_EVENT_SILENCE: Final = 900.0
# What nothing waits for. A tenant of many short pods has more of the host's events than are kept here.
_NEWS: Final = frozenset({"Event"})
# How long a start waits for an API that a side need not serve, and whose definition a tenant may have changed in its plane.
_OPTIONAL_SECONDS: Final = 5.0
_MARKS_DELAY: Final = 1.0

Listener = Callable[[Change], None]


class Subscription(NamedTuple):
    """What is called for every change of one kind on one side."""

    side: Literal["virtual", "host"]
    kind: str
    listener: Listener


class Subscriber(Protocol):
    """A part of the syncer that is called for certain changes."""

    def subscriptions(self) -> Iterable[Subscription]:
        """The changes that it must be called for."""


class Caches:
    """Informers of both sides and what is derived from them."""

    def __init__(self, settings: Settings, virtual: Client, host: Client, queue: Queue) -> None:
        self.settings = settings
        self._plane = virtual
        self._queue = queue
        self.views = Views(settings)
        # What is called for every raw change: (side, kind) -> listeners.
        self.listeners: dict[tuple[str, str], list[Listener]] = {}
        # Called for every key that a change, and not the patrol, put into the queue.
        self.news: Callable[[Item], None] = lambda _item: None
        self._refers: Callable[[str, Key], bool] = lambda _kind, _key: True
        # The mirrored kinds that this tenant may use.
        self.kinds = {
            kind: resource_of(translation) for kind, translation in KINDS.items() if translation.offered(self.views.static)
        }
        self.pool = _pool(settings)
        self.virtual = self._virtual_side(virtual)
        self.host = self._host_side(host)

    def _virtual_side(self, client: Client) -> dict[str, Informer]:
        make = partial(_watched, client)
        own = {"Service": self._service_changed, "NetworkPolicy": self._policy_changed}
        return {
            **{
                kind: make(r, own.get(kind, self._virtual_changed(kind)), lean=_lean(kind), mib=_room(kind))
                for kind, r in self.kinds.items()
            },
            "Namespace": make(NAMESPACES, self._namespace_changed, lean=True),
            "Node": make(NODES, self._virtual_node_changed),
            **({gang.OWN_GROUP: self._own_groups()} if self.settings.gated_gangs else {}),
        }

    def _own_groups(self) -> Informer:
        return _watched(self._plane, COSCHEDULING_GROUPS, self._only_notify("virtual", gang.OWN_GROUP), mib=_FEW)

    def _host_side(self, client: Client) -> dict[str, Informer]:
        work = self.settings.work_namespace
        notified = partial(self._only_notify, "host")

        def make(kind: str, r: Resource) -> Informer:
            return Informer(
                client,
                r,
                namespace=work,
                label_selector=marks.MIRRORED,
                on_change=self._host_changed(kind),
                metadata_only=_lean(kind),
                optional=_optional(kind),
            )

        return {
            **{kind: make(kind, r) for kind, r in self.kinds.items()},
            "Node": Informer(client, NODES, label_selector=self.pool, on_change=self._host_node_changed),
            "ResourceQuota": Informer(client, RESOURCE_QUOTAS, namespace=work, on_change=notified("ResourceQuota")),
            "Event": Informer(
                client, EVENTS, namespace=work, on_change=notified("Event"),
                inactivity=_EVENT_SILENCE,
                max_bytes=16 * _MIB,
                rolling=True,
            ),
        }  # fmt: skip

    def refers(self, predicate: Callable[[str, Key], bool]) -> None:
        """Set what decides which objects that are mirrored on reference matter: only their changes become work."""
        self._refers = predicate

    def subscribe(self, subscriber: Subscriber) -> None:
        """Register a part for the changes that it must be called for."""
        for subscription in subscriber.subscriptions():
            self.listen(*subscription)

    def listen(self, side: str, kind: str, listener: Listener) -> None:
        """Have a listener called for every change of one kind on one side."""
        self.listeners.setdefault((side, kind), []).append(listener)

    # -- other settings

    def watch_gangs(self) -> Informer | None:
        """The copy of the groups that gangs are told by, to be kept from now on; None where it is kept already."""
        if gang.OWN_GROUP in self.virtual:
            return None
        self.virtual[gang.OWN_GROUP] = self._own_groups()
        return self.virtual[gang.OWN_GROUP]

    def adopt(self, settings: Settings) -> None:
        """Use new settings from now on; only fields that are read again may differ."""
        self.settings = settings
        self.views.adopt(settings)

    # -- readiness

    async def synced(self) -> None:
        """Wait until all but news was listed once, and not for long for an API that may be missing or changed."""
        informers = [(kind, informer) for kind, informer in (*self.virtual.items(), *self.host.items()) if kind not in _NEWS]
        for kind, informer in informers:
            if not _optional(kind):
                await informer.synced()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPTIONAL_SECONDS):
                for kind, informer in informers:
                    if _optional(kind):
                        await informer.synced()

    def unready(self) -> list[str]:
        """What is not synced or has been silent for too long; also sets the metric per side."""
        missing: list[str] = []
        for side, informers in (("virtual", self.virtual), ("host", self.host)):
            late = [
                kind
                for kind, informer in informers.items()
                if not _optional(kind)
                and kind not in _NEWS
                and (not informer.has_synced or informer.silence() > SILENT_SECONDS)
            ]
            metrics.SYNCED.labels(side).set(0 if late else 1)
            missing += [f"{side} {kind}" for kind in late]
        return missing

    def serves(self, kind: str) -> bool:
        """Whether both sides serve a mirrored kind; if not, nothing is known of its objects, not even that they are gone."""
        return _serves(self.virtual[kind]) and _serves(self.host[kind])

    def unserved(self, kind: str) -> str:
        """The message to the tenant about a kind that is offered and not served."""
        side = self.host if _serves(self.virtual[kind]) else self.virtual
        where = "this cluster's API server" if side is self.virtual else "the platform's host"
        return f"{where} does not serve {kind} of {side[kind].resource.group}/{side[kind].resource.version}"

    # -- looking up

    def host_key(self, kind: str, key: Key) -> Key:
        """The key on the host of a virtual object."""
        return Key(self.settings.work_namespace, self.views.static.host_name(kind, key.namespace, key.name))

    def virtual_pod(self, key: Key) -> Obj | None:
        """The virtual pod as last seen."""
        return self.virtual["Pod"].store.get(key)

    def host_pod(self, key: Key) -> Obj | None:
        """The marked host pod of a virtual key as last seen."""
        return self.host["Pod"].store.get(self.host_key("Pod", key))

    def origin(self, meta: Meta) -> Identity | None:
        """The virtual object that a host object mirrors; None if it only looks like ours."""
        return origin.of_host(
            {"metadata": {"name": meta.name, "labels": meta.labels, "annotations": meta.annotations}}, self.views.static
        )

    def work_of(self, kind: str, meta: Meta) -> Item | None:
        """The work that a host object of this kind is part of; None for one that only looks like ours."""
        identity = self.origin(meta)
        if identity is None:
            return None
        if (kind, identity.kind) == ("Secret", tokens.KIND):
            return Item(tokens.KIND, Key(identity.namespace, identity.name.rpartition(".")[0]))
        if identity.kind == kind or (kind, identity.kind) == ("Service", nodeports.KIND):
            return Item(identity.kind, Key(identity.namespace, identity.name))
        return None

    def namespace_ending(self, namespace: str) -> bool:
        """Whether the virtual namespace is being deleted or gone."""
        meta = self.virtual["Namespace"].store.meta(Key("", namespace))
        return meta is None or meta.deleting

    def view(self) -> TenantView:
        """What translation may know now; see `view`."""
        return self.views.current(self.virtual, self.host)

    @property
    def view_serial(self) -> int:
        """Which view that is: another number after anything in it changed."""
        self.view()
        return self.views.serial

    # -- changes

    def _notify(self, side: str, kind: str, change: Change) -> None:
        for listener in self.listeners.get((side, kind), ()):
            listener(change)

    def _enqueue(self, item: Item, change: Change) -> None:
        self.news(item)
        self._queue.add(item, _lane(change))

    def _virtual_changed(self, kind: str) -> Listener:
        on_reference = kind in KINDS and KINDS[kind].on_reference

        def changed(change: Change) -> None:
            self._notify("virtual", kind, change)
            if not on_reference or self._refers(kind, change.key):
                self._enqueue(Item(kind, change.key), change)

        return changed

    def _service_changed(self, change: Change) -> None:
        """A Service's address is in the environment of pods, and its node ports are work of their own."""
        self.views.discard()
        self._virtual_changed("Service")(change)
        self._enqueue(Item(nodeports.KIND, change.key), change)

    def _only_notify(self, side: str, kind: str) -> Listener:
        return lambda change: self._notify(side, kind, change)

    def _host_changed(self, kind: str) -> Listener:
        def changed(change: Change) -> None:
            self._notify("host", kind, change)
            item = self.work_of(kind, change.meta)
            if item is not None:
                self._enqueue(item, change)

        return changed

    def _namespace_changed(self, change: Change) -> None:
        self.views.discard()
        self._notify("virtual", "Namespace", change)
        if change.kind == "modified":
            self._pods_of(change.key.name)

    def _policy_changed(self, change: Change) -> None:
        """The pods that a policy selects carry a label on the host, and the room that it leaves is for other policies."""
        before = self.views.discard()
        for namespace, name in before.policies_beyond if before is not None else ():
            self._queue.add(Item("NetworkPolicy", Key(namespace, name)), Lane.BACKFILL)
        self._virtual_changed("NetworkPolicy")(change)
        self._pods_of(change.key.namespace)

    def _pods_of(self, namespace: str) -> None:
        for key in self.virtual["Pod"].store.keys():  # noqa: SIM118 -- a store, not a dict
            if key.namespace == namespace:
                self._queue.add(Item("Pod", key), Lane.BACKFILL)

    def queue_unplaced(self) -> None:
        """The pods that no node was chosen for yet."""
        for key in self.virtual["Pod"].store.keys():  # noqa: SIM118 -- a store, not a dict
            pod = self.virtual_pod(key)
            if pod is not None and not placed_on(pod):
                self._queue.add(Item("Pod", key), Lane.BACKFILL)

    def _virtual_node_changed(self, change: Change) -> None:
        node = None if change.kind == "deleted" else self.virtual["Node"].store.get(change.key)
        now = nodemarks.NO_MARKS if node is None else nodemarks.of_tenant(node)
        if self.views.mark(change.key.name, now):
            # An admin who drains one node often drains more.
            self._queue.add_after(UNPLACED, _MARKS_DELAY, Lane.BACKFILL)
        self._virtual_changed("Node")(change)

    def _host_node_changed(self, change: Change) -> None:
        if change.kind != "modified":
            self.views.discard()
        self.views.node_changed(change.key, None if change.kind == "deleted" else self.host["Node"].store.get(change.key))
        self._notify("host", "Node", change)
        self._enqueue(Item("Node", change.key), change)


def _pool(settings: Settings) -> str | None:
    """The label selector of the host nodes that the tenant sees; None for all."""
    pool = [f"{key}={value}" for key, value in sorted(settings.nodes.selector.items())]
    if marks.TENANT not in settings.enforced_node_selector:
        # Nodes with it are dedicated to another tenant.
        pool.append(f"!{marks.TENANT}")
    return ",".join(pool) or None


def _watched(client: Client, r: Resource, on_change: Listener, *, lean: bool = False, mib: int = _MANY) -> Informer:
    """A copy of one kind of the plane."""
    return Informer(
        client,
        r,
        on_change=on_change,
        metadata_only=lean,
        shrink=bare if lean else compact,
        max_bytes=mib * _MIB,
        optional=_optional(r.kind),
    )


def resource_of(kind: Translation) -> Resource:
    """The resource of a mirrored kind."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind, namespaced=True)


def _optional(kind: str) -> bool:
    return kind == gang.OWN_GROUP or (kind in KINDS and KINDS[kind].optional)


def _lean(kind: str) -> bool:
    """Whether only the metadata of a mirrored kind is kept."""
    return KINDS[kind].on_reference


def _room(kind: str) -> int:
    return _ROOM.get(kind, _MANY if _lean(kind) else _FEW)


def _serves(informer: Informer) -> bool:
    """Whether an API server serves a kind, and has listed it once."""
    return informer.has_synced and informer.served


def _lane(change: Change) -> Lane:
    return Lane.BACKFILL if change.relist else Lane.FRESH
