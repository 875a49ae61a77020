"""What the ledger says on host pods and quotas, read as docs/contracts.md has it: the judge's own reading. Pure.

Who finds a note that cannot be read has found a fault, so nothing is read leniently here.
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
    """When and where to a pod was admitted."""

    at: float  # seconds since 1970
    node: str


def read_admitted(annotations: Mapping[str, str]) -> Admitted | None:
    """What the ledger noted on a host pod when it admitted it; None where it noted nothing."""
    if _ADMITTED not in annotations:
        return None
    noted = json.loads(annotations[_ADMITTED])
    return Admitted(datetime.fromisoformat(noted["at"]).timestamp(), noted["node"])


def read_standing(annotations: Mapping[str, str]) -> dict[tuple[str, str], dict[str, int]]:
    """What a tenant's quota says that it has, holds, lends and borrows, by flavor and resource; empty where it says nothing."""
    found = {}
    for line, counts in json.loads(annotations.get(_STANDING, "{}")).items():
        resource, _, flavor = line.partition("@")
        found[flavor, resource] = {key: int(value) for key, value in counts.items()}
    return found
