"""Warnings about pods that do not start, derived from pods and events. Pure; for waits and `tenant describe`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings

WAITING = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
EVENTS = frozenset(
    {"FailedScheduling", "FailedCreate", "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "ProvisioningFailed"}
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that prevents an object from working."""

    subject: str
    reason: str
    message: str

    @property
    def key(self) -> tuple[str, str]:
        """The key by which two warnings are the same, although the numbers in their messages differ."""
        return (self.subject, self.reason)

    def __str__(self) -> str:
        """One line."""
        return f"{self.subject}: {self.reason}" + (f": {self.message}" if self.message else "")


def troubles(pods: Iterable[Obj], events: Iterable[Obj]) -> list[Trouble]:
    """Every trouble once, those of pods before those of events."""
    found: dict[tuple[str, str], Trouble] = {}
    for trouble in [item for pod in pods for item in _of_pod(pod)] + list(_of_events(events)):
        found.setdefault(trouble.key, trouble)
    return list(found.values())


def unscheduled(pods: Iterable[Obj]) -> list[tuple[Obj, dict[str, Any]]]:
    """Pods that may not or cannot run yet, with the condition that says why."""
    found = []
    for pod in pods:
        scheduled = condition_of(pod, "PodScheduled")
        if scheduled.get("status") == "False":
            found.append((pod, dict(scheduled)))
    return found


def _of_pod(pod: Obj) -> Iterator[Trouble]:
    name = f"pod {_name(pod)}"
    status = pod.get("status") or {}
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        # Use the words of the scheduler's event, so that both count as one trouble.
        reason = "FailedScheduling" if scheduled.get("reason") == "Unschedulable" else str(scheduled.get("reason") or "Pending")
        yield Trouble(name, reason, str(scheduled.get("message") or ""))
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in WAITING:
            continue
        ended = (container.get("lastState") or {}).get("terminated") or {}
        exit_note = f" ({_ended(pod, container, ended)})" if "exitCode" in ended else ""
        subject = f"{name}, container {container.get('name')}"
        yield Trouble(subject, str(waiting["reason"]), f"{waiting.get('message') or ''}{exit_note}".strip())


def _ended(pod: Obj, container: Obj, ended: Mapping[str, Any]) -> str:
    """How a container ended last; the bound that it hit, if the kernel ended it for memory."""
    if ended.get("reason") != "OOMKilled":
        return f"last exit code {ended['exitCode']}"
    limits = {
        item.get("name"): mapping(mapping(item.get("resources")).get("limits")).get("memory")
        for item in mappings(mapping(pod.get("spec")).get("containers"))
    }
    limit = limits.get(container.get("name")) or "of its pod or node"
    return f"out of memory {container.get('restartCount') or 1} times, limit {limit}"


def _of_events(events: Iterable[Obj]) -> Iterator[Trouble]:
    for event in events:
        if event.get("type") != "Warning" or event.get("reason") not in EVENTS:
            continue
        subject = event.get("involvedObject") or {}
        name = f"{str(subject.get('kind') or 'object').lower()} {subject.get('name')}"
        yield Trouble(name, str(event["reason"]), str(event.get("message") or ""))


def _name(obj: Obj) -> str:
    return str((obj.get("metadata") or {}).get("name"))
