"""What a tenant's condition says of its shared objects. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from bulkhead.api.conditions import Reason
from controller.verdict import Verdict

_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Found:
    """What the last look into a plane found."""

    copies: int = 0
    namespaces: int = 0
    claims: int = 0
    conflicts: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()  # claims that are not given any more, and the pods that still have them
    refused: str = ""  # what the plane said to a write
    unread: str = ""  # why nothing was done at all
    unreadable: bool = False  # and whether the plane did answer


def verdict(found: Found | None) -> Verdict:
    """The condition; None: no look was taken yet."""
    if found is None:
        return Verdict("False", Reason.PROVISIONING, "what the class shares is being put into the plane")
    if found.unread:
        reason = Reason.PLANE_UNREADABLE if found.unreadable else Reason.PLANE_UNREACHABLE
        return Verdict("False", reason, found.unread)
    if lacking := _lacking(found):
        return Verdict("False", *lacking)
    claims = f", and {found.claims} claims of shared volumes" if found.claims else ""
    objects = f"{found.copies} copies of shared objects are in {found.namespaces} namespaces{claims}"
    return Verdict("True", Reason.APPLIED, objects)


def _lacking(found: Found) -> tuple[Reason, str] | None:
    """What is not as it should be, the worst of it."""
    if found.troubles:
        return Reason.SHARE_UNAVAILABLE, _some(found.troubles)
    if found.leaving:
        cure = "no new pod gets them, and they go with the last of these pods: delete the pods for it to be at once"
        return Reason.SHARE_HELD, f"not given any more, and pods have them still: {_some(found.leaving)}; {cure}"
    if found.conflicts:
        cure = "rename or delete it in the plane, and the shared one takes its place"
        return Reason.SHARE_CONFLICT, f"the tenant has its own: {_some(found.conflicts)}; {cure}"
    if found.refused:
        return Reason.SHARE_CONFLICT, f"the plane refuses a copy: {found.refused}"
    return None


def _some(named: Iterable[str]) -> str:
    names = sorted(set(named))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return "; ".join(names[:_MOST_NAMED]) + more
