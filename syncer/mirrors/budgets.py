"""PodDisruptionBudgets: the number of a budget counts for no more than the pods that there are on the host.

A pod that comes, goes, gets other labels, or leaves its budgets by a drain has the budgets of its namespace counted again.
"""

from collections.abc import Iterable

from bulkhead.api.objects import Obj
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key
from bulkhead.work.queue import Lane
from syncer.mirrors.follower import Follower
from syncer.translate import TenantView, selectors
from syncer.translate.kinds import disruptionbudget
from syncer.watch.informers import Caches, Subscription
from syncer.work import Item, Queue


class Budgets(Follower):
    """Counts the tenant's host pods that a budget selects."""

    def __init__(self, caches: Caches, queue: Queue) -> None:
        super().__init__(disruptionbudget.KIND)
        self._caches = caches
        self._queue = queue
        self._pods = caches.host["Pod"].store
        # Hashes of the labels of pods, by which budgets select: a status changes often, and causes no recount.
        self._labels: dict[Key, int] = {}

    def subscriptions(self) -> Iterable[Subscription]:
        """The pods on the host."""
        return (Subscription("host", "Pod", self._pod_changed),)

    def _pod_changed(self, change: Change) -> None:
        before = self._labels.pop(change.key, None)
        if change.kind != "deleted":
            self._labels[change.key] = hash(frozenset((change.meta.labels or {}).items()))
            if self._labels[change.key] == before:
                return
        identity = self._caches.origin(change.meta)
        for key in self._caches.virtual[self.kind.kind].store.keys():  # noqa: SIM118 -- a store, not a dict
            if identity is not None and key.namespace == identity.namespace:
                self._queue.add(Item(self.kind.kind, key), Lane.BACKFILL)

    def translate(self, virtual: Obj, view: TenantView) -> tuple[Obj, list[str]]:
        """The host budget for `virtual`."""
        return disruptionbudget.to_host(virtual, view, self._selected), []

    def _selected(self, selector: Obj) -> int:
        return sum(selectors.selects(selector, meta.labels or {}) for meta in self._pods.metas())
