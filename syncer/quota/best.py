"""Keeps on the host what of a tenant's pods is the best, where the quota has no room for all that wait for the ledger.

    host pods, as they change ──> there ──┐
    pod to be made ──> `attempt` ─────────┴─ more than its ceiling   -> says so at once, and holds up nobody
                                          ├─ a better one waits      -> waits behind it
                                          ├─ no room                 -> waits; the worst on the host give their place
                                          └─ room                    -> open, until the host shows it
    one that gives its place ──> queued ──> `gives_way` ──> its reconcile deletes the host pod while it is gated, without a node

What the host's own count refuses waits the same way. Only memory, no I/O: after a restart the host pods are listed, and what
waits tries again. How the order is made is `order`; a tenant without gated pods costs nothing here.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from bulkhead.api.podphase import has_ended, is_pending_deletion
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Obj, uid_of
from syncer.quota import asking, order
from syncer.quota.asking import Priorities
from syncer.quota.claims import Claims
from syncer.quota.heads import Heads
from syncer.quota.order import Amounts, Entry, Rank
from syncer.translate import Reason, Untranslatable
from syncer.translate.kinds import gate
from syncer.translate.origin import virtual_uid
from syncer.watch.informers import Caches, Subscription
from syncer.work import Item, Queue

_AT_ONCE: Final = 64
_HOPE: Final = "The pod starts when enough is free."


class Best:
    """Who of the tenant's gated pods is on the host, who waits in the plane, and who gives its place."""

    def __init__(self, caches: Caches, queue: Queue, claims: Claims, *, quota: Callable[[], Obj | None]) -> None:
        self._caches = caches
        self._queue = queue
        self._claims = claims
        self._quota = quota
        self._there: dict[Key, Entry] = {}
        self._open: dict[Key, Entry] = {}
        self._waiting = Heads()
        # Those that ask for more than can ever be in use: they wait for nothing, and their gangs are as large all the same.
        self._beyond: dict[Key, Entry] = {}
        # Those that wait although there may be room, because a better one does.
        self._behind: dict[Key, None] = {}
        self._gangs: dict[Key, set[Key]] = {}
        self._gang_of: dict[Key, Key] = {}
        # Pods that say something else of a gang than those that came before them; tried again when none of those is left.
        self._odd: dict[Key, dict[Key, None]] = {}
        # What was last said to a gang that waits, and what it followed from; counts changes of who is where.
        self._said: dict[tuple[str, Key], tuple[tuple[object, ...], str]] = {}
        self._turn = 0
        # UIDs of host pods that give their place.
        self._yielding: dict[Key, str] = {}
        # Host pods whose rank is of their own age yet, and not of their virtual pods'.
        self._unborn: dict[Key, str] = {}
        self._priorities = Priorities()
        self._limited = tuple(dict.fromkeys((*caches.settings.gated_resources, *claims.resources)))

    # -- a pod that is to be made

    def attempt(self, key: Key, virtual: Obj, desired: Obj) -> None:
        """Let a pod onto the host, or raise why it waits; nothing may be awaited between this and the claim of its devices."""
        self._open.pop(key, None)
        self._beyond.pop(key, None)
        if not gate.is_gated(desired):
            self.forget(key)
            return
        view = self._caches.view()
        rank = self._priorities.rank(virtual, view)
        asks = asking.of_desired(desired, self._limited, view)
        entry = Entry(key, rank, asks, asking.gang_of(desired, key.namespace))
        self._check_known(entry)
        there, waiting = self._others(entry)
        self._check_alike(entry, there or waiting)
        self._check_ceiling(entry, there, waiting)
        best = order.rank_of([entry, *there, *waiting])
        if self._comes_after(entry, best):
            self._behind[key] = None
            text = f"asked for {asking.words(entry.asks)}, and a pod that comes before it waits for the same. {_HOPE}"
            raise self._wait(entry, text)
        needed = order.needed(entry, there, waiting)
        lacking = self._lacking(needed, counted_here=True)
        if lacking:
            self._make_room(entry, best, lacking)
            raise self._wait(entry, self._no_room(entry, needed, next(iter(lacking))))
        self._no_longer_waits(key)
        self._open[key] = entry
        self._note(entry)
        for each in waiting[:_AT_ONCE]:
            # Where one of a gang has room, all have.
            self._queue.add(Item("Pod", each.key))

    def refused(self, key: Key) -> None:
        """The host's own count had no room for a pod that was let onto it."""
        entry = self._open.pop(key, None)
        if entry is None:
            return
        there, waiting = self._others(entry)
        lacking = self._lacking(order.needed(entry, there, waiting), counted_here=False)
        if lacking:
            self._wait(entry, "")
            self._make_room(entry, order.rank_of([entry, *there, *waiting]), lacking)
        else:
            # Of something that nobody here has to give, or that the host has not counted again: it holds up nobody.
            self.forget(key)

    def made(self, desired: Obj, made: Obj) -> None:
        """The host has made a pod: what priority it gave to its class."""
        self._priorities.learn(desired, made)

    def dropped(self, key: Key) -> None:
        """It was not made, for another reason than a lack of room."""
        self._open.pop(key, None)
        self.forget(key)

    def forget(self, key: Key) -> None:
        """The pod is on the host, is gone, or has no place on the host whatever room there is."""
        self._no_longer_waits(key)
        self._settle(key)

    def gone(self, key: Key) -> None:
        """The virtual pod is gone, or about to be."""
        self._open.pop(key, None)
        self.forget(key)

    def rank(self, virtual: Obj) -> Rank:
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
        """The host's pods, where any wait for the ledger."""
        settings = self._caches.settings
        return (Subscription("host", "Pod", self.seen),) if settings.gated_resources or settings.gated_gangs else ()

    def seen(self, change: Change) -> None:
        """A host pod came, changed or went."""
        who = self._caches.origin(change.meta)
        if who is None or who.kind != "Pod":
            return
        key, before = Key(who.namespace, who.name), self._there.get(Key(who.namespace, who.name))
        host = None if change.kind == "deleted" else self._caches.host["Pod"].store.get(change.key)
        # One that is being deleted makes no gang whole, and says nothing of one that comes after it.
        if host is None or has_ended(host) or is_pending_deletion(host) or not gate.is_the_ledgers(host):
            self._there.pop(key, None)
            self._unborn.pop(key, None)
            self._yielding.pop(key, None)
            self._settle(key)
            return
        movable = gate.may_be_taken_back(host)
        if before is not None and before.uid == uid_of(host) and before.movable == movable:
            return
        self._priorities.saw(host, self._caches.view())
        asks, gang = asking.of_host(host, self._limited), asking.gang_of(host, key.namespace)
        entry = Entry(key, asking.rank_of_host(host), asks, gang, movable=movable, uid=uid_of(host))
        self._there[key] = entry
        self._unborn[key] = virtual_uid(host)
        self._open.pop(key, None)
        self._no_longer_waits(key)
        self._note(entry)
        if not movable or self._yielding.get(key) != entry.uid:
            self._yielding.pop(key, None)
        for name in asks if movable else ():
            # One that was let in while a better one was refused.
            head = self._waiting.first(name)
            if head is not None and head.rank < entry.rank:
                self._queue.add(Item("Pod", head.key))

    # -- what is decided

    def _check_known(self, entry: Entry) -> None:
        """Say the same as before to a gang of which nothing has changed: it may have thousands of pods that are tried again."""
        said = self._said.get(entry.workload)
        if said is not None and said[0] == self._state(entry) and self._waiting.get(entry.key) == entry:
            raise Untranslatable(Reason.QUOTA_EXCEEDED, said[1])

    def _state(self, entry: Entry) -> tuple[object, ...]:
        """All that what is said to a pod of a gang follows from."""
        numbers = ((self._claims.used(name), self._claims.limit(name)) for name in entry.asks if self._claims.counts(name))
        return self._turn, tuple(entry.asks.items()), *numbers

    def _check_alike(self, entry: Entry, others: list[Entry]) -> None:
        """All pods of a gang say the same of it; the first of them counts, and what differs was never taken."""
        first = others[0] if others else entry
        if entry.gang is not None and first.gang is not None and first.gang != entry.gang:
            self.forget(entry.key)
            self._odd.setdefault(entry.gang.key, {})[entry.key] = None
            text = f"of the gang {entry.gang.name!r} the pod {first.key.name!r} says that it has {first.gang.said}"
            raise Untranslatable(Reason.MALFORMED, f"{text}, and this one {entry.gang.said}", "metadata")

    def _check_ceiling(self, entry: Entry, there: list[Entry], waiting: list[Entry]) -> None:
        """Refuse what can never be whole; what of it is on the host already gives its place."""
        for name, least in order.at_least(entry, [*there, *waiting]).items():
            if not self._claims.counts(name) or least <= self._claims.limit(name):
                continue
            self.forget(entry.key)
            self._beyond[entry.key] = entry
            self._note(entry)
            if all(each.movable for each in there):
                self._take_back(there)
            what = f"asked for {least}" if entry.gang is None else f"the {entry.gang.size} pods of its gang ask for {least}"
            hopeless = "It is more than can ever be in use: the pod starts when the quota is raised."
            raise Untranslatable(Reason.QUOTA_EXCEEDED, f"{self._claims.exceeded(name, what)} {hopeless}")

    def _comes_after(self, entry: Entry, best: Rank) -> bool:
        """Whether a better workload waits for any of the same resources."""
        heads = (self._waiting.first(name) for name in entry.asks)
        return any(head is not None and head.workload != entry.workload and head.rank < best for head in heads)

    def _lacking(self, needed: Amounts, *, counted_here: bool) -> dict[str, int]:
        """What there is no room for: by the syncer's own count, and of what only the host counts by that of the host."""
        rooms = {name: self._room(name, counted_here=counted_here) for name in needed}
        return {name: need - room for name, need in needed.items() if (room := rooms[name]) is not None and need > room}

    def _room(self, name: str, *, counted_here: bool) -> int | None:
        if self._claims.counts(name):
            return self._claims.limit(name) - self._claims.used(name)
        # Behind by moments: the host refuses by itself, and only then it says who has to go.
        return None if counted_here else asking.room_of(self._quota() or {}, name)

    def _make_room(self, entry: Entry, best: Rank, lacking: Amounts) -> None:
        """Have those on the host give their place whose place the pod needs."""
        self._bear()
        others = (each for each in self._there.values() if each.workload != entry.workload)
        self._take_back(order.victims(best, lacking, others))

    def _take_back(self, pods: Iterable[Entry]) -> None:
        for each in pods:
            if each.uid:
                self._yielding[each.key] = each.uid
                self._queue.add(Item("Pod", each.key))

    def _no_room(self, entry: Entry, needed: Amounts, name: str) -> str:
        gang = f", and the rest of its gang for {needed[name] - entry.asks[name]} more" if needed != entry.asks else ""
        return f"{self._claims.exceeded(name, f'asked for {entry.asks[name]}')[:-1]}{gang}. {_HOPE}"

    # -- what is remembered

    def _others(self, entry: Entry) -> tuple[list[Entry], list[Entry]]:
        """The other pods of its gang: on the host or about to be, and those that wait."""
        there: list[Entry] = []
        waiting: list[Entry] = []
        if entry.gang is None:
            return there, waiting
        self._bear()
        for key in self._gangs.get(entry.gang.key, set()) - {entry.key}:
            found = self._there.get(key) or self._open.get(key)
            held = self._waiting.get(key) or self._beyond.get(key)
            if found is not None:
                there.append(found)
            elif held is not None:
                waiting.append(held)
        return there, waiting

    def _bear(self) -> None:
        """Give host pods the age of their virtual pods, which their informer may have shown later."""
        for key, uid in list(self._unborn.items()):
            virtual = self._caches.virtual_pod(key)
            if virtual is not None and uid_of(virtual) == uid:
                del self._unborn[key]
                entry = self._there[key]
                self._there[key] = replace(entry, rank=(*entry.rank[:2], *asking.age_of(virtual)))

    def _wait(self, entry: Entry, text: str) -> Untranslatable:
        """Have a pod wait; returns what is said to it."""
        if self._waiting.get(entry.key) != entry:
            self._waiting.add(entry)
            self._note(entry)
        if entry.gang is not None and text:
            self._said[entry.workload] = self._state(entry), text
        return Untranslatable(Reason.QUOTA_EXCEEDED, text)

    def _no_longer_waits(self, key: Key) -> None:
        self._behind.pop(key, None)
        self._beyond.pop(key, None)
        if not self._waiting.pop(key):
            return
        self._turn += 1
        if self._behind:
            first = heapq.nsmallest(_AT_ONCE, self._behind, key=self._rank_of_waiting)
            for each in first:
                del self._behind[each]
                self._queue.add(Item("Pod", each))

    def _rank_of_waiting(self, key: Key) -> Rank:
        entry = self._waiting.get(key)
        return order.LAST if entry is None else entry.rank

    def _note(self, entry: Entry) -> None:
        self._turn += 1
        if entry.gang is None or self._gang_of.get(entry.key) != entry.gang.key:
            self._leave(entry.key)
        if entry.gang is not None:
            self._gangs.setdefault(entry.gang.key, set()).add(entry.key)
            self._gang_of[entry.key] = entry.gang.key

    def _settle(self, key: Key) -> None:
        """Forget of which gang a pod is that is nowhere any more."""
        self._turn += 1
        if not any(key in each for each in (self._there, self._open, self._waiting, self._beyond)):
            self._leave(key)

    def _leave(self, key: Key) -> None:
        gang = self._gang_of.pop(key, None)
        if gang is not None:
            self._gangs[gang].discard(key)
            if not self._gangs[gang]:
                del self._gangs[gang]
                self._said.pop(("Gang", gang), None)
                for each in self._odd.pop(gang, ()):
                    self._queue.add(Item("Pod", each))
