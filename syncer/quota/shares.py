"""What each virtual node shows of the limited devices: the tenant's limit, shared out over the nodes as host pods leave room.

    host node changed ──> its room ──┐
    own pod bound, ended ──> holds ──┼──> changed? ──> EVERY, soon ──> shared out ──> the nodes whose share is another, queued
    host's quota changed ──> limit ──┘    of what the tenant may borrow: its own and that is what the host's quota says

Only memory, no I/O; how the limit is shared out is `node.gpu_shares`.
"""

import logging
from collections.abc import Iterable
from typing import Final

from bulkhead.api import accelerators, names
from bulkhead.api.untrusted import mapping
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key
from bulkhead.work.queue import Lane
from syncer import metrics
from syncer.logs import about
from syncer.translate.kinds import node
from syncer.watch.informers import Caches, Subscription
from syncer.work import Item, Queue

_log = logging.getLogger(__name__)

# Stands for all nodes whose share is another.
EVERY: Final = Item("Node", Key("", ""))
_SHARE_DELAY: Final = 0.5
_RISE_DELAY: Final = 0.3
_NOTHING: Final[tuple[str, dict[str, int]]] = ("", {})


class NodeShares:
    """The shares of all nodes, and what they come from."""

    def __init__(self, caches: Caches, queue: Queue) -> None:
        self._caches = caches
        self._queue = queue
        # As of the last time that they were counted and shared out.
        self._shares: node.Shares = {}
        self._rooms: dict[str, node.Room] = {}
        # Host nodes with an annotation that is not ours.
        self._unread: set[str] = set()
        # Own host pods that ask for accelerators: where they are and what they hold by now.
        self._holders: dict[Key, tuple[str, dict[str, int]]] = {}
        self._limits: dict[str, int] = {}

    def subscriptions(self) -> Iterable[Subscription]:
        """The host's nodes and pods, and its quota."""
        return (
            Subscription("host", "Pod", self.pod_changed),
            Subscription("host", "Node", self.node_changed),
            Subscription("host", "ResourceQuota", self.quota_changed),
        )

    def quota_changed(self, _change: Change) -> None:
        """The host's quota: what others lend may be more or less than before."""
        if self._shown() != self._limits:
            self._recount()

    def recount(self) -> None:
        """Other settings: what pods hold is read again, and every node may have to show another share."""
        self._holders.clear()
        for meta in self._caches.host["Pod"].store.metas():
            self.pod_changed(Change("added", meta.key, meta, relist=True))
        self._recount()

    def node_changed(self, change: Change) -> None:
        """A host node came, went or changed: where its room is another, every share may be."""
        name = change.key.name
        before = self._rooms.pop(name, None)
        host = None if change.kind == "deleted" else self._caches.host["Node"].store.get(change.key)
        readable = True
        if host is not None:
            self._rooms[name], readable = node.room(host, self._caches.settings.gpu_resources)
        self._log_unread(name, readable=readable)
        if self._rooms.get(name) != before:
            self._recount()

    def _log_unread(self, name: str, *, readable: bool) -> None:
        if readable:
            self._unread.discard(name)
        elif name not in self._unread:
            self._unread.add(name)
            _log.warning("held accelerators of a host node cannot be read: counted as 0", extra=about("Node", name))
        metrics.NODES_UNREAD.set(len(self._unread))

    def pod_changed(self, change: Change) -> None:
        """A host pod came, was bound, ended or went: what its node shows follows, not at once."""
        if not self._caches.settings.limits or (change.kind == "modified" and change.key not in self._holders):
            return
        before = self._holders.pop(change.key, _NOTHING)
        host = None if change.kind == "deleted" else self._caches.host["Pod"].store.get(change.key)
        resources = self._caches.settings.gpu_resources
        if host is not None and accelerators.requested(host, resources):
            self._holders[change.key] = accelerators.holds(host, resources)
        if self._holders.get(change.key, _NOTHING) != before:
            self._recount()

    def share_out(self) -> None:
        """Queue the nodes that have to show another share, those that lose something first: the sum should not swell."""
        before, self._shares = self._shares, self._count()
        for name, now in self._shares.items():
            was = before.get(name, {})
            if now != was:
                rises = all(count >= was.get(resource, 0) for resource, count in now.items())
                self._queue.add_after(Item("Node", Key("", name)), _RISE_DELAY if rises else 0.0, Lane.BACKFILL)

    def of(self, name: str) -> dict[str, int]:
        """A node's share; none for one that came since the last count, so that all together never show too much."""
        self._shares = self._shares or self._count()
        return self._shares.get(name, {})

    def _recount(self) -> None:
        self._queue.add_after(EVERY, _SHARE_DELAY, Lane.BACKFILL)

    def _count(self) -> node.Shares:
        self._limits = self._shown()
        return node.gpu_shares(self._rooms, self._limits, accelerators.by_node(self._holders.values()))

    def _shown(self) -> dict[str, int]:
        """The limit of each GPU resource; of what the tenant may borrow, its ceiling."""
        settings = self._caches.settings
        shown = {gpu_resource: settings.limits.get(gpu_resource, 0) for gpu_resource in settings.gpu_resources}
        if not settings.gated_resources:
            return shown
        quota = self._caches.host["ResourceQuota"].store.get(Key(settings.work_namespace, names.POD_QUOTA))
        hard = mapping(mapping(mapping(quota).get("spec")).get("hard"))
        counted = {
            gated_resource: hard.get(f"requests.{gated_resource}")
            for gated_resource in settings.gated_resources
            if gated_resource in shown
        }
        return shown | {resource: accelerators.count(limit) for resource, limit in counted.items() if limit is not None}
