"""Keeps the decoded host pods, together with own writes that the host's watch has not shown yet.

    event ──> Seen ──┐ older than an own write? ── yes ──> ignored, for at most half a minute
    answer to a write ┴──> by UID ──> pods of the next decision
    no answer ──> doubt: counts as written ──> read again before the next decision
    an answer without the pod, to an eviction ──> counts as ending ──> read again if the watch does not show it in half a minute

This module sends no requests.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube.codec import decode_meta, decode_obj
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Meta, is_older
from bulkhead.ledger import read
from bulkhead.ledger.model import GATED, Pod
from controller.dispatch.hostpod import Seen, decoded

# A few hundred bytes each. Small needs are shared between pods, and are not counted.
MOST_REQUIREMENTS_OF_A_TENANT: Final = 65_536
# Longer than the delay of any watch on a host that works.
_WRITE_SHOWN_WITHIN_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Own:
    """An own write that the informer has not shown yet."""

    version: str
    until: float


class Pods:
    """All host pods by UID, filled by one informer through its `shrink` and `on_change`."""

    def __init__(self, monotonic: Callable[[], float], changed: Callable[[], None]) -> None:
        self._monotonic = monotonic
        self._changed = changed
        self._seen: dict[str, Seen] = {}
        self._own: dict[str, _Own] = {}
        self._doubts: dict[str, Pod] = {}
        # Pods whose end the host has accepted and the informer has not shown: until when it should.
        self._ends: dict[str, float] = {}
        # By tenant: how many requirements its pods have that are not shared between pods.
        self._weights: Counter[str] = Counter()
        # The pod that `shrink` decoded last: the informer calls `heard` right after, if at all.
        self._next: Seen | None = None

    def shrink(self, raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
        """Decode a pod for the informer, which itself keeps only the name."""
        found = meta or decode_meta(raw)
        bare = Meta(name=found.name, namespace=found.namespace, uid=found.uid, resource_version=found.resource_version)
        before = self._seen.get(found.uid)
        if before is not None and before.version == found.resource_version and self._is_as_it_was_read(before):
            # The answer to an own write had it already: decoding is most of what a large reclaim costs.
            self._next = before
        else:
            self._next = decoded(decode_obj(raw), self._monotonic(), before)
        return bare, b"" if self._next is None else b"{}"

    def heard(self, change: Change) -> None:
        """Take a change from the informer."""
        uid = change.meta.uid
        if change.kind == "deleted":
            self._forget(uid)
        elif self._next is not None and self._next.pod.uid == uid and not self._behind(uid, self._next):
            self._take(self._next)

    def answered(self, obj: Obj) -> None:
        """Take the host's answer to a write or a read, which its watch shows only later."""
        seen = decoded(obj, self._monotonic())
        uid = str(mapping(obj.get("metadata")).get("uid") or "")
        self._doubts.pop(uid, None)
        ended = self._ends.pop(uid, None) is not None
        if seen is None:
            self._forget(uid)
        elif uid not in self._seen:
            # The pod was deleted since, and the watch has shown that.
            return
        elif is_older(self._seen[uid].version, seen.version) or (ended and not seen.pod.ending):
            self._own[uid] = _Own(seen.version, self._monotonic() + _WRITE_SHOWN_WITHIN_SECONDS)
            self._take(seen)
        elif seen.version == self._seen[uid].version:
            self._own.pop(uid, None)

    def gone(self, uid: str) -> None:
        """Forget a pod: the host no longer has it, or has another one with its name."""
        self._forget(uid)

    def doubt(self, pod: Pod) -> None:
        """Note that an unanswered write may have changed the pod to this."""
        self._doubts[pod.uid] = pod

    def ends(self, uid: str) -> None:
        """Note that the host has accepted a pod's end, in an answer without the pod; its watch shows the rest."""
        seen = self._seen.get(uid)
        if seen is not None and not seen.pod.ending:
            self._ends[uid] = self._monotonic() + _WRITE_SHOWN_WITHIN_SECONDS
            self._take(seen)

    def doubts(self) -> list[Pod]:
        """Pods that must be read again: a write got no answer, or the watch has not shown it in time."""
        now = self._monotonic()
        late = {uid for uid, own in self._own.items() if own.until <= now}
        late |= {uid for uid, until in self._ends.items() if until <= now}
        late -= self._doubts.keys()
        return [*self._doubts.values(), *(self._seen[uid].pod for uid in late if uid in self._seen)]

    def __len__(self) -> int:
        return len(self._seen)

    def get(self, uid: str) -> Seen | None:
        """One pod."""
        return self._seen.get(uid)

    def seen(self) -> Iterator[Seen]:
        """Every pod."""
        return iter(self._seen.values())

    def all(self) -> tuple[Pod, ...]:
        """Every pod, as the next decision uses it."""
        if not self._doubts:
            return tuple(seen.pod for seen in self._seen.values())
        return tuple(self._doubts.get(uid, seen.pod) for uid, seen in self._seen.items())

    def any_open(self) -> bool:
        """Whether any pod has the gate, or is being reclaimed."""
        return any(seen.reclaim is not None or seen.pod.stage in GATED for seen in self._seen.values())

    def _is_as_it_was_read(self, seen: Seen) -> bool:
        """Whether nothing of it was replaced here: an end that no watch has shown, or needs beyond its tenant's share."""
        return seen.pod.uid not in self._ends and seen.pod.needs is not read.NOWHERE

    def _take(self, seen: Seen) -> None:
        before = self._seen.get(seen.pod.uid)
        if seen.pod.ending:
            self._ends.pop(seen.pod.uid, None)
        elif seen.pod.uid in self._ends:
            # An event from before the end that was accepted.
            seen = replace(seen, pod=replace(seen.pod, ending=True))
        if before is not None:
            seen = replace(seen, since=before.since)
        seen = self._bounded(seen, before)
        self._seen[seen.pod.uid] = seen
        if not seen.same(before):
            self._changed()

    def _bounded(self, seen: Seen, before: Seen | None) -> Seen:
        """Limit the memory for needs with many requirements: beyond its tenant's share a pod counts as fitting no node."""
        self._release(before)
        weight = _weight(seen)
        if not weight:
            return seen
        if self._weights[seen.pod.tenant] + weight > MOST_REQUIREMENTS_OF_A_TENANT:
            return replace(seen, pod=replace(seen.pod, needs=read.NOWHERE))
        self._weights[seen.pod.tenant] += weight
        return seen

    def _release(self, seen: Seen | None) -> None:
        weight = 0 if seen is None else _weight(seen)
        if seen is not None and weight:
            self._weights[seen.pod.tenant] -= weight
            if not self._weights[seen.pod.tenant]:
                del self._weights[seen.pod.tenant]

    def _behind(self, uid: str, seen: Seen) -> bool:
        own = self._own.get(uid)
        if own is None:
            return False
        if is_older(seen.version, own.version) and self._monotonic() < own.until:
            return True
        del self._own[uid]
        return False

    def _forget(self, uid: str) -> None:
        self._own.pop(uid, None)
        self._ends.pop(uid, None)
        self._doubts.pop(uid, None)
        gone = self._seen.pop(uid, None)
        if gone is not None:
            self._release(gone)
            self._changed()


def _weight(seen: Seen) -> int:
    weight = read.weight(seen.pod.needs)
    return weight if weight > read.SHARED_REQUIREMENTS else 0
