"""How much a tenant's pods and Services may take on the host: bytes of its pods, and endpoints of its Services (`reach`).

The host counts objects and not their size. What is there stays, whatever it takes; what comes on top, or grows, needs room.
All of it is in the caches of the host, so a start knows it without a read; a write that they do not show yet counts as well.
Pods that have ended lie in the host's store until they are deleted, so their bytes count, but they are endpoints of nothing.

    claim before the write -> counts until the object is seen -> counts as it is seen; dropped where the host refused the write

Only memory, no I/O: of each pod a number and the labels that the cache holds anyway.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended
from bulkhead.api.untrusted import mapping
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key
from bulkhead.work.clock import Clock
from syncer import metrics
from syncer.quota.reach import Labels, Reach, Target, target_of
from syncer.settings import Settings
from syncer.translate.reasons import Reason, Untranslatable

# A write that was answered and never showed: the object came and went between two lists.
_UNSEEN_SECONDS: Final = 60.0
_ENDED_POD: Final = "those that have ended among them"
_EACH: Final = "each pod counted once for each port"
_POD_WAITS: Final = "The pod starts when enough is free."
_CHANGE_WAITS: Final = "The pod changes on the host when enough is free."
_SERVICE_WAITS: Final = "The Service is mirrored when enough is free."
_SERVICE_STAYS: Final = "On the host it stays as it is until enough is free."

# Where an object stood: a pod's bytes, and its labels unless it has ended; a Service.
_Pod = tuple[int, Labels | None]
_NO_POD: Final[_Pod] = (0, None)
_NOTHING: Final = Target("", {}, 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that all of a tenant's pods, and all of its Services, may take."""

    pod_bytes: int
    endpoints: int

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        """The limits that the controller has set."""
        return cls(settings.most_pod_bytes, settings.most_service_endpoints)


class Extent:
    """What pods and Services take, and are about to take."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._clock = clock
        self._reach = Reach()
        self._sizes: dict[Key, int] = {}
        self._bytes = 0
        # What the cache shows of objects that are about to be another; the oldest claim first.
        self._pods_before: dict[Key, tuple[float, _Pod]] = {}
        self._targets_before: dict[Key, tuple[float, Target | None]] = {}
        self.adopt(limits)

    def adopt(self, limits: Limits) -> None:
        """Go by other limits from now on."""
        self.limits = limits
        metrics.POD_BYTES_LIMIT.set(limits.pod_bytes)
        metrics.SERVICE_ENDPOINTS_LIMIT.set(limits.endpoints)

    # -- what the host shows

    def pod_seen(self, change: Change, host: Obj | None, size: int) -> None:
        """A host pod as the cache has it now, and its bytes; None when it is gone."""
        self._pods_before.pop(change.key, None)
        if host is None or change.kind == "deleted":
            self._set_pod(change.key, _NO_POD)
        else:
            self._set_pod(change.key, (size, None if has_ended(host) else change.meta.labels or {}))

    def service_seen(self, change: Change, host: Obj | None) -> None:
        """A host Service as the cache has it now; None when it is gone."""
        self._targets_before.pop(change.key, None)
        self._set_target(change.key, None if host is None or change.kind == "deleted" else target_of(host))

    # -- what is about to be written: between the count and the taking nothing may be awaited

    def claim_pod(self, key: Key, desired: Obj) -> None:
        """Take what a new host pod takes, or refuse it."""
        self._claim_pod(key, (len(msgspec.json.encode(desired)), mapping(desired["metadata"].get("labels"))), _POD_WAITS)

    def claim_growth(self, key: Key, labels: Labels, grows: int) -> None:
        """Take what a change of a host pod's labels, and of its size, takes on top, or refuse it."""
        size, before = self._pod(key)
        self._claim_pod(key, (max(0, size + grows), None if before is None else labels), _CHANGE_WAITS)

    def claim_service(self, key: Key, desired: Obj, *, is_there: bool) -> None:
        """Take what a host Service reaches, or refuse it."""
        self._expire()
        target, before = target_of(desired), self._reach.target(key)
        after, most = self._reach.with_target(key, target), self.limits.endpoints
        if after > most and after > self._reach.total:
            others = self._reach.with_target(key, _NOTHING) - _NOTHING.endpoints(0)
            pods = (after - others) // max(1, target.ports)
            hope = _SERVICE_STAYS if is_there else _SERVICE_WAITS
            text = (
                f"Services may have {most} endpoints together, {_EACH}: this one would have {after - others} "
                f"({target.ports} ports, {pods} pods), all others have {others}. Use fewer ports, select fewer pods, "
                f"or delete Services. {hope}"
            )
            raise Untranslatable(Reason.QUOTA_EXCEEDED, text, "spec.ports")
        self._targets_before.setdefault(key, (self._clock.monotonic(), before))
        self._set_target(key, target)

    def drop_pod(self, key: Key) -> None:
        """The host refused the write: the pod is as it was."""
        if (claimed := self._pods_before.pop(key, None)) is not None:
            self._set_pod(key, claimed[1])

    def drop_service(self, key: Key) -> None:
        """The same of a Service."""
        if (claimed := self._targets_before.pop(key, None)) is not None:
            self._set_target(key, claimed[1])

    def _claim_pod(self, key: Key, now: _Pod, hope: str) -> None:
        self._expire()
        before = self._pod(key)
        self._check_bytes(before[0], now[0], hope)
        if now[1] is not None:
            self._check_reach(key, now[1], hope)
        self._pods_before.setdefault(key, (self._clock.monotonic(), before))
        self._set_pod(key, now)

    def _check_bytes(self, before: int, size: int, hope: str) -> None:
        most, others = self.limits.pod_bytes, self._bytes - before
        if size > before and others + size > most:
            text = (
                f"pods may have {most} bytes together on the host, {_ENDED_POD}: this one would have {size}, all others have "
                f"{others}. Delete pods that have ended, or move text into ConfigMaps. {hope}"
            )
            raise Untranslatable(Reason.QUOTA_EXCEEDED, text)

    def _check_reach(self, key: Key, labels: Labels, hope: str) -> None:
        most, after = self.limits.endpoints, self._reach.with_pod(key, labels)
        if after > most and after > self._reach.total:
            largest = self._reach.selecting(labels)[0]
            text = (
                f"Services may have {most} endpoints together, {_EACH}: with this pod they would have {after}. "
                f"Of those that select it, {largest.name} has most ports ({largest.ports}): use fewer ports, or delete "
                f"Services. {hope}"
            )
            raise Untranslatable(Reason.QUOTA_EXCEEDED, text)

    # -- what counts

    def _pod(self, key: Key) -> _Pod:
        return self._sizes.get(key, 0), self._reach.labels(key)

    def _set_pod(self, key: Key, now: _Pod) -> None:
        size, labels = now
        self._bytes += size - self._sizes.pop(key, 0)
        if size:
            self._sizes[key] = size
        self._reach.set_pod(key, labels)
        metrics.POD_BYTES.set(self._bytes)
        metrics.SERVICE_ENDPOINTS.set(self._reach.total)

    def _set_target(self, key: Key, now: Target | None) -> None:
        self._reach.set_target(key, now)
        metrics.SERVICE_ENDPOINTS.set(self._reach.total)

    def _expire(self) -> None:
        """Forget claims of which nothing was seen for long."""
        late = self._clock.monotonic() - _UNSEEN_SECONDS
        while self._pods_before and (oldest := next(iter(self._pods_before.items())))[1][0] <= late:
            self.drop_pod(oldest[0])
        while self._targets_before and (first := next(iter(self._targets_before.items())))[1][0] <= late:
            self.drop_service(first[0])
