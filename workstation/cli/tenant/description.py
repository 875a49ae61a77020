"""What is known of one tenant at one time. Pure; read by `describe`, shown by `describetext` and `describedocument`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bulkhead.api import accelerators, labels, podresources
from bulkhead.api.eventtimes import last_seen
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_ready, placed_on
from workstation.cli.trouble import Trouble


@dataclass(frozen=True, slots=True)
class Inside:
    """The pods that do not run, from the tenant's own API; `unknown` is why that is not known."""

    # Each pod with the condition that tells why.
    refused: tuple[tuple[Obj, dict[str, Any]], ...] = ()
    troubles: tuple[Trouble, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """All that the command shows of one tenant."""

    tenant: Obj
    # The namespace of its plane.
    plane: str
    pods: tuple[Obj, ...]
    troubles: tuple[Trouble, ...]
    quotas: tuple[Obj, ...]
    events: tuple[Obj, ...]
    inside: Inside


@dataclass(frozen=True, slots=True)
class PodLine:
    """A pod of the plane."""

    name: str
    ready: int
    containers: int
    phase: str
    restarts: int
    node: str


@dataclass(frozen=True, slots=True)
class EventLine:
    """An event at its latest occurrence; `when` is that time."""

    when: str
    type: str
    reason: str
    object: str
    message: str


def quota_lines(quotas: Iterable[Obj]) -> list[tuple[str, str, str]]:
    """Resource, used and limit of each line of quota on the host."""
    rows: list[tuple[str, str, str]] = []
    for quota in quotas:
        status = quota.get("status") or {}
        used = status.get("used") or {}
        rows += [(name, used.get(name, "0"), hard) for name, hard in sorted((status.get("hard") or {}).items())]
    return rows


def unlimited(counted: Iterable[str]) -> list[str]:
    """A resource that every pod uses and that no quota of the tenant limits, as a TenantClass names it."""
    known = {name.removeprefix("requests.").removeprefix("limits.") for name in counted}
    return [resource for resource in podresources.AMOUNTS if resource.removeprefix("requests.") not in known]


def pod_lines(pods: Iterable[Obj]) -> Iterator[PodLine]:
    """The parts of a plane's pods that are shown."""
    for pod in pods:
        status = pod.get("status") or {}
        containers = status.get("containerStatuses") or ()
        yield PodLine(
            name=str(pod["metadata"]["name"]),
            ready=sum(bool(item.get("ready")) for item in containers),
            containers=len((pod.get("spec") or {}).get("containers") or ()),
            phase=str(status.get("phase") or ""),
            restarts=sum(int(item.get("restartCount") or 0) for item in containers),
            node=placed_on(pod) or "",
        )


def event_lines(events: Sequence[Obj]) -> list[EventLine]:
    """Events by their latest occurrence, the newest last; repeated events once."""
    latest: dict[tuple[str, str, str, str], str] = {}
    for event in sorted(events, key=last_seen):
        subject = event.get("involvedObject") or {}
        name = f"{str(subject.get('kind') or '').lower()}/{subject.get('name')}"
        key = (str(event.get("type")), str(event.get("reason")), name, str(event.get("message") or ""))
        latest.pop(key, None)  # a repeated event moves to the end
        latest[key] = last_seen(event)
    return [EventLine(when, *key) for key, when in latest.items()]


def about(tenant: Obj, events: Iterable[Obj]) -> list[Obj]:
    """The events about this Tenant, and none about a former one of its name: the host keeps events for an hour."""
    name, uid = tenant["metadata"]["name"], tenant["metadata"].get("uid")
    subjects = ((event, event.get("involvedObject") or {}) for event in events)
    return [event for event, subject in subjects if subject.get("name") == name and subject.get("uid") in {None, "", uid}]


def without_startup(events: Iterable[Obj], pods: Iterable[Obj]) -> list[Obj]:
    """The events without failed startup probes of pods that have become ready: every API server has some while it starts."""
    ready = {str(pod["metadata"]["uid"]) for pod in pods if is_ready(pod)}
    return [event for event in events if not (_is_startup(event) and _subject_uid(event) in ready)]


def _is_startup(event: Obj) -> bool:
    return event.get("reason") == "Unhealthy" and str(event.get("message") or "").startswith("Startup probe")


def _subject_uid(event: Obj) -> str:
    return str((event.get("involvedObject") or {}).get("uid") or "")


def gpus_asked(pod: Obj) -> int | None:
    """The number of GPUs that the pod requests; None if it requests none."""
    found = accelerators.requested(pod, (labels.GPU,)).get(labels.GPU)
    return None if found is None else int(found)
