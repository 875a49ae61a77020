"""Pods of a cluster that wait for an image and never ran: after a while they are made anew. Pure.

A pod keeps what it was made with: a StatefulSet leaves one alone whose former image is missing, so does a NodeSet, and the host
pod of one that the syncer took for somebody else's, for it knew other images of the platform then, has no pull secret. What is
wrong with a pod that hangs may be right with the next one; where it is not, that one hangs as this one did.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj

LONGEST_IMAGE_PULL: Final = timedelta(minutes=2)
MOST_PODS_A_RECONCILE: Final = 8
_REASONS: Final = frozenset({"ErrImagePull", "ImagePullBackOff"})


@dataclass(frozen=True, slots=True)
class Hanging:
    """A pod to delete, if it is still the one that was seen; its owner makes the next one."""

    name: str
    uid: str


def hanging(pods: Iterable[Obj], now: datetime) -> tuple[Hanging, ...]:
    """The pods that have waited for an image for longer than a pull that goes well takes, at most `MOST_PODS_A_RECONCILE`."""
    found = []
    for pod in pods:
        meta = pod["metadata"]
        if not meta.get("deletionTimestamp") and _waits_for_an_image(pod) and _placed_before(pod, now - LONGEST_IMAGE_PULL):
            found.append(Hanging(str(meta["name"]), str(meta.get("uid") or "")))
    return tuple(found[:MOST_PODS_A_RECONCILE])


def _waits_for_an_image(pod: Obj) -> bool:
    """Whether one of its containers does, and none of them runs or ever was started again."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    waiting = [(status.get("state") or {}).get("waiting") for status in statuses]
    if not all(waiting) or any(status.get("restartCount") for status in statuses):
        return False
    return any(str(state.get("reason")) in _REASONS for state in waiting if state)


def _placed_before(pod: Obj, moment: datetime) -> bool:
    scheduled = condition_of(pod, "PodScheduled")
    try:
        since = datetime.fromisoformat(str(scheduled.get("lastTransitionTime")))
    except ValueError:
        return False
    return scheduled.get("status") == "True" and since.tzinfo is not None and since < moment
