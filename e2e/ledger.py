"""Reads the ledger's annotations on host pods and quotas as docs/contracts.md defines them, with code of its own. Pure.

An annotation that cannot be read is a fault of the platform, so nothing here is lenient.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

GATE = "bulkhead.dev/ledger"  # scheduling gate of host pods that wait for the ledger
GANG = "bulkhead.dev/gang"  # on host pods of a gang
VERDICT = "ledger.bulkhead.dev/verdict"  # why a host pod waits
_ADMITTED = "ledger.bulkhead.dev/admitted"
_STANDING = "ledger.bulkhead.dev/standing"


@dataclass(frozen=True, slots=True)
class Admitted:
    """When a pod was admitted, and to which node."""

    at: float  # seconds since 1970
    node: str


def read_admitted(annotations: Mapping[str, str]) -> Admitted | None:
    """The ledger's note about the admission of a host pod; None if there is none."""
    if _ADMITTED not in annotations:
        return None
    noted = json.loads(annotations[_ADMITTED])
    return Admitted(datetime.fromisoformat(noted["at"]).timestamp(), noted["node"])


def read_standing(annotations: Mapping[str, str]) -> dict[tuple[str, str], dict[str, int]]:
    """What a tenant has, holds, lends and borrows by its quota's annotation, by flavor and resource; empty without it."""
    found = {}
    for line, counts in json.loads(annotations.get(_STANDING, "{}")).items():
        resource, _, flavor = line.partition("@")
        found[flavor, resource] = {key: int(value) for key, value in counts.items()}
    return found
