"""Objects that a plane runs without, and what the status reports if the host refuses one of them or any other change. Pure.

A plane's way in from outside and its disruption budget are applied independently, once everything that protects the tenant is
in place. The status reports a refusal with the host's words and with what a person can do; the rest of the tenant is reconciled
as usual. The same happens if an immutable field of a running tenant's object would have to change.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bulkhead.api.conditions import Reason
from controller.existing import Slot
from controller.plane.exposure import is_way
from controller.plane.spec import PUBLIC, PlaneSpec
from controller.unchangeable import in_words
from controller.verdict import Verdict

_MESSAGE_CHARACTERS: Final = 900
_VALUES: Final = "exposure.loadBalancer in the chart's values"


@dataclass(frozen=True, slots=True)
class Refused:
    """One object that the host refused to apply or to delete."""

    slot: Slot
    reason: Reason
    words: str  # the host's message
    deleting: bool = False
    kept: bool = False  # everything was applied except the fields that the words name

    @property
    def is_way(self) -> bool:
        """Whether it is the way in from outside."""
        return is_way(self.slot.kind, self.slot.name)

    def message(self, spec: PlaneSpec) -> str:
        """The object, the host's words and what to do."""
        what = f"{self.slot.kind} {_where(self.slot)}"
        if self.kept:
            return f"{what} keeps immutable fields: {self.words}; all other changes were applied"
        words = self.words if len(self.words) <= _MESSAGE_CHARACTERS else f"{self.words[:_MESSAGE_CHARACTERS]}…"
        if self.deleting:
            return f"{what} should be deleted, but the host does not delete it: {words}; next: {_advice(self, spec)}"
        return f"{what} could not be updated: {words}; next: {_advice(self, spec)}"


def is_extra(slot: Slot) -> bool:
    """Whether a plane runs without this object, so that its refusal is reported and blocks nothing."""
    return slot.kind == "PodDisruptionBudget" or is_way(slot.kind, slot.name)


def stuck(refused: Iterable[Refused], spec: PlaneSpec) -> Verdict | None:
    """What Ready shows if an object that the tenant needs is not as it should be; None if all are."""
    found = [refusal for refusal in refused if not (refusal.kept or is_extra(refusal.slot))]
    if not found:
        return None
    return Verdict("False", found[0].reason, ". ".join(refusal.message(spec) for refusal in found))


def exposed(refused: Iterable[Refused], spec: PlaneSpec) -> Verdict | None:
    """The condition Exposed if the host refused to apply the way in or to delete a former one; None if it did not."""
    ways = [refusal for refusal in refused if refusal.is_way]
    if not ways:
        return None
    return Verdict("False", ways[0].reason, ". ".join(refusal.message(spec) for refusal in ways))


def besides(refused: Iterable[Refused], spec: PlaneSpec) -> tuple[str, ...]:
    """What else the host refused, to append to the message of Ready; empty if it accepted everything."""
    return tuple(refusal.message(spec) for refusal in refused if not refusal.is_way)


def _where(slot: Slot) -> str:
    return f"{slot.namespace}/{slot.name}" if slot.namespace else slot.name


def _advice(refused: Refused, spec: PlaneSpec) -> str:
    """What a person can do about it, chosen by the host's words; the controller retries meanwhile."""
    words = refused.words
    return next((text for matches, text in _steps(refused, spec) if matches(words)), _OTHERWISE)


_OTHERWISE: Final = "fix what the host reports; the controller tries again every 30 s"
_ADDRESS_TAKEN: Final = re.compile(r"already allocated")
_ANNOTATION: Final = re.compile(r"metadata\.annotations")
_ADMISSION: Final = re.compile(r"admission webhook|failed calling webhook|ValidatingAdmissionPolicy")
_UNSERVED: Final = re.compile(r"could not find the requested resource|no matches for kind|page not found|is not served")
_RIGHTS: Final = re.compile(r"\bcannot (create|patch|update|delete)\b|RBAC")
_QUOTA: Final = re.compile(r"exceeded quota")


def _steps(refused: Refused, spec: PlaneSpec) -> Iterable[tuple[Callable[[str], object], str]]:
    kind, namespace, name = refused.slot
    address = spec.public_address if name == PUBLIC else "its address"
    yield (
        _ADDRESS_TAKEN.search,
        (
            f"see which Service holds {address} (kubectl get ipaddress {address} -o jsonpath='{{.spec.parentRef}}'), delete "
            "it: a Service of the tenant's own, from before the address was reserved, in the tenant's plane"
        ),
    )
    yield (
        _ADMISSION.search,
        (
            "a policy or webhook of the host refuses it: allow it there, or choose another type in spec.exposure"
            if refused.is_way
            else f"a policy or webhook of the host refuses it: allow {kind} {name} of namespace {namespace} there"
        ),
    )
    yield _ANNOTATION.search, f"fix the annotations of {_VALUES}"
    if kind == "StatefulSet":
        yield in_words, "revert manual changes to it; until then it is not updated"
    yield in_words, f"delete {kind} {_where(refused.slot)}, which is recreated at once, possibly with another address"
    yield (
        _UNSERVED.search,
        f"the host no longer serves {kind}: install its API again, or choose another type in spec.exposure",
    )
    yield _QUOTA.search, f"raise the quota that the host reports in namespace {namespace}"
    yield _RIGHTS.search, "restore the controller's role: run helm upgrade with the chart of this version"
