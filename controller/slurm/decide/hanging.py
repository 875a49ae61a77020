"""Finds pods of a cluster that have waited too long for an image and never ran, so that they are recreated. Pure.

A pod keeps the image and pull secret with which it was created. A StatefulSet or NodeSet does not replace a pod whose old image
is missing. If the syncer did not know that an image is the platform's when it mirrored the pod, the host pod has no pull
secret. A new pod may not have such a fault; if it has, it hangs as well.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bulkhead.api.conditions import condition_of
from bulkhead.api.moments import moment_of
from bulkhead.api.objects import Obj

LONGEST_IMAGE_PULL: Final = timedelta(minutes=2)
MOST_PODS_A_RECONCILE: Final = 8
_REASONS: Final = frozenset({"ErrImagePull", "ImagePullBackOff"})


@dataclass(frozen=True, slots=True)
class Hanging:
    """A pod to delete, if it is still the one that was observed; its owner recreates it."""

    name: str
    uid: str


def hanging(pods: Iterable[Obj], now: datetime) -> tuple[Hanging, ...]:
    """The pods that have waited for an image longer than a normal pull takes, at most `MOST_PODS_A_RECONCILE`."""
    found = []
    for pod in pods:
        meta = pod["metadata"]
        if not meta.get("deletionTimestamp") and _waits_for_an_image(pod) and _placed_before(pod, now - LONGEST_IMAGE_PULL):
            found.append(Hanging(str(meta["name"]), str(meta.get("uid") or "")))
    return tuple(found[:MOST_PODS_A_RECONCILE])


def _waits_for_an_image(pod: Obj) -> bool:
    """Whether one of its containers waits for an image, and none runs or was ever restarted."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    waiting = [(status.get("state") or {}).get("waiting") for status in statuses]
    if not all(waiting) or any(status.get("restartCount") for status in statuses):
        return False
    return any(str(state.get("reason")) in _REASONS for state in waiting if state)


def _placed_before(pod: Obj, moment: datetime) -> bool:
    scheduled = condition_of(pod, "PodScheduled")
    since = moment_of(scheduled.get("lastTransitionTime"))
    return scheduled.get("status") == "True" and since is not None and since < moment
