"""How a Tenant is deleted: what its class says at least, and what it asks for in addition. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from controller.plane.sections import Deletion
from controller.sections import section_of

Section: TypeAlias = Mapping[str, Any]
RETAIN = "Retain"


def deletion_of(asked: Section, offer: Section) -> Deletion:
    """The class's rule is the least: a Tenant that says Delete does not undo the Retain of its class.

    Earlier releases wrote `deletionPolicy: Delete` into every Tenant as its default, so no one has asked for it.
    """
    rule = section_of(offer, "deletion")
    retain_for = str(rule.get("retainFor") or "")
    retain = RETAIN in {asked.get("deletionPolicy"), rule.get("policy")}
    return Deletion(rule.get("confirm") is True, retain and bool(retain_for), retain_for)


def beyond(asked: Section, offer: Section) -> Iterator[str]:
    """Why the class does not allow what a Tenant asks for."""
    if asked.get("deletionPolicy") == RETAIN and not section_of(offer, "deletion").get("retainFor"):
        yield "spec.deletionPolicy: Retain, but the class keeps no planes: it has no deletion.retainFor"
