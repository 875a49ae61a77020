"""Keeps a tenant's best pods on the host, if the quota has no room for all that wait for the ledger.

    host pods, as they change ──> roster ──┐
    pod to be made ──> `attempt` ──────────┴─> verdict: GangMismatch     -> says so, and is tried again when the others are gone
                                                        ExceedsQuota  -> says so at once, and does not hold up other pods
                                                        Behind  -> waits until a better one does not
                                                        Lacks   -> waits; the worst on the host give their place
                                                        Fits    -> open, until the host shows it
    one that gives its place ──> queued ──> `gives_way` ──> its reconcile deletes the host pod while it is gated, without a node

A pod that the host's own count refuses waits the same way. Only memory, no I/O: after a restart the host pods are listed, and
waiting pods try again. `verdict` decides, `roster` knows where each pod is; a tenant without gated pods costs nothing here.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, assert_never

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended, is_pending_deletion
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, uid_of
from syncer.quota import asking, verdict
from syncer.quota.asking import Priorities
from syncer.quota.claims import Claims
from syncer.quota.order import Amounts, QueuedPod, QueueOrder
from syncer.quota.places import AT_ONCE, Place, Places
from syncer.quota.verdict import ResourceUse
from syncer.translate import Reason, Untranslatable
from syncer.translate.kinds import gate
from syncer.translate.origin import virtual_uid
from syncer.translate.reasons import when_raised
from syncer.watch.informers import Caches, Subscription
from syncer.work import Item, Queue

_HOPE: Final = "The pod starts when enough is free."


class HostQueue:
    """Which of the tenant's gated pods are on the host, which wait in the plane, and which give up their place."""

    def __init__(self, caches: Caches, queue: Queue, claims: Claims, *, quota: Callable[[], Obj | None]) -> None:
        self._caches = caches
        self._queue = queue
        self._claims = claims
        self._quota = quota
        self._places_of = Places()
        # UIDs of host pods that give their place.
        self._yielding: dict[Key, str] = {}
        # By the resources that were lacking: the workload for which pods last had to give up places, and the inputs of that.
        self._asked: dict[tuple[str, ...], tuple[object, ...]] = {}
        # UIDs of the virtual pods for which the pods on the host were made.
        self._made_for: dict[Key, str] = {}
        self._priorities = Priorities()
        self._limited = self._limits()

    def _limits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._caches.settings.gated_resources, *self._claims.resources)))

    def recount(self) -> None:
        """Count the pods on the host again, because settings changed. The caller retries the pods that wait in the plane."""
        self._limited, self._places_of = self._limits(), Places()
        self._asked.clear()
        for meta in self._caches.host["Pod"].store.metas():
            self.seen(Change("added", meta.key, meta, relist=True))

    # -- a pod that is to be made

    def attempt(self, key: Key, virtual: Obj, desired: Obj) -> None:
        """Let a pod onto the host, or raise why it waits. Callers must not await between this and the claim of its devices."""
        if not gate.is_gated(desired):
            self.forget(key)
            return
        view = self._caches.view()
        asks = asking.of_desired(desired, self._limited, view)
        entry = QueuedPod(key, self._priorities.rank(virtual, view), asks, asking.gang_of(desired, key.namespace))
        with self._places_of.others(entry) as others:
            found = verdict.judge(entry, others, self._places_of.heads(entry), self._counted(entry.asks))
            best = verdict.rank_of(entry, others)
        match found:
            case verdict.GangMismatch():
                self._try(self._places_of.refuse(key, found.theirs))
                raise Untranslatable(Reason.MALFORMED, _odd(found), "metadata")
            case verdict.ExceedsQuota(resource, least, surplus):
                self._try(self._places_of.put(entry, Place.BEYOND))
                if not surplus:
                    self._take_back_gang(entry, best)
                raise Untranslatable(Reason.QUOTA_EXCEEDED, self._beyond(entry, resource, least))
            case verdict.Behind():
                self._try(self._places_of.put(entry, Place.BEHIND))
                raise Untranslatable(Reason.QUOTA_EXCEEDED, _behind(entry))
            case verdict.Lacks(needed, lacking):
                self._try(self._places_of.put(entry, Place.WAITS))
                self._make_room(entry, best, lacking)
                raise Untranslatable(Reason.QUOTA_EXCEEDED, self._no_room(entry, needed, next(iter(lacking))))
            case verdict.Fits():
                self._try(self._places_of.put(entry, Place.OPEN))
                # Where one of a gang has room, all have.
                self._try(member.key for member in self._places_of.gang_of(entry).in_plane.best(AT_ONCE))
            case _:
                assert_never(found)

    def refused(self, key: Key) -> None:
        """Note that the host's own count had no room for a pod that was let onto it."""
        entry = self._places_of.opened(key)
        if entry is None:
            return
        with self._places_of.others(entry) as others:
            found = verdict.lacks(entry, others, self._counted_by_all(entry.asks))
            best = verdict.rank_of(entry, others)
        if found is not None:
            self._try(self._places_of.put(entry, Place.WAITS))
            self._make_room(entry, best, found.lacking)
        else:
            # No pod here can give up what is lacking, or the host has not recounted: the pod does not hold up others.
            self.forget(key)

    def made(self, desired: Obj, made: Obj) -> None:
        """Learn the priority class of a pod that the host created."""
        self._priorities.learn(desired, made)

    def forget(self, key: Key) -> None:
        """Forget a pod that is gone, was not created, or may not be on the host at all."""
        self._try(self._places_of.leave(key))

    def rank(self, virtual: Obj) -> QueueOrder:
        """Where a pod stands among those that wait for quota."""
        return self._priorities.rank(virtual, self._caches.view())

    # -- a pod that is on the host

    def gives_way(self, key: Key) -> bool:
        """Whether the host pod of this key is to be taken back."""
        return key in self._yielding

    def may_take_back(self, key: Key, host: Obj) -> bool:
        """Whether this very host pod is the one that is to be taken back, and still holds nothing but its place."""
        return self._yielding.get(key) == uid_of(host) and gate.may_be_taken_back(host)

    def subscriptions(self) -> Iterable[Subscription]:
        """The pods of both sides; that any wait for the ledger may come later."""
        return Subscription("host", "Pod", self.seen), Subscription("virtual", "Pod", self.virtual_changed)

    def seen(self, change: Change) -> None:
        """A host pod came, changed or went."""
        if not self._caches.views.static.waits_for_ledger:
            return
        identity = self._caches.origin(change.meta)
        if identity is None or identity.kind != "Pod":
            return
        key = Key(identity.namespace, identity.name)
        host = None if change.kind == "deleted" else self._caches.host["Pod"].store.get(change.key)
        # One that is being deleted makes no gang whole, and says nothing of one that comes after it.
        if host is None or has_ended(host) or is_pending_deletion(host) or not gate.is_the_ledgers(host):
            self._made_for.pop(key, None)
            self._yielding.pop(key, None)
            self._try(self._places_of.hide(key))
            return
        before, movable = self._places_of.hosted(key), gate.may_be_taken_back(host)
        if before is not None and before.uid == uid_of(host) and before.movable == movable:
            return
        self._priorities.saw(host, self._caches.view())
        asks, gang = asking.of_host(host, self._limited), asking.gang_of(host, key.namespace)
        entry = QueuedPod(key, asking.rank_of_host(host), asks, gang, movable=movable, uid=uid_of(host))
        self._made_for[key] = virtual_uid(host)
        self._try(self._places_of.show(self._as_virtual(entry)))
        self._try(self._places_of.leave(key))
        if not movable or self._yielding.get(key) != entry.uid:
            self._yielding.pop(key, None)
        if movable:
            # One that was let in while a better one was refused.
            own = min(entry.rank, self._places_of.gang_of(entry).all.rank)
            self._try(head.key for head in self._places_of.heads(entry) if head.rank < own)

    def virtual_changed(self, change: Change) -> None:
        """A virtual pod came or changed: its host pod may have been seen first, or be held back no longer."""
        entry = self._places_of.hosted(change.key)
        if entry is not None and (now := self._as_virtual(entry)) != entry:
            self._try(self._places_of.show(now))

    def _as_virtual(self, entry: QueuedPod) -> QueuedPod:
        """A host pod with the rank that follows from its virtual pod, if that was seen."""
        virtual = self._caches.virtual_pod(entry.key)
        if virtual is None or uid_of(virtual) != self._made_for[entry.key]:
            return entry
        return replace(entry, rank=asking.rank_as(virtual, entry.rank))

    # -- what follows from a verdict

    def _counted(self, asks: Amounts) -> dict[str, ResourceUse]:
        """The lines of what the syncer counts by itself."""
        claims = self._claims
        return {name: ResourceUse(claims.limit(name), claims.used(name)) for name in asks if claims.counts(name)}

    def _counted_by_all(self, asks: Amounts) -> dict[str, ResourceUse]:
        """And those of what only the host counts: behind by moments, so it refuses first, and only then they say who goes."""
        quota = self._quota() or {}
        rooms = {name: asking.room_of(quota, name) for name in asks}
        return {name: ResourceUse(room, 0) for name, room in rooms.items() if room is not None} | self._counted(asks)

    def _make_room(self, entry: QueuedPod, best: QueueOrder, lacking: Amounts) -> None:
        """Make pods on the host give up the places that the pod needs; once for a gang, and again with its best pod."""
        if self._is_news(tuple(lacking), (entry.workload, best, lacking, self._places_of.changes), again=entry.rank == best):
            self._take_back(verdict.victims(best, lacking, self._places_of.worst_first(but=entry.workload)))

    def _take_back_gang(self, entry: QueuedPod, best: QueueOrder) -> None:
        """Make a gang that can never be whole give up its places, unless some of it was admitted."""
        there = self._places_of.gang_of(entry).on_host
        if there.movable and self._is_news((), (entry.workload, self._places_of.changes), again=entry.rank == best):
            self._take_back(there)

    def _is_news(self, what: tuple[str, ...], state: tuple[object, ...], *, again: bool) -> bool:
        known, self._asked[what] = self._asked.get(what), state
        return again or known != state

    def _take_back(self, pods: Iterable[QueuedPod]) -> None:
        for pod in pods:
            if pod.uid:
                self._yielding[pod.key] = pod.uid
                self._queue.add(Item("Pod", pod.key))

    def _try(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._queue.add(Item("Pod", key))

    # -- in words

    def _beyond(self, entry: QueuedPod, resource: str, least: int) -> str:
        what = f"asked for {least}" if entry.gang is None else f"the {entry.gang.size} pods of its gang ask for {least}"
        return f"{self._claims.exceeded(resource, what)} {when_raised(_HOPE)}"

    def _no_room(self, entry: QueuedPod, needed: Amounts, resource: str) -> str:
        rest = needed[resource] - entry.asks[resource]
        gang = f", and the rest of its gang for {rest} more" if needed != entry.asks else ""
        return f"{self._claims.exceeded(resource, f'asked for {entry.asks[resource]}')[:-1]}{gang}. {_HOPE}"


def _behind(entry: QueuedPod) -> str:
    return f"asked for {asking.words(entry.asks)}, and a pod that comes before it waits for the same. {_HOPE}"


def _odd(found: verdict.GangMismatch) -> str:
    theirs = f"pod {found.pod!r} of gang {found.own.name!r} gives the gang {found.theirs.words}"
    return f"{theirs}, but this pod gives it {found.own.words}"
