"""What is stored already under the name of a snapshot: nothing that is stored is replaced by another snapshot.

    no manifest, or one whose parts are gone ──> nothing: the snapshot is taken
    the credentials may not look ──> it is taken, and its manifest stored only if there is none
    of this very TenantSnapshot, or of its slot ──> that: only its report is missing
    any other, or one that cannot be read ──> the name is taken

A controller may lose its lease between the manifest and its report, and a name may be used again after its object was deleted.
"""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Final

from bulkhead.signing import Ring
from bulkhead.snapshots import reading
from bulkhead.snapshots.judge import RefusedError, Taker, judge
from bulkhead.snapshots.manifest import Manifest
from bulkhead.snapshots.target import AbsentError, DeniedError, Target
from controller.snapshots.schedule import Plane, has_finalizer, slot_of
from controller.snapshots.spec import Order

# The largest quota of a plane is 8 GiB; a file exceeds it a little while it is defragmented.
MOST_STORE_BYTES: Final = 16 * 1024**3
_HALF_CHARACTERS: Final = 8
ADVICE: Final = "it is not replaced; ask for a snapshot with another name"


class NameTakenError(ValueError):
    """Another snapshot has the name, and would be replaced; the message says what to do."""


def new_attempt(uid: str) -> str:
    """The folder of a new attempt at the TenantSnapshot with this UID: one half says whose it is, the other is random."""
    return _owner(uid) + secrets.token_hex(_HALF_CHARACTERS // 2)


@dataclass(frozen=True, slots=True)
class Found:
    """What is there. manifest: of a whole snapshot that is this one. unseen: whether it could not be looked at."""

    manifest: Manifest | None = None
    unseen: bool = False


async def look(target: Target, ring: Ring, order: Order) -> Found:
    """What an earlier attempt at the same snapshot has stored whole. Raises NameTakenError or TargetError."""
    name, spec = order.name, order.spec
    try:
        found = await reading.named(target, ring, spec.identity, name)
        there = await reading.sizes(target, found)
    except AbsentError:
        return Found()
    except DeniedError:
        # S3 answers so too for what is not there, if the credentials may not list.
        return Found(unseen=True)
    except RefusedError as error:
        raise NameTakenError(f"something is stored under the name {name} already, and {error}: {ADVICE}") from error
    if judge(found, there, Taker(MOST_STORE_BYTES, spec.identity)):
        return Found()
    of_slot = has_finalizer(order.request) and slot_of(order.request, Plane(spec.tenant, spec.identity)) is not None
    if of_slot or found.attempt.startswith(_owner(order.uid)):
        return Found(found)
    raise NameTakenError(f"a snapshot {name} of this plane, of {found.created}, is stored already: {ADVICE}")


def _owner(uid: str) -> str:
    return hashlib.sha256(uid.encode()).hexdigest()[:_HALF_CHARACTERS]
