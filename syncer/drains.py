"""Drains of host nodes that a tenant's disruption budgets have held up for long enough: pods on them leave their budgets.

    host node cordoned ──> due at its deadline ──> its pods are labelled ──> budgets on the host select them no more
              uncordoned, or not long enough yet ──> the label is taken off again

The host records the time of the cordon (`translate.kinds.drain`), so a restarted syncer knows it. The label is put on host pods
without reading the plane: neither a plane that is down nor a pod that does not translate holds up an admin. Nothing is evicted
or deleted here.
"""

import logging
from collections.abc import Iterable

from bulkhead.api import labels as marks
from bulkhead.api.conditions import timestamp
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import placed_on
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube.errors import Conflict, NotFound
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, key_of, uid_of
from bulkhead.kube.resources import PODS
from bulkhead.work.clock import Clock
from bulkhead.work.queue import Lane
from syncer.events import Recorder
from syncer.logs import about
from syncer.translate import Reason, selectors
from syncer.translate.kinds import disruptionbudget, drain
from syncer.watch.informers import Caches, Subscription
from syncer.work import Item, Queue
from syncer.write.host import HostWriter

_log = logging.getLogger(__name__)


class Drains:
    """Reconciles the drains of nodes, by the node's name."""

    def __init__(self, caches: Caches, queue: Queue, host: HostWriter, recorder: Recorder, clock: Clock) -> None:
        self._caches = caches
        self._queue = queue
        self._host = host
        self._recorder = recorder
        self._clock = clock
        # Nodes whose deadline has passed, and the host pods that have the label.
        self._past: set[str] = set()
        self._labelled: set[Key] = set()

    def subscriptions(self) -> Iterable[Subscription]:
        """Nodes, and pods that come to one that is past its deadline."""
        return (Subscription("host", "Node", self._node_changed), Subscription("host", "Pod", self._pod_changed))

    @property
    def _deadline(self) -> float | None:
        seconds = self._caches.settings.drain_seconds
        return None if seconds < 0 else float(seconds)

    def _node_changed(self, change: Change) -> None:
        self._queue.add(Item(drain.KIND, change.key), Lane.BACKFILL)

    def _pod_changed(self, change: Change) -> None:
        labelled = change.kind != "deleted" and drain.DRAINED in (change.meta.labels or {})
        (self._labelled.add if labelled else self._labelled.discard)(change.key)
        if self._past and not labelled and change.kind != "deleted":
            node = placed_on(self._caches.host["Pod"].store.get(change.key) or {})
            if node in self._past:
                self._queue.add(Item(drain.KIND, Key("", node)), Lane.BACKFILL)

    async def reconcile(self, key: Key) -> float | None:
        """Label the pods of one node, or take the label off them; returns when the node's deadline passes."""
        node = self._caches.host["Node"].store.get(key)
        if node is None:
            # It left the pool or the host. Of a drain nothing is known, so what there is stays.
            self._past.discard(key.name)
            return None
        left = drain.remaining(node, self._clock.now(), self._deadline)
        if left == 0.0:
            self._past.add(key.name)
            await self._release(node)
            return None
        self._past.discard(key.name)
        for host in map(self._caches.host["Pod"].store.get, sorted(self._labelled)):
            if host is not None and placed_on(host) == key.name:
                await self._label(host, None)
        return left

    async def _release(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        for host in list(self._caches.host["Pod"].store.objects()):
            if placed_on(host) != name or drain.DRAINED in (host["metadata"].get("labels") or {}):
                continue
            if await self._label(host, "true"):
                self._tell(host, node)

    async def _label(self, host: Obj, value: str | None) -> bool:
        """Write the label of one pod; False where that pod is gone."""
        body = {"metadata": {"uid": uid_of(host), "labels": {drain.DRAINED: value}}}
        try:
            await self._host.patch(PODS, key_of(host), body)
        except (NotFound, Conflict):
            return False
        _log.info("drain: label of a pod written", extra=about("Pod", key_of(host), node=placed_on(host), value=value))
        return True

    def _tell(self, host: Obj, node: Obj) -> None:
        """Tell the tenant, on a pod that one of its budgets protects."""
        annotations = mapping(host["metadata"].get("annotations"))
        key = Key(text(annotations.get(marks.VIRTUAL_NAMESPACE)), text(annotations.get(marks.VIRTUAL_NAME)))
        virtual = self._caches.virtual_pod(key)
        since = drain.cordoned_since(node)
        if virtual is None or since is None or not self._budgets(virtual):
            return
        name, named = node["metadata"]["name"], ", ".join(self._budgets(virtual)[:3])
        self._recorder.warn(
            virtual,
            str(Reason.DRAIN_DEADLINE),
            f"node {name} has been drained since {timestamp(since)}. Disruption budgets ({named}) hold that "
            f"up for {self._deadline:.0f} s, which have passed: the pod may be evicted at any moment",
        )

    def _budgets(self, virtual: Obj) -> list[str]:
        meta = virtual["metadata"]
        own = {str(key): str(value) for key, value in mapping(meta.get("labels")).items()}
        return sorted(
            budget["metadata"]["name"]
            for budget in self._caches.virtual[disruptionbudget.KIND].store.objects()
            if budget["metadata"].get("namespace") == meta.get("namespace")
            and isinstance(selector := mapping(budget.get("spec")).get("selector"), dict)
            and selectors.selects(selector, own)
        )
