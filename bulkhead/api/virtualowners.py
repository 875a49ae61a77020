"""What owns a virtual pod, as its syncer notes it on the host pod (`labels.VIRTUAL_OWNERS`).

A tenant chooses these names and UIDs within its own plane, so they tell apart what one tenant has, and never two tenants. What
has the wrong shape or is too long reads as no owner. Pure.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bulkhead.api import labels
from bulkhead.api.untrusted import mappings, text

_LONGEST_NOTE: Final = 65_536
_LONGEST_NAME: Final = 253  # as JSON writes it: other characters than those of Kubernetes' names take up to twelve


def owners_of(noted: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All owners that the annotations of a host pod name."""
    written = noted.get(labels.VIRTUAL_OWNERS)
    try:
        # Unlike Python's reader it takes no half of a surrogate pair, with which nothing that names it could be stored or sent.
        listed = msgspec.json.decode(written) if isinstance(written, str) and len(written) <= _LONGEST_NOTE else []
    except (ValueError, RecursionError):
        return []
    return mappings(listed)


def controller_of(noted: Mapping[str, Any]) -> Mapping[str, Any]:
    """The owner that controls the virtual pod; empty where none does."""
    return next((owner for owner in owners_of(noted) if owner.get("controller") is True), {})


def owner_name(controller: Mapping[str, Any], pod: str) -> str:
    """The owner by which usage is summed up: the controller as `Job/train`, or `Pod/<name>` of a pod that none controls."""
    named = f"{text(controller.get('kind'))}/{text(controller.get('name'))}" if controller else f"Pod/{pod}"
    return _cut(named[:_LONGEST_NAME])


def _cut(name: str) -> str:
    """As much of a name as is short enough in JSON, in which usage is stored: a tenant may write what it likes."""
    if len(json.dumps(name)) - 2 <= _LONGEST_NAME:
        return name
    room = _LONGEST_NAME
    for at, character in enumerate(name):
        room -= len(json.dumps(character)) - 2
        if room < 0:
            return name[:at]
    return name
