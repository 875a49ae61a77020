"""Notes where pods are on their way, and decides their traces when they have arrived (`bulkhead/tracing/podway.py`).

    note("seen" | "created" | "bound") ──> remembered, exact ─┐
    arrived(before, host, status) ── runs now? ── sampled? ───┴─> spans ──> offered to the sender

A trace is decided once: by the process that writes the status with which the pod begins to run in the plane. `Untraced` is
what pods are reconciled with while traces are off; it does nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from bulkhead.api import ledger
from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import placed_on
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.kube.objects import key_of, uid_of
from bulkhead.tracing import podway
from bulkhead.tracing.spans import Span, is_sampled, seconds_of
from bulkhead.work.clock import Clock
from bulkhead.work.remembered import Remembered

# Pods on their way whose moments are remembered, of others the API servers' whole seconds count; and pods that have arrived.
MAX_REMEMBERED_PODS: Final = 4096
_MAX_CONTAINERS: Final = 64
_ARRIVED: Final = frozenset({"Running", "Succeeded", "Failed"})


class Untraced:
    """Traces are off."""

    def note(self, moment: str, virtual: Obj) -> None:
        """A pod has reached a station of its way now: `seen`, `created` or `bound`. The first time counts."""

    def arrived(self, before: Obj, host: Obj, status: Mapping[str, Any]) -> None:
        """A status was written to the plane; `before` is the virtual pod as it was."""


UNTRACED: Final = Untraced()


class PodTraces(Untraced):
    """Traces are on."""

    def __init__(self, tenant: str, one_in: int, clock: Clock, offer: Callable[[Iterable[Span]], None]) -> None:
        self._tenant = tenant
        self._one_in = one_in
        self._clock = clock
        self._offer = offer
        self._moments: Remembered[str, dict[str, float]] = Remembered(MAX_REMEMBERED_PODS)
        # A tenant that writes a pod's phase back again and again would have all tenants' collector read it each time.
        self._arrived: Remembered[str, None] = Remembered(MAX_REMEMBERED_PODS)

    def note(self, moment: str, virtual: Obj) -> None:
        """A pod has reached a station of its way now."""
        uid = uid_of(virtual)
        if not self._is_sampled(uid) or text(mapping(virtual.get("status")).get("phase")) in _ARRIVED:
            return
        known = self._moments.get(uid)
        if known is None:
            known = self._moments[uid] = {}
        known.setdefault(moment, self._clock.now().timestamp())

    def arrived(self, before: Obj, host: Obj, status: Mapping[str, Any]) -> None:
        """Decide the pod's trace if the plane shows with this status that it runs, or has ended, and did not before."""
        phase, uid = text(status.get("phase")), uid_of(before)
        if phase not in _ARRIVED or text(mapping(before.get("status")).get("phase")) in _ARRIVED or not self._is_sampled(uid):
            return
        if uid in self._arrived:
            return
        self._arrived[uid] = None
        now, moments = self._clock.now().timestamp(), self._moments.pop(uid, {})
        names = podway.PodNames(self._tenant, *key_of(before), uid=uid, node=placed_on(host))
        self._offer(podway.arrived(names, times_of(before, host, moments, now), phase, now))

    def _is_sampled(self, uid: str) -> bool:
        return is_sampled(podway.trace_of_pod(self._tenant, uid), self._one_in)


def times_of(virtual: Obj, host: Obj, moments: Mapping[str, float], now: float) -> podway.PodTimes:
    """When a pod reached the stations of its way, as far as its objects and this process know."""
    admitted = ledger.read_admitted(mapping(mapping(host.get("metadata")).get("annotations")))
    return podway.PodTimes(
        created=seconds_of(mapping(virtual.get("metadata")).get("creationTimestamp")),
        mirrored=seconds_of(mapping(host.get("metadata")).get("creationTimestamp")) or now,
        admitted=admitted.at if admitted is not None else None,
        scheduled=_since(host, "PodScheduled"),
        prepared=_since(host, "PodReadyToStartContainers"),
        started=_last_start(mapping(host.get("status"))),
        seen=moments.get("seen"),
        created_on_host=moments.get("created"),
        bound=moments.get("bound"),
    )


def _since(pod: Obj, condition: str) -> float | None:
    found = condition_of(pod, condition)
    return seconds_of(found.get("lastTransitionTime")) if found.get("status") == "True" else None


def _last_start(status: Mapping[str, Any]) -> float | None:
    starts = (
        seconds_of(mapping(state).get("startedAt"))
        for container in mappings(status.get("containerStatuses"), _MAX_CONTAINERS)
        for state in mapping(container.get("state")).values()
    )
    return max((start for start in starts if start is not None), default=None)
