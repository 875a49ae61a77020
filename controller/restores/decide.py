"""The next step of a restore, from what is there now. Pure.

    Await ── the keys are there ──> Stop ── plane and syncer are gone ──> Prepare (note, claims, keys) ──> Fill
                                                                     every volume filled ──> Start ──> Compare ──> done

Each step is decided from the host's state, so that a controller may die between any two writes. Only one fact is recorded in
the TenantRestore before it is acted on: that every volume is filled. From then on the plane may start, and no step goes back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from bulkhead.snapshots.cloning import fits
from bulkhead.snapshots.manifest import Manifest
from controller.plane.restoring import ENCRYPTION, FORMER_FILE, FORMER_KEY

# Far beyond what a plane writes in its life between two restores.
BUMP: Final = 1_000_000_000
# A restore that has not filled a volume by then is given up; a store of 8 GiB at 5 MiB/s takes half of it.
GIVE_UP: Final = timedelta(minutes=60)
# A store beyond the largest quota; as snapshots are taken (`controller.snapshots.take`).
MOST_BYTES: Final = 16 * 1024**3
# For so long after the volumes were filled a comparison that a server refused is tried again. A plane that has just started
# and a host that throttles answer well before, and then no admin has to accept the data.
COMPARE_FOR: Final = timedelta(minutes=10)
_NOTE: Final = "restored from snapshot"


class WaitsError(Exception):
    """Nothing of the plane may be built yet; the message says what is awaited."""


class Step(StrEnum):
    """What a turn does next."""

    REFUSE = "refuse"
    AWAIT_KEYS = "await keys"
    STOP = "stop"
    PREPARE = "prepare"
    FILL = "fill"
    FILLED = "filled"
    START = "start"
    COMPARE = "compare"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is there.

    refused: why the snapshot cannot be used; empty if nothing speaks against it.
    began: the time from which the store is awaited: when the restore began, or without a plane, when an admin asked for it.
    filled: whether that is recorded in the TenantRestore.
    keys: whether the keys of the snapshot are on the host.
    built: whether there was a plane: a StatefulSet, a claim, or keys of it.
    stopped: whether no pod of plane and syncer is left, and none will come.
    prepared: whether note, claims and keys are as they must be.
    members, full: the plane's members, and how many volumes are filled.
    answers: whether the plane answers, with all that every plane starts with.
    """

    refused: str = ""
    began: datetime | None = None
    filled: bool = False
    keys: bool = False
    built: bool = False
    stopped: bool = False
    prepared: bool = False
    members: int = 1
    full: int = 0
    answers: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The step, and why."""

    step: Step
    why: str = ""


def decide(facts: Facts, now: datetime) -> Decision:
    """The next step."""
    if facts.filled and not facts.built:
        # Its Tenant was deleted, and what has the name now would start with empty volumes, under the identity of the former.
        return Decision(Step.REFUSE, "the plane whose volumes it had filled is gone; run the command again")
    if facts.filled:
        return Decision(Step.COMPARE if facts.answers else Step.START)
    if not facts.full and (why := facts.refused or _overdue(facts, now)):
        return Decision(Step.REFUSE, why)
    return Decision(_onward(facts))


def _overdue(facts: Facts, now: datetime) -> str:
    if facts.began is None or now - facts.began <= GIVE_UP:
        return ""
    return f"the store did not arrive within {int(GIVE_UP.total_seconds()) // 60} minutes; run the command again"


def _onward(facts: Facts) -> Step:
    # Before the keys are there the plane is not stopped: nothing has happened yet, and it serves meanwhile.
    for done, step in ((facts.keys, Step.AWAIT_KEYS), (facts.stopped, Step.STOP), (facts.prepared, Step.PREPARE)):
        if not done:
            return step
    return Step.FILLED if facts.full == facts.members else Step.FILL


def compares_again(filled: datetime | None, now: datetime) -> bool:
    """Whether a comparison that a server refused is tried again. `filled`: when every volume was filled."""
    return filled is not None and now - filled <= COMPARE_FOR


@dataclass(frozen=True, slots=True)
class Holder:
    """The plane that a snapshot would replace: what it is known by, and what it runs; empty where there is none."""

    tenant: str
    identity: str = ""
    service_slice: str = ""
    kubernetes: str = ""
    etcd: str = ""


def refusal(found: Manifest, reasons: tuple[str, ...], holder: Holder) -> str:
    """Why a signed snapshot does not take the place of a plane: every reason at once; empty if nothing speaks against it."""
    more = []
    if found.tenant != holder.tenant:
        more.append(f"it is of Tenant {found.tenant}, and not of {holder.tenant}")
    if holder.service_slice and holder.service_slice != found.service_slice:
        more.append(
            f"its Services have addresses in slice {found.service_slice}, and the tenant has {holder.service_slice}: "
            f"{found.service_slice} is taken, or was when the tenant was created"
        )
    return "; ".join((*reasons, *more))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a clone would be made.

    tenant, of: the clone and its original, as the TenantRestore names them. service_slice: of the clone.
    taken: whether there was a plane before it began. forbidden: the class that forbids clones; empty if it does not.
    """

    tenant: str
    of: str
    service_slice: str
    taken: bool = False
    forbidden: str = ""


def clone_refusal(found: Manifest, reasons: tuple[str, ...], place: Place) -> str:
    """Why a signed snapshot does not become a clone: every reason at once; empty if nothing speaks against it."""
    more = []
    if found.tenant != place.of:
        more.append(f"it is of Tenant {found.tenant}, and not of {place.of}")
    if found.tenant == place.tenant:
        more.append("a clone needs another name than its original")
    if place.taken:
        more.append(f"Tenant {place.tenant} has a plane already, and a clone takes the place of none")
    if place.forbidden:
        more.append(f"TenantClass {place.forbidden} forbids clones (spec.backup.clones)")
    if not fits(place.service_slice, found.service_slice):
        more.append(f"its Services have addresses in {found.service_slice}, and slice {place.service_slice} is smaller")
    return "; ".join((*reasons, *more))


def note(snapshot: str, taken: str, restore: str) -> str:
    """The note that keeps the syncer from deleting anything."""
    return f"{_NOTE} {snapshot} of {taken} (TenantRestore {restore})"


def bump(highest_revision: int) -> int:
    """By how much revisions are raised: beyond every revision that the host has seen, also of earlier restores."""
    return highest_revision + BUMP


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """The Secrets to create, and the files to change in existing ones. It has no text form, so that no key gets into a log."""

    create: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    change: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.create or self.change)


def keys(stored: Mapping[str, Mapping[str, bytes]], there: Mapping[str, Mapping[str, bytes]], account: str) -> Keys:
    """What to write so that the plane runs with the snapshot's data. `account` is the Secret with the encryption key.

    Missing Secrets come back. Of existing ones only the encryption key changes, without which the data cannot be read: a CA or
    an account key that was replaced since stays replaced, so that nothing that was revoked is valid again.
    """
    create = {name: files for name, files in stored.items() if name not in there}
    wanted, has = stored.get(account, {}).get(ENCRYPTION, b""), there.get(account, {}).get(ENCRYPTION, b"")
    change = {account: {ENCRYPTION: wanted}} if account in there and wanted != has else {}
    return Keys(create, change)


def clone_keys(
    stored: Mapping[str, Mapping[str, bytes]], there: Mapping[str, Mapping[str, bytes]], account: str, drawn: str
) -> Keys:
    """What to write so that a clone can be made: the key that its Secrets will have, `drawn`, and the one that they had.

    Nothing else of the snapshot's keys comes along, so all CAs and the key of service accounts are the clone's own.
    """
    former = {FORMER_FILE: stored.get(account, {}).get(ENCRYPTION, b"")}
    create: dict[str, Mapping[str, bytes]] = {}
    if account not in there:
        create[account] = {ENCRYPTION: drawn.encode()}
    if FORMER_KEY not in there:
        create[FORMER_KEY] = former
    change = {FORMER_KEY: former} if there.get(FORMER_KEY, former) != former else {}
    return Keys(create, change)
