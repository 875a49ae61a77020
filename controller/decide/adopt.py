"""Whether a new Tenant gets the retained plane that it names. Pure.

    adopt ── the retained plane of the Tenant's own name, in time ──> its record is read ──> signed again for the new Tenant
          └─ anything else ──> refused: never a new, empty plane instead
    no adopt, and a plane is retained under the name ──> refused, with what to do: the name alone takes up nothing

Only a Tenant of the same name can take a plane up, so no two can: names of Tenants are unique.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bulkhead.api import planerecord
from bulkhead.api.conditions import Reason, timestamp
from bulkhead.api.objects import Obj
from bulkhead.api.planerecord import PlaneRecord, RecordError
from bulkhead.api.untrusted import mapping, mappings, sequence, text
from bulkhead.signing import Ring, SignatureError
from controller.decide.retain import Retained, where
from controller.existing import Existing, Slot
from controller.refusal import Refusal

_MOST_REVOKED: Final = 1000
_MOST_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Claim:
    """What a Tenant asks for, and what is there.

    adopt: the identity that it names; empty if it names none.
    reported: the identity in its status; empty before it has a plane.
    has_namespace: whether the namespace of its plane is its own already.
    retained: the plane that is kept under its name.
    """

    tenant: str
    adopt: str
    reported: str
    has_namespace: bool
    retained: Retained | None


def claim_of(tenant: Obj, existing: Existing, retained: Retained | None) -> Claim:
    """The claim of a Tenant."""
    name = str(tenant["metadata"]["name"])
    return Claim(
        name,
        text(mapping(tenant.get("spec")).get("adopt")),
        text(mapping(tenant.get("status")).get("planeIdentity")),
        Slot("Namespace", "", where(name)) in existing and retained is None,
        retained,
    )


def refuse(claim: Claim, now: datetime) -> Refusal | None:
    """Why the Tenant is not built; None if it gets the plane that it names, or has nothing to do with a retained one."""
    if claim.reported:
        other = claim.adopt not in {"", claim.reported}
        return _no(claim, f"it has the plane {claim.reported} already") if other else None
    if claim.retained is not None:
        return _of_retained(claim, claim.retained, now)
    if claim.adopt and not claim.has_namespace:
        return _no(claim, f"no plane is retained in {where(claim.tenant)}. `bulkhead tenant retained` lists what is kept")
    return None


def _of_retained(claim: Claim, found: Retained, now: datetime) -> Refusal | None:
    place = where(claim.tenant)
    until = timestamp(found.until) if found.until is not None else "an admin ends it"
    if not claim.adopt:
        return Refusal(
            Reason.NAMESPACE_TAKEN,
            f"{place} has the retained plane {found.identity} of a deleted Tenant of this name, until {until}. If it is yours, "
            f"take it up with spec.adopt: {found.identity}. Otherwise choose another name, or let an admin end it: "
            f"bulkhead tenant retained --end {claim.tenant}",
        )
    if claim.adopt != found.identity:
        return _no(claim, f"{place} has the retained plane {found.identity}, which is another one")
    if found.terminating or found.ends(now):
        return _no(claim, f"its time was over at {until}, and it is being deleted")
    return None


def takes(claim: Claim) -> bool:
    """Whether a Tenant that is not refused takes up a plane now."""
    return bool(claim.adopt) and claim.retained is not None and not claim.reported


def signed_again(claim: Claim, uid: str, envelope: str | None, ring: Ring) -> PlaneRecord | Refusal | None:
    """The record for the new Tenant; None if it is there already, a refusal if what is there does not count."""
    place = f"the record of the plane (Secret {planerecord.SECRET} in {where(claim.tenant)})"
    if envelope is None:
        return _no(claim, f"{place} is missing: restore it from a backup")
    try:
        record = planerecord.read(ring.verify(planerecord.PURPOSE, envelope).text)
    except (SignatureError, RecordError) as error:
        return _no(claim, f"{place}: {error}. Restore it, or the keys of this installation, from a backup")
    if (record.id, record.tenant) != (claim.adopt, claim.tenant):
        return _no(claim, f"{place} is of plane {record.id} of Tenant {record.tenant}: records were exchanged")
    return None if record.tenant_uid == uid else PlaneRecord(record.id, claim.tenant, uid, record.created)


def withdrawn(claim: Claim, former: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Why a plane is not taken up: its former Tenant had revoked access that the new one does not. Empty if there is none.

    In the plane are the former roles of all users, and a manifest rarely has what `bulkhead revoke` wrote into the Tenant.
    """
    then, now = mapping(former.get("access")), mapping(asked.get("access"))
    has = {(_kind(entry), text(entry.get("name"))) for entry in mappings(now.get("revoked"), _MOST_REVOKED)}
    lacking = [
        f"revoked: {_kind(entry)} {text(entry.get('name'))}"
        for entry in mappings(then.get("revoked"), _MOST_REVOKED)
        if (_kind(entry), text(entry.get("name"))) not in has
    ]
    hosts = set(map(text, sequence(now.get("revokedUsers"))))
    lacking += [f"revokedUsers: {name}" for name in map(text, sequence(then.get("revokedUsers"))) if name not in hosts]
    if not lacking:
        return ""
    some = ", ".join(lacking[:_MOST_NAMED]) + (f" and {len(lacking) - _MOST_NAMED} more" if len(lacking) > _MOST_NAMED else "")
    return (
        f"spec.adopt: {claim.adopt}: its former Tenant had revoked access that this one does not. Add to spec.access: {some}; "
        "once the plane is taken up, take off what is not to count"
    )


def _kind(entry: Mapping[str, Any]) -> str:
    return text(entry.get("kind")) or "User"


def _no(claim: Claim, why: str) -> Refusal:
    return Refusal(Reason.ADOPTION_REFUSED, f"spec.adopt: {claim.adopt}: {why}")
