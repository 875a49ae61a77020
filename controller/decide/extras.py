"""What a plane runs without, and what the status says where the host refuses that or a change of anything else. Pure.

A plane's way in from outside and its disruption budget are applied each for itself, once all that protects the tenant is in.
A refusal is said with the host's words and with what a person can do, and the rest of the tenant is looked after as ever. So it
is where a field of any object of a tenant that runs would have to change and never does.
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
    """One object that the host did not take, or did not let go."""

    slot: Slot
    reason: Reason
    words: str  # the host's
    deleting: bool = False
    kept: bool = False  # all of it but the fields that the words name was applied

    @property
    def is_way(self) -> bool:
        """Whether it is the way in from outside."""
        return is_way(self.slot.kind, self.slot.name)

    def message(self, spec: PlaneSpec) -> str:
        """The object, the host's words and what to do."""
        what = f"{self.slot.kind} {_where(self.slot)}"
        if self.kept:
            return f"{what} keeps fields as they are: {self.words}; everything else of it was applied"
        said = self.words if len(self.words) <= _MESSAGE_CHARACTERS else f"{self.words[:_MESSAGE_CHARACTERS]}…"
        if self.deleting:
            return f"{what} is to go, and the host does not delete it: {said}; next: {_advice(self, spec)}"
        return f"{what} is not as it should be: {said}; next: {_advice(self, spec)}"


def is_extra(slot: Slot) -> bool:
    """Whether a plane runs without this object, so that its refusal is reported and holds up nothing."""
    return slot.kind == "PodDisruptionBudget" or is_way(slot.kind, slot.name)


def stuck(refused: Iterable[Refused], spec: PlaneSpec) -> Verdict | None:
    """What Ready says where an object that a tenant does not run without is not as it should be; None where all are."""
    found = [refusal for refusal in refused if not (refusal.kept or is_extra(refusal.slot))]
    if not found:
        return None
    return Verdict("False", found[0].reason, ". ".join(refusal.message(spec) for refusal in found))


def exposed(refused: Iterable[Refused], spec: PlaneSpec) -> Verdict | None:
    """The condition Exposed where the host refused the way in, or to close a former one; None where it did not."""
    ways = [refusal for refusal in refused if refusal.is_way]
    if not ways:
        return None
    return Verdict("False", ways[0].reason, ". ".join(refusal.message(spec) for refusal in ways))


def besides(refused: Iterable[Refused], spec: PlaneSpec) -> tuple[str, ...]:
    """What else the host refused, to be said behind what Ready says; nothing where it took everything."""
    return tuple(refusal.message(spec) for refusal in refused if not refusal.is_way)


def _where(slot: Slot) -> str:
    return f"{slot.namespace}/{slot.name}" if slot.namespace else slot.name


def _advice(refused: Refused, spec: PlaneSpec) -> str:
    """What a person can do about it, by the host's words; the controller tries again all the while."""
    words = refused.words
    return next((text for matches, text in _steps(refused, spec) if matches(words)), _OTHERWISE)


_OTHERWISE: Final = "mend what the host names; the controller tries again every half minute"
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
            f"see who holds {address} (kubectl get ipaddress {address} -o jsonpath='{{.spec.parentRef}}'), and delete that "
            "Service: one of the tenant's own, from before the address was kept free, in the tenant's plane"
        ),
    )
    yield (
        _ADMISSION.search,
        (
            "a policy or webhook of the host's own stands against it: let it pass, or choose another type in spec.exposure"
            if refused.is_way
            else f"a policy or webhook of the host's own stands against it: let {kind} {name} of namespace {namespace} pass"
        ),
    )
    yield _ANNOTATION.search, f"mend the annotations of {_VALUES}"
    if kind == "StatefulSet":
        yield in_words, "nothing of it is changed meanwhile: put back in it what was changed by hand"
    yield in_words, f"delete {kind} {_where(refused.slot)}, which is made again at once, maybe at another address"
    yield (
        _UNSERVED.search,
        f"the host serves no {kind} any more: install its API again, or choose another type in spec.exposure",
    )
    yield _QUOTA.search, f"raise the quota that the host's words name in namespace {namespace}"
    yield _RIGHTS.search, "give the controller's role its rights back: helm upgrade with the chart of this version does"
