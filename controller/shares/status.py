"""Builds the Tenant's condition about its shared objects. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from bulkhead.api.conditions import Reason
from controller.verdict import Verdict

_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Found:
    """The result of the last look into a plane."""

    copies: int = 0
    namespaces: int = 0
    claims: int = 0
    conflicts: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()  # claims that are no longer granted, and the pods that still use them
    refused: str = ""  # the plane's message for a write that it refused
    unread: str = ""  # why nothing was done at all
    unreadable: bool = False  # whether the plane answered in that case
    waits: bool = False  # whether the plane has not made an account yet that pulls images with a shared Secret


def verdict(found: Found | None, *, new: bool = False) -> Verdict:
    """The condition; `found` is None before the first look. In a `new` plane, accounts that are not made yet count as well."""
    if found is None:
        return Verdict("False", Reason.PROVISIONING, "shared objects are being copied into the plane")
    if found.unread:
        reason = Reason.PLANE_UNREADABLE if found.unreadable else Reason.PLANE_UNREACHABLE
        return Verdict("False", reason, found.unread)
    if lacking := _lacking(found):
        return Verdict("False", *lacking)
    if new and found.waits:
        return Verdict("False", Reason.PROVISIONING, "accounts in the plane get the shared Secrets to pull images with")
    claims = f", and {found.claims} claims of shared volumes" if found.claims else ""
    objects = f"{found.copies} copies of shared objects are in {found.namespaces} namespaces{claims}"
    return Verdict("True", Reason.APPLIED, objects)


def _lacking(found: Found) -> tuple[Reason, str] | None:
    """The most serious fault, with its reason; None if there is none."""
    if found.troubles:
        return Reason.SHARE_UNAVAILABLE, _some(found.troubles)
    if found.leaving:
        cure = "no new pod can use them, and they are removed with the last of these pods; delete the pods to remove them now"
        return Reason.SHARE_HELD, f"claims are no longer granted, but pods still use them: {_some(found.leaving)}; {cure}"
    if found.conflicts:
        cure = "rename or delete these in the plane, so that the shared ones can be created"
        return Reason.SHARE_CONFLICT, f"the tenant has objects of the same name: {_some(found.conflicts)}; {cure}"
    if found.refused:
        return Reason.SHARE_CONFLICT, f"the plane refuses a copy: {found.refused}"
    return None


def _some(named: Iterable[str]) -> str:
    names = sorted(set(named))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return "; ".join(names[:_MOST_NAMED]) + more
