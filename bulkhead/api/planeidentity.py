"""Which data a plane has: what the host remembers of it, and whether the plane that answers is still that one.

    syncer ──> ConfigMap plane-identity in the plane's namespace: UID of kube-system, highest revision, quarantine, acceptance,
                   │                                              what the mass-delete breaker counted, whether it is open,
                   │                                              which kind is too large
                   └──> controller: DataLost, SyncerReady; `bulkhead tenant accept-data`

A plane whose volume was lost comes up empty with another UID; one that was restored from an older copy has an older revision.
Then what the host holds was made for data that is gone. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text

NAME: Final = "plane-identity"
UID_KEY: Final = "clusterUID"
REVISION_KEY: Final = "highestRevision"
QUARANTINE_KEY: Final = "quarantine"
# When an admin's acceptance of the plane's data was noticed.
ACCEPTED_KEY: Final = "acceptedAt"
# When the breaker last counted an object that had vanished, and how many it had counted within its window then.
ABSENCES_KEY: Final = "absences"
# Why the breaker is open; it stays so until an admin accepts the plane's data.
BREAKER_KEY: Final = "breakerOpen"
# Which of the plane's objects its syncer cannot know, and so does not mirror.
INCOMPLETE_KEY: Final = "incomplete"
# So long after it, what the plane does not have is deleted on the host without a limit.
ACCEPTED_SECONDS: Final = 600.0
# Beside it, from the first pod on that the host has placed (`syncer/write/placed.py`).
PLACED_NAME: Final = "placed-pods-recent"
_LONGEST: Final = 256


@dataclass(frozen=True, slots=True)
class Observed:
    """The plane as it answers now."""

    uid: str
    revision: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """The plane as the host remembers it; empty where it remembers none."""

    uid: str = ""
    revision: int = 0
    quarantine: str = ""
    accepted: str = ""  # a timestamp
    absences: str = ""  # a timestamp and a number
    breaker_open: str = ""
    incomplete: str = ""


def recorded(config_map: Mapping[str, Any] | None) -> Recorded:
    """What such a ConfigMap says."""
    data = mapping(mapping(config_map).get("data"))
    revision = text(data.get(REVISION_KEY))
    number = int(revision) if len(revision) < 20 and revision.isascii() and revision.isdigit() else 0
    keys = (UID_KEY, QUARANTINE_KEY, ACCEPTED_KEY, ABSENCES_KEY, BREAKER_KEY, INCOMPLETE_KEY)
    uid, *texts = (text(data.get(key))[:_LONGEST] for key in keys)
    return Recorded(uid, number, *texts)


def config_map(namespace: str, data: Mapping[str, str]) -> Obj:
    """A record that is written where there is none."""
    meta = {"name": NAME, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}


def reported_uid(tenant: Mapping[str, Any]) -> str:
    """The UID of the data that a Tenant's status names; empty if its plane never had any."""
    return text(mapping(tenant.get("status")).get("planeClusterUID"))


def seconds_accepted(record: Recorded, now: datetime) -> float:
    """For how many seconds more an acceptance counts; 0 if there is none, or if its time is wrong."""
    try:
        age = (now - datetime.fromisoformat(record.accepted)).total_seconds()
    except (ValueError, TypeError):  # not a time, or one without a zone
        return 0.0
    return max(0.0, ACCEPTED_SECONDS - abs(age))


def absences_counted(record: Recorded, now: datetime) -> tuple[int, float]:
    """How many absences the breaker had counted within its window, and how many seconds ago; a time to come counts as now."""
    at, _, number = record.absences.partition(" ")
    try:
        age = (now - datetime.fromisoformat(at)).total_seconds()
        return (max(0, int(number)), max(0.0, age)) if len(number) < 10 else (0, 0.0)
    except (ValueError, TypeError):
        return 0, 0.0


def judge(record: Recorded, seen: Observed) -> str:
    """Why the plane that answers is not the one that the host remembers, or an empty text."""
    if record.quarantine:
        return record.quarantine
    if record.uid and record.uid != seen.uid:
        return changed(record.uid, seen.uid)
    if record.revision > seen.revision:
        return f"plane went back in time: revision was {record.revision}, is {seen.revision}"
    return ""


def changed(before: str, now: str) -> str:
    """Another plane answers than before."""
    return f"plane changed identity: cluster UID was {before}, is {now}"


def lost(record: Recorded, reported: str, seen: str) -> str:
    """Why the plane's data is not what it was, or an empty text.

    `reported` is the UID that the tenant's status names, which counts where the record was lost with the plane; `seen` is the
    UID that the plane answers with, empty where that is not known now.
    """
    if record.quarantine:
        return record.quarantine
    before = record.uid or reported
    return changed(before, seen) if before and seen and before != seen else ""
