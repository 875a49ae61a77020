"""What a tenant's user sees: own quota, own pods, why each waits. From what the plane shows and nothing else. Pure.

    ConfigMap kube-public/bulkhead-quota ──> lines with nominal, used, borrowed, lent; places in the queue
    pods of the plane ──> which wait, why, and where the others hold devices

A user of the plane may have written any of it, so a field of the wrong shape reads as absent.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import ownquota, podresources
from bulkhead.api.conditions import condition_of
from bulkhead.api.ledger import Place, line_name, moment
from bulkhead.api.objects import Obj
from bulkhead.api.ownquota import OwnQuota
from bulkhead.api.podphase import has_ended, is_pending_deletion, placed_on
from bulkhead.api.quantity import base_units, unit_of
from bulkhead.api.untrusted import mapping, mappings, text
from workstation.console.picture import MAX_NAME_CHARS, MAX_TEXT_CHARS

_MAX_ROWS: Final = 500
_COUNTS: Final = ("nominal", "ceiling", "used", "borrowed", "lent")
_LARGEST: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class OwnPod:
    """A pod of the user's plane."""

    namespace: str
    name: str
    uid: str
    phase: str
    node: str
    created: str
    # Why it has no node yet, if it says so; or that it is being evicted.
    reason: str
    text: str
    asks: Mapping[str, int]

    @property
    def waits(self) -> bool:
        """Whether it has no node and could get one."""
        return not self.node and self.phase not in {"Succeeded", "Failed", "Ending"}


def pod_of(pod: Obj) -> OwnPod | None:
    """A pod that has not ended."""
    meta = mapping(pod.get("metadata"))
    if has_ended(pod):
        return None
    names = {
        name for part in mappings(mapping(pod.get("spec")).get("containers"), 256) for name in _requests(part) if "/" in name
    }
    asks = {name: base_units(name, podresources.requested(pod, name), "up") for name in sorted(names)[:16]}
    told = _told(pod)
    return OwnPod(
        namespace=text(meta.get("namespace"))[:MAX_NAME_CHARS],
        name=text(meta.get("name"))[:MAX_NAME_CHARS],
        uid=text(meta.get("uid")),
        phase="Ending" if is_pending_deletion(pod) else text(mapping(pod.get("status")).get("phase"))[:64],
        node=placed_on(pod)[:MAX_NAME_CHARS],
        created=text(meta.get("creationTimestamp")),
        reason=text(told.get("reason"))[:200],
        text=text(told.get("message"))[:MAX_TEXT_CHARS],
        asks={name: amount for name, amount in asks.items() if amount > 0},
    )


def _requests(container: Mapping[str, Any]) -> list[str]:
    resources = mapping(container.get("resources"))
    return [*mapping(resources.get("requests")), *mapping(resources.get("limits"))]


def _told(pod: Obj) -> Mapping[str, Any]:
    disrupted, scheduled = condition_of(pod, "DisruptionTarget"), condition_of(pod, "PodScheduled")
    if disrupted.get("status") == "True":
        return disrupted
    return scheduled if scheduled.get("status") == "False" else {}


def picture_of(quota: Obj | None, pods: Sequence[OwnPod], source: str, at: str, unread: Sequence[str]) -> dict[str, Any]:
    """What the page of a tenant's user shows."""
    found = ownquota.read(quota or {})
    own = found[0] if found is not None else OwnQuota()
    places = own.queue
    waiting = sorted(
        (pod for pod in pods if pod.waits), key=lambda pod: (_place(places, pod) or _LARGEST, pod.created, pod.name)
    )
    holding = sorted((pod for pod in pods if pod.node and pod.asks), key=lambda pod: (pod.node, pod.namespace, pod.name))
    return {
        "at": at,
        "source": source,
        "told": found is not None,
        "lines": list(_lines(own)),
        "limits": [[part[:MAX_NAME_CHARS] for part in (limit.name, limit.used, limit.hard)] for limit in own.limits],
        "phases": dict(Counter(pod.phase for pod in pods)),
        "waiting": [_row(pod, places) for pod in waiting[:_MAX_ROWS]],
        "waitingLeft": max(0, len(waiting) - _MAX_ROWS),
        "holding": [_row(pod, {}) for pod in holding[:_MAX_ROWS]],
        "holdingLeft": max(0, len(holding) - _MAX_ROWS),
        "unread": list(unread),
    }


def _row(pod: OwnPod, places: Mapping[str, Place]) -> dict[str, Any]:
    return {
        "name": f"{pod.namespace}/{pod.name}",
        "phase": pod.phase,
        "node": pod.node,
        "since": pod.created,
        "reason": pod.reason,
        "text": pod.text,
        "asks": ", ".join(f"{amount} {name}" for name, amount in pod.asks.items()),
        "place": _place(places, pod),
        "starts": _starts(places, pod),
    }


def _place(places: Mapping[str, Place], pod: OwnPod) -> int | None:
    place = places.get(pod.uid)
    return place.number if place is not None else None


def _starts(places: Mapping[str, Place], pod: OwnPod) -> str:
    place = places.get(pod.uid)
    return moment(place.starts_by) if place is not None and place.starts_by is not None else ""


def _lines(own: OwnQuota) -> Iterable[dict[str, Any]]:
    for line in own.lines:
        unit = "devices" if "/" in line.resource else unit_of(line.resource)
        counts = {name: getattr(line, name) for name in _COUNTS}
        name = line_name(line.flavor[:MAX_NAME_CHARS], line.resource[:MAX_NAME_CHARS])
        yield {"name": name, "unit": unit, "rows": [{"tenant": "", "waiting": 0, **counts}]}
