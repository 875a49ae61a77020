"""What the containers of a pod say, in words for people: how they ended, or what keeps them from running. Pure.

A field of the wrong shape reads as absent: a tenant may have written it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bulkhead.api.untrusted import mapping, mappings, text
from workstation.cli.trouble import WAITING

_MAX_CONTAINERS: Final = 8
_LONGEST: Final = 500


def how_it_ended(pod: Mapping[str, Any]) -> str:
    """How a pod failed; empty for one that has not, or of which nothing is known."""
    status = mapping(pod.get("status"))
    if status.get("phase") != "Failed":
        return ""
    return "; ".join(part[:_LONGEST] for part in _endings(status))


def what_keeps_it(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Reason and message of the first container that cannot run, such as for its image; empty if there is none."""
    for container in _containers(mapping(pod.get("status"))):
        waiting = mapping(mapping(container.get("state")).get("waiting"))
        reason = text(waiting.get("reason"))
        if reason in WAITING:
            message = text(waiting.get("message"))
            return reason, f"container {text(container.get('name'))}{f': {message}' if message else ''}"[:_LONGEST]
    return "", ""


def _endings(status: Mapping[str, Any]) -> Iterator[str]:
    if reason := text(status.get("reason")):
        message = text(status.get("message"))
        yield f"{reason}: {message}" if message else reason
    for container in _containers(status)[:_MAX_CONTAINERS]:
        ended = mapping(mapping(container.get("state")).get("terminated"))
        code, reason, message = ended.get("exitCode"), text(ended.get("reason")), text(ended.get("message"))
        if not ended or (code == 0 and not message):
            continue
        named = f"{reason}, " if reason not in {"", "Error", "Completed"} else ""
        yield f"container {text(container.get('name'))}: {named}exit code {code}{f': {message}' if message else ''}"


def _containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*mappings(status.get("initContainerStatuses"), 64), *mappings(status.get("containerStatuses"), 64)]
