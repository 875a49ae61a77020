"""What a tenant's user sees: own quota, own pods, why each waits. From what the plane shows and nothing else. Pure.

    ConfigMap kube-public/bulkhead-quota ──> lines with nominal, used, borrowed, lent; places in the queue
    pods of the plane ──> which wait, why, and where the others hold devices

A user of the plane may have written any of it, so a field of the wrong shape reads as absent.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import podresources
from bulkhead.api.conditions import condition_of
from bulkhead.api.ledger import line_name
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended, is_pending_deletion, placed_on
from bulkhead.api.quantity import base_units, unit_of
from bulkhead.api.untrusted import mapping, mappings, text
from workstation.console.picture import MAX_NAME_CHARS, MAX_TEXT_CHARS

QUOTA_NAMESPACE: Final = "kube-public"
QUOTA_NAME: Final = "bulkhead-quota"
_FILE: Final = "quota.json"
_MAX_BYTES: Final = 64 * 1024
_MAX_LINES: Final = 64
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
    noted = _noted(quota)
    places = mapping(noted.get("queue"))
    waiting = sorted(
        (pod for pod in pods if pod.waits), key=lambda pod: (_place(places, pod) or _LARGEST, pod.created, pod.name)
    )
    holding = sorted((pod for pod in pods if pod.node and pod.asks), key=lambda pod: (pod.node, pod.namespace, pod.name))
    return {
        "at": at,
        "source": source,
        "told": bool(noted),
        "lines": list(_lines(noted)),
        "limits": [
            [text(limit.get(part))[:MAX_NAME_CHARS] for part in ("name", "used", "hard")] for limit in _some(noted, "limits")
        ],
        "phases": dict(Counter(pod.phase for pod in pods)),
        "waiting": [_row(pod, places) for pod in waiting[:_MAX_ROWS]],
        "waitingLeft": max(0, len(waiting) - _MAX_ROWS),
        "holding": [_row(pod, {}) for pod in holding[:_MAX_ROWS]],
        "holdingLeft": max(0, len(holding) - _MAX_ROWS),
        "unread": list(unread),
    }


def _row(pod: OwnPod, places: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": f"{pod.namespace}/{pod.name}",
        "phase": pod.phase,
        "node": pod.node,
        "since": pod.created,
        "reason": pod.reason,
        "text": pod.text,
        "asks": ", ".join(f"{amount} {name}" for name, amount in pod.asks.items()),
        "place": _place(places, pod),
        "starts": text(mapping(places.get(pod.uid)).get("startsBy"))[:64],
    }


def _place(places: Mapping[str, Any], pod: OwnPod) -> int | None:
    place = mapping(places.get(pod.uid)).get("place")
    return place if _is_count(place) else None


def _noted(quota: Obj | None) -> Mapping[str, Any]:
    written = text(mapping((quota or {}).get("data")).get(_FILE))
    if not written or len(written) > _MAX_BYTES:
        return {}
    try:
        found = mapping(json.loads(written))
    except (ValueError, RecursionError):
        return {}
    return found if found.get("version") == 1 else {}


def _some(noted: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    return list(mappings(noted.get(field), _MAX_LINES))


def _lines(noted: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for line in _some(noted, "lines"):
        resource, flavor = (text(line.get(part))[:MAX_NAME_CHARS] for part in ("resource", "flavor"))
        counts = {name: line.get(name) for name in _COUNTS}
        if resource and all(_is_count(count) for count in counts.values()):
            unit = "devices" if "/" in resource else unit_of(resource)
            yield {"name": line_name(flavor, resource), "unit": unit, "rows": [{"tenant": "", "waiting": 0, **counts}]}


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST
