"""The identity of a plane: whether its record counts, and what to write where there is none. Pure.

    record there ── signed, of this Tenant, as the plane runs ──> Known (signed again if an older key signed it)
                 └─ anything else ──> Doubt: nothing of the plane is changed
    none there   ── a plane runs, or is reported ──> Write: the identity that it has
                 ├─ a plane is restored that is not there ──> Write: that of the snapshot
                 └─ nothing of a plane is there ──> Write: a new one, before anything is built

A new plane takes the UID of its first Tenant as its identity, as planes had it before there were records. So issuer, names and
token of those stay, nothing restarts, and an older release that takes over again finds every plane under its name.
"""

from dataclasses import dataclass
from typing import Final

from bulkhead.api import planerecord
from bulkhead.api.objects import Obj
from bulkhead.api.planerecord import PlaneRecord, RecordError
from bulkhead.signing import Ring, SignatureError, UnknownKeyError

_TOKEN: Final = "--initial-cluster-token="  # noqa: S105 - a flag of etcd
KEYS: Final = "bulkhead-identity"


class InDoubtError(Exception):
    """It is not certain whose plane this is."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is there.

    record: the signed record beside the plane; None if there is none.
    runs: the identity that the plane's StatefulSet was made for; empty if there is no StatefulSet.
    reported: the identity in the Tenant's status; empty if it has none.
    inherited: that of the snapshot from which a plane is restored that is not there; empty if it is not restored.
    """

    tenant: str
    uid: str
    record: str | None = None
    runs: str = ""
    reported: str = ""
    inherited: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """The record counts."""

    identity: str


@dataclass(frozen=True, slots=True)
class Write:
    """A record has to be written before anything else: none is there, or an earlier key signed it."""

    record: PlaneRecord
    why: str
    again: bool = False  # it is there, with an earlier signature

    @property
    def identity(self) -> str:
        """The identity in it."""
        return self.record.id


@dataclass(frozen=True, slots=True)
class Doubt:
    """It is not certain whose plane this is; the message says why, and what to do."""

    why: str


Decision = Known | Write | Doubt


def decide(facts: Facts, ring: Ring, now: str) -> Decision:
    """What to do about the record; `now` is the time that a new one notes."""
    if facts.record is None:
        return _unrecorded(facts, now)
    try:
        verified = ring.verify(planerecord.PURPOSE, facts.record)
        record = planerecord.read(verified.text)
    except (SignatureError, RecordError) as error:
        what = f"Secret {KEYS} of the controller's namespace" if isinstance(error, UnknownKeyError) else "it"
        return Doubt(f"{_where(facts)}: {error}. Restore {what} from a backup, or {_again(facts)}")
    why = _why_not(facts, record)
    if why:
        return Doubt(why)
    return Known(record.id) if verified.key == ring.current else Write(record, f"key {verified.key} had signed it", again=True)


def _why_not(facts: Facts, record: PlaneRecord) -> str:
    """Why a record is not the one of this plane; empty if it is."""
    if (record.tenant, record.tenant_uid) != (facts.tenant, facts.uid):
        return (
            f"{_where(facts)} is that of Tenant {record.tenant} with UID {record.tenant_uid}, and this is {facts.tenant} with "
            f"UID {facts.uid}: records were exchanged. Put the right one back, or {_again(facts)}"
        )
    for found, what in ((facts.runs, "its StatefulSet runs"), (facts.reported, "the Tenant's status reports")):
        if found and found != record.id:
            return f"{_where(facts)} names identity {record.id}, but {what} {found}. {_NEITHER}"
    return ""


def _unrecorded(facts: Facts, now: str) -> Decision:
    if facts.runs and facts.reported and facts.runs != facts.reported:
        return Doubt(
            f"{_where(facts)} is missing; the plane's StatefulSet runs identity {facts.runs}, and the Tenant's status reports "
            f"{facts.reported}. {_NEITHER}"
        )
    known = facts.runs or facts.reported or facts.inherited or facts.uid
    if not planerecord.is_identity(known):
        return Doubt(f"{_where(facts)} is missing, and what runs as {known[:64]!r} is not an identity")
    return Write(PlaneRecord(known, facts.tenant, facts.uid, now), "there was none")


def runs_as(stateful_set: Obj | None) -> str:
    """The identity that a plane's StatefulSet was made for; empty if there is none, or it names none."""
    if stateful_set is None:
        return ""
    containers = stateful_set["spec"].get("template", {}).get("spec", {}).get("containers") or []
    flags = [flag for entry in containers for flag in entry.get("command") or () if flag.startswith(_TOKEN)]
    return flags[0].removeprefix(_TOKEN) if flags else ""


_NEITHER: Final = "Nothing of the plane is changed until the two agree: restore the one that is wrong from a backup"


def _where(facts: Facts) -> str:
    return f"the record of the plane (Secret {planerecord.SECRET} in bh-{facts.tenant})"


def _again(facts: Facts) -> str:
    return (
        f"delete that Secret if the plane in bh-{facts.tenant} is known to be this tenant's: the record is made again from "
        "what runs there"
    )
