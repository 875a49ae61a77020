"""What the ConfigMap `plane-members` tells an admin's tools, and how they ask for a recovery. Pure.

    controller ──> `heard`: the revision of each member's data, while no quorum is left
    `bulkhead tenant recover` ──> `recover`: the member to continue with ──> the controller does it, and clears it

The other keys are the controller's (`controller.plane.memberrecord`).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.untrusted import mapping, text

NAME: Final = "plane-members"
RECOVER: Final = "recover"
HEARD: Final = "heard"
_DIGITS: Final = re.compile("[0-9]{1,19}")
_LONGEST: Final = 256


def heard_text(revisions: Mapping[str, int]) -> str:
    """The revision of each member, by pod, as the ConfigMap has it."""
    return ",".join(f"{pod}={revision}" for pod, revision in sorted(revisions.items()))


def heard(config_map: Mapping[str, Any] | None) -> dict[str, int]:
    """The revisions in a ConfigMap, by pod; without those that are damaged."""
    entries = (
        entry.partition("=") for entry in text(mapping(mapping(config_map).get("data")).get(HEARD))[:_LONGEST].split(",")
    )
    return {pod: int(revision) for pod, _, revision in entries if _DIGITS.fullmatch(revision)}


def recovers(config_map: Mapping[str, Any] | None) -> str:
    """The member to continue with; empty if no recovery is asked for."""
    return text(mapping(mapping(config_map).get("data")).get(RECOVER))[:_LONGEST]
