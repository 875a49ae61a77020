"""What a plane runs without, and what the status says where the host refuses some of it. Pure.

A plane's way in from outside and its disruption budget are applied each for itself, once all that protects the tenant is in.
A refusal is said with the host's words and with what a person can do, and the rest of the tenant is looked after as ever.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bulkhead.api.conditions import Reason
from controller.existing import Slot
from controller.plane.exposure import is_way
from controller.plane.spec import PUBLIC, PlaneSpec
from controller.verdict import Verdict

_MOST_WORDS: Final = 900
_VALUES: Final = "exposure.loadBalancer in the chart's values"


@dataclass(frozen=True, slots=True)
class Refused:
    """One object that the host did not take, or did not let go."""

    slot: Slot
    reason: Reason
    words: str  # the host's
    deleting: bool = False

    @property
    def is_way(self) -> bool:
        """Whether it is the way in from outside."""
        return is_way(self.slot.kind, self.slot.name)

    def message(self, spec: PlaneSpec) -> str:
        """The object, the host's words and what to do."""
        kind, namespace, name = self.slot
        what = f"{kind} {namespace}/{name}"
        said = self.words if len(self.words) <= _MOST_WORDS else f"{self.words[:_MOST_WORDS]}…"
        if self.deleting:
            return f"{what} is to go, and the host does not delete it: {said}; next: {_advice(self, spec)}"
        return f"{what} is not as it should be: {said}; next: {_advice(self, spec)}"


def is_extra(slot: Slot) -> bool:
    """Whether a plane runs without this object, so that its refusal is reported and holds up nothing."""
    return slot.kind == "PodDisruptionBudget" or is_way(slot.kind, slot.name)


def exposed(refused: Iterable[Refused], spec: PlaneSpec) -> Verdict | None:
    """The condition Exposed where the host refused the way in, or to close a former one; None where it did not."""
    ways = [each for each in refused if each.is_way]
    if not ways:
        return None
    return Verdict("False", ways[0].reason, ". ".join(each.message(spec) for each in ways))


def besides(refused: Iterable[Refused], spec: PlaneSpec) -> str:
    """What else the host refused, to be said behind what Ready says; empty where it took everything."""
    return "".join(f"; {each.message(spec)}" for each in refused if not each.is_way)


def _advice(refused: Refused, spec: PlaneSpec) -> str:
    """What a person can do about it, by the host's words; the controller tries again all the while."""
    words = refused.words
    return next((text for pattern, text in _steps(refused, spec) if pattern.search(words)), _OTHERWISE)


_OTHERWISE: Final = "mend what the host names; the controller tries again every half minute"
_ADDRESS_TAKEN: Final = re.compile(r"already allocated")
_ANNOTATION: Final = re.compile(r"metadata\.annotations")
_IMMUTABLE: Final = re.compile(r"may not change once set|field is immutable|may not be changed")
_ADMISSION: Final = re.compile(r"admission webhook|failed calling webhook|ValidatingAdmissionPolicy")
_UNSERVED: Final = re.compile(r"could not find the requested resource|no matches for kind|page not found|is not served")
_RIGHTS: Final = re.compile(r"\bcannot (create|patch|update|delete)\b|RBAC")
_QUOTA: Final = re.compile(r"exceeded quota")


def _steps(refused: Refused, spec: PlaneSpec) -> Iterable[tuple[re.Pattern[str], str]]:
    kind, namespace, name = refused.slot
    address = spec.public_address if name == PUBLIC else "its address"
    yield (
        _ADDRESS_TAKEN,
        (
            f"see who holds {address} (kubectl get ipaddress {address} -o jsonpath='{{.spec.parentRef}}'), and delete that "
            "Service: one of the tenant's own, from before the address was kept free, in the tenant's plane"
        ),
    )
    yield (
        _ADMISSION,
        (
            "a policy or webhook of the host's own stands against it: let it pass, or choose another type in spec.exposure"
            if refused.is_way
            else f"a policy or webhook of the host's own stands against it: let {kind} {name} of namespace {namespace} pass"
        ),
    )
    yield _ANNOTATION, f"mend the annotations of {_VALUES}"
    yield _IMMUTABLE, f"delete {kind} {namespace}/{name}, which is made again at once, maybe at another address"
    yield _UNSERVED, f"the host serves no {kind} any more: install its API again, or choose another type in spec.exposure"
    yield _QUOTA, f"raise the quota that the host's words name in namespace {namespace}"
    yield _RIGHTS, "give the controller's role its rights back: helm upgrade with the chart of this version does"
