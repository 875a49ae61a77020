"""The trace of a pod's way, from its creation in a plane until the plane shows that it runs. Pure; time is passed in.

    pod ─┬─ seen        the plane's watch, and the syncer's queue
         ├─ mirrored    translation, references, quota; ends with the host pod
         ├─ admitted    only at the ledger's gate; by the ledger
         ├─ scheduled   by the host's scheduler
         ├─ bound       the plane learns the node that the host chose
         ├─ prepared    the kubelet's sandbox, network and volumes
         ├─ started     images, init containers, containers
         └─ reported    the plane shows it

The syncer decides all of them but `admitted`, once, when it has written the status that shows that the pod runs. Both programs
compute the same ids. What an API server or kubelet notes has whole seconds, what the syncer saw itself is exact; no span starts
before the one that it follows has ended.
"""

from dataclasses import dataclass
from typing import Final

from bulkhead.tracing.spans import Span, bounded, in_order, span_of, trace_of

ROOT: Final = "pod"
ADMITTED: Final = "pod.admitted"
# A plane may say anything of when its pod was created. Before that much it is not believed, and the host's time counts.
LONGEST_SECONDS: Final = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class PodNames:
    """How a pod is named. Only names: nothing else that a tenant writes is in a trace."""

    tenant: str
    namespace: str
    name: str
    uid: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class PodTimes:
    """When a pod reached the stations of its way, in seconds since 1970; None if that is unknown, or did not happen."""

    created: float | None  # in the plane, by the plane's word
    mirrored: float  # the host pod's creation, by the host's word
    admitted: float | None = None
    scheduled: float | None = None
    prepared: float | None = None
    started: float | None = None  # the last container's start
    # By the syncer's own clock; None after a restart in between.
    seen: float | None = None
    created_on_host: float | None = None
    bound: float | None = None


def trace_of_pod(tenant: str, uid: str) -> bytes:
    """The id of a pod's trace; `uid` is that of the virtual pod."""
    return trace_of("pod", tenant, uid)


def admitted(names: PodNames, created: float, at: float) -> Span:
    """The ledger's span: from the host pod's creation until its gate was removed."""
    trace = trace_of_pod(names.tenant, names.uid)
    return Span(
        ADMITTED,
        trace,
        span_of(trace, ADMITTED),
        min(created, at),
        at,
        parent=span_of(trace, ROOT),
        attributes=_attributes(names),
    )


def arrived(names: PodNames, times: PodTimes, phase: str, now: float) -> list[Span]:
    """The syncer's spans of a pod that the plane now shows as running or ended, the whole way first."""
    trace = trace_of_pod(names.tenant, names.uid)
    root, start = span_of(trace, ROOT), _start(times, now)
    parts = [
        Span(name, trace, span_of(trace, name), begin, end, parent=root, attributes=bounded({"bulkhead.tenant": names.tenant}))
        for name, begin, end in in_order(_reached(times, now), start, now)
        if name != ADMITTED  # it is the ledger's to send
    ]
    about = bounded({**_attributes(names), "bulkhead.pod.phase": phase})
    whole = Span(ROOT, trace, root, start, max(now, start), attributes=about, failure=phase if phase == "Failed" else "")
    return [whole, *parts]


def _start(times: PodTimes, now: float) -> float:
    first = min(times.mirrored, now)
    created = times.created
    return created if created is not None and first - LONGEST_SECONDS <= created <= first + 1 else first


def _reached(times: PodTimes, now: float) -> dict[str, float | None]:
    return {
        "pod.seen": times.seen,
        "pod.mirrored": times.created_on_host or times.mirrored,
        ADMITTED: times.admitted,
        "pod.scheduled": times.scheduled,
        "pod.bound": times.bound,
        "pod.prepared": times.prepared,
        "pod.started": times.started,
        "pod.reported": now,
    }


def _attributes(names: PodNames) -> dict[str, str | int | bool]:
    given = {
        "bulkhead.tenant": names.tenant,
        "k8s.namespace.name": names.namespace,
        "k8s.pod.name": names.name,
        "k8s.pod.uid": names.uid,
        "k8s.node.name": names.node,
    }
    return bounded({key: value for key, value in given.items() if value})
