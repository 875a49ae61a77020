"""Events in the plane: our own warnings, and the host's events about mirrored pods, in the tenant's words.

Bounded in rate and in memory: a tenant that makes errors by the thousand gets some of them as events and all of them as a
metric. Of one object there is one event for each reason. When it repeats its count grows, after a minute, then two, four, up to
half an hour; where its text has changed, as the numbers of a quota do, it gets the latest after a twelfth of that. An object
that is gone gets no more of them, unless they say why it went. An event that the plane's API server cannot take now (it is
busy, starts again or does not answer) is written later, four times in all; a failing plane costs events, nothing else. Events
of the host wait while pods do: in a burst, statuses are written first. One that comes before its object is seen is looked at
twice more, because each kind has a watch of its own. A restarted syncer receives all events of the host again: those that the
plane has already are not written again (one list of names), so a count that grew meanwhile is seen with the next repeat.
"""

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from bulkhead.api.conditions import timestamp
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta
from bulkhead.kube.errors import AlreadyExists, KubeError, may_pass
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, key_of, uid_of
from bulkhead.kube.resources import EVENTS
from bulkhead.work.clock import Clock
from bulkhead.work.queue import KeyedQueue, Lane, QueueClosed
from bulkhead.work.remembered import Remembered
from syncer import metrics
from syncer.logs import about
from syncer.translate.kinds import event as event_translation
from syncer.translate.podspec import users
from syncer.translate.registry import WITH_EVENTS
from syncer.watch.informers import Caches, Subscription

_log = logging.getLogger(__name__)

RATE: Final = 10.0
# An event of the host's waits so long for a moment in which nothing else is to be done.
_NORMAL: Final = frozenset({users.SHARED})  # reasons that say how something is, and warn about nothing
_GIVE_WAY_SECONDS: Final = 1.0
_GIVE_WAY_STEP: Final = 0.05
_QUEUED: Final = 2000
# When an event is looked at again whose object is not seen yet; most such objects are gone.
_EARLY_SECONDS: Final = (1.0, 5.0)
# When one is written again that the plane's API server could not take: an API server that starts again is back by then.
_REFUSED_SECONDS: Final = (1.0, 5.0, 30.0)
_LATER_AT_ONCE: Final = 500
_PAGE: Final = 500
_REMEMBERED: Final = 5000
_REPEAT_SECONDS: Final = 60.0
# Less than the hour after which API servers forget an event.
_LONGEST_REPEAT_SECONDS: Final = 1800.0
_SOONER_WITH_NEWS: Final = 12


class _Told(NamedTuple):
    """A warning as it was last written, or is about to be."""

    at: float
    # How often it was asked for, and how long it then waits until it is written again.
    times: int
    pause: float
    message: str


class _Waiting(NamedTuple):
    """A warning that is not written yet."""

    event: Obj
    # Whether it says why the object ends, so that it is written also when the object is gone.
    last: bool


_NEVER: Final = _Told(float("-inf"), 0, _REPEAT_SECONDS / 2, "")


class Recorder:
    """Writes events into the plane, one after the other."""

    def __init__(self, caches: Caches, plane: Client, clock: Clock, *, busy: Callable[[], bool]) -> None:
        self._caches = caches
        self._plane = plane
        self._clock = clock
        # Whether pods wait or are worked on.
        self.busy = busy
        self._queue: KeyedQueue[Key] = KeyedQueue(max_keys=_QUEUED, clock=clock)
        self._ours: dict[Key, _Waiting] = {}
        self._told: Remembered[Key, _Told] = Remembered(_REMEMBERED)
        self._mirrored: Remembered[Key, str] = Remembered(_REMEMBERED)
        # Events that are looked at again, with how often each was: those that came before their objects were seen, and those
        # that the plane's API server could not take.
        self._later: dict[Key, int] = {}
        # Events that an earlier process wrote, as hashes: read with the host's first event, forgotten once the queue is empty.
        self._earlier: set[int] | None = None

    # -- our own

    def warn(self, obj: Obj, reason: str, message: str, *, beside: bool = False, last: bool = False) -> None:
        """Warn the tenant about one of its objects, with an event on it; `beside` others of the same reason.

        `last` is for an event that says why the object ends. Any other is dropped if its object is gone before its turn.
        """
        key = _key(obj, f"{reason}\0{message}" if beside else reason)
        told, now = self._told.get(key, _NEVER), self._clock.monotonic()
        count = told.times + 1
        if key in self._ours:
            # Not written yet: then with the latest text.
            self._told[key] = told._replace(times=count, message=message)
            self._ours[key] = _Waiting(self._event(key, obj, reason, message, count), last)
            return
        same = message == told.message
        after = max(0.0, told.at + (told.pause if same else told.pause / _SOONER_WITH_NEWS) - now)
        if same and after > 0:
            self._told[key] = told._replace(times=count)
            return
        if self._caches.namespace_ending(key.namespace):
            # Or it is only not seen yet, and then the next warning is written.
            return
        self._told[key] = _Told(now + after, count, min(_LONGEST_REPEAT_SECONDS, told.pause * 2), message)
        self._ours[key] = _Waiting(self._event(key, obj, reason, message, count), last)
        if not self._queue.add_after(key, after):
            self._ours.pop(key, None)
            metrics.EVENTS_DROPPED.inc()

    def _event(self, key: Key, obj: Obj, reason: str, message: str, count: int) -> Obj:
        stamp = timestamp(self._clock.now())
        meta = obj["metadata"]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "involvedObject": {
                "apiVersion": obj.get("apiVersion", "v1"),
                "kind": obj.get("kind", ""),
                "namespace": key.namespace,
                "name": meta.get("name", ""),
                "uid": meta.get("uid", ""),
            },
            "reason": reason,
            "message": message[:1024],
            "type": "Normal" if reason in _NORMAL else "Warning",
            "source": {"component": "bulkhead"},
            "reportingComponent": "bulkhead",
            "reportingInstance": "",
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": count,
        }

    def _take_ours(self, key: Key) -> Obj | None:
        """The warning that waits under this key, if it is still worth writing."""
        waiting = self._ours.pop(key, None)
        if waiting is None or waiting.last or not self._is_gone(waiting.event["involvedObject"]):
            return waiting.event if waiting is not None else None
        # It was never told: if the object is only not seen yet, the next warning is written.
        self._told.pop(key, None)
        return None

    def _is_gone(self, involved: Obj) -> bool:
        """Whether the object, as far as the copies of the plane know, is gone or has made place for another of its name."""
        informer = self._caches.virtual.get(str(involved["kind"]))
        if informer is None:
            return False
        meta = informer.store.meta(Key(str(involved["namespace"]), str(involved["name"])))
        return meta is None or meta.uid != involved["uid"]

    # -- the host's

    def subscriptions(self) -> Iterable[Subscription]:
        """The host's events."""
        return (Subscription("host", "Event", self.heard),)

    def heard(self, change: Change) -> None:
        """Take a host event that came, was repeated or is gone."""
        if change.kind == "deleted":
            self._mirrored.pop(change.key, None)
            return
        # Our own warnings come first.
        if not self._queue.add(change.key, Lane.BACKFILL):
            metrics.EVENTS_DROPPED.inc()

    async def run(self) -> None:
        """Write what waits, within the rate, for ever."""
        while True:
            try:
                key = await self._queue.get()
            except QueueClosed:
                return
            try:
                await self._tell(key)
            except Exception:  # noqa: BLE001 -- a hostile object must not end the recorder
                _log.exception("event not understood", extra=about("Event", key))
            finally:
                self._queue.done(key)
                if self._earlier and not len(self._queue):
                    self._earlier.clear()

    async def _tell(self, key: Key) -> None:
        """Write what waits under this key, or keep it for later."""
        looks = self._later.pop(key, 0)
        waiting = self._ours.get(key)
        if waiting is None:
            await self._give_way()
            if self._earlier is None:
                self._earlier = await self._read_earlier()
            # A warning can have come while this waited.
            waiting = self._ours.get(key)
        event = self._take_ours(key) if waiting is not None else self._from_host(key, looks)
        if event is None:
            return
        try:
            await self._write(event)
        except KubeError as error:
            _log.debug("event not written: %s", error, extra=about("Event", key))
            if not self._keep(key, waiting, looks, error):
                metrics.EVENTS_DROPPED.inc()
        await self._clock.sleep(1 / RATE)

    def _keep(self, key: Key, waiting: _Waiting | None, looks: int, error: KubeError) -> bool:
        """Keep an event for later that the plane's API server could not take now. False if it is lost."""
        if not may_pass(error) or not self._look_again(key, looks, _REFUSED_SECONDS):
            return False
        if waiting is None:
            self._mirrored.pop(key, None)
        else:
            # Unless a later text came while this one was written.
            self._ours.setdefault(key, waiting)
        return True

    async def _read_earlier(self) -> set[int]:
        """The events that the plane has, as many as may wait here."""
        found: set[int] = set()
        try:
            pages = self._plane.pages(EVENTS, limit=_PAGE, metadata_only=True)
            async with contextlib.aclosing(pages):
                async for page in pages:
                    found |= {hash(decode_meta(item).key) for item in page.items[: _QUEUED - len(found)]}
                    if len(found) >= _QUEUED:
                        break
        except KubeError as error:
            _log.debug("earlier events not read: %s", error)
        return found

    async def _give_way(self) -> None:
        until = self._clock.monotonic() + _GIVE_WAY_SECONDS
        while self.busy() and self._clock.monotonic() < until:
            await self._clock.sleep(_GIVE_WAY_STEP)

    def _from_host(self, key: Key, looks: int) -> Obj | None:
        event = self._caches.host["Event"].store.get(key)
        if event is None:
            return None
        version = str(event["metadata"].get("resourceVersion", ""))
        if self._mirrored.get(key) == version:
            return None
        about = self._virtual_of(key, event, looks)
        if about is None:
            return None
        self._mirrored[key] = version
        view = self._caches.view()
        mirrored = event_translation.to_virtual(event, about, view)
        unwanted = event_translation.waits_for_tokens(event, about, view) or self._written_earlier(key_of(mirrored))
        return None if unwanted else mirrored

    def _virtual_of(self, key: Key, event: Obj, looks: int) -> Obj | None:
        """The tenant's object that a host event is about, with its kind."""
        kind, name = event_translation.involved(event, WITH_EVENTS)
        if kind not in self._caches.host:
            return None
        meta = self._caches.host[kind].store.meta(Key(key.namespace, name))
        if meta is None or (event.get("involvedObject") or {}).get("uid") not in {None, "", meta.uid}:
            self._look_again(key, looks, _EARLY_SECONDS)
            return None
        identity = self._caches.origin(meta)
        if identity is None or identity.kind != kind or self._caches.namespace_ending(identity.namespace):
            return None
        virtual = self._caches.virtual[kind].store.get(Key(identity.namespace, identity.name))
        return virtual | {"kind": kind} if virtual is not None and uid_of(virtual) == identity.uid else None

    def _look_again(self, key: Key, looks: int, pauses: Sequence[float]) -> bool:
        """Look at an event again after the pause that is next. False if it had them all, or too many wait."""
        if looks >= len(pauses) or len(self._later) >= _LATER_AT_ONCE:
            return False
        if not self._queue.add_after(key, pauses[looks], Lane.BACKFILL):
            return False
        self._later[key] = looks + 1
        return True

    def _written_earlier(self, key: Key) -> bool:
        """Whether an earlier process wrote this event; true once only, because its next version is news."""
        if not self._earlier or hash(key) not in self._earlier:
            return False
        self._earlier.discard(hash(key))
        return True

    async def _write(self, event: Obj) -> None:
        key = key_of(event)
        metrics.virtual_write("Event", "create")
        try:
            await self._plane.create(EVENTS, event)
        except AlreadyExists:
            news = {
                name: event[name] for name in ("count", "lastTimestamp", "message", "series") if event.get(name) is not None
            }
            await self._plane.patch(EVENTS, key.name, news, key.namespace)


def _key(obj: Obj, what: str) -> Key:
    """The name of the event that says this of an object."""
    about_key = key_of(obj)
    digest = hashlib.sha256(f"{uid_of(obj)}\0{what}".encode("utf-8", "replace")).hexdigest()[:16]
    return Key(about_key.namespace, f"{about_key.name[:230].rstrip('.-')}.{digest}")
