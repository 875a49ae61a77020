"""The objects of a tenant that are on the host, by kind, namespace and name. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from bulkhead.api.objects import Obj


class Slot(NamedTuple):
    """The kind, namespace and name of an object."""

    kind: str
    namespace: str
    name: str


Existing: TypeAlias = Mapping[Slot, Obj]


def slot_of(obj: Obj) -> Slot:
    """The slot of this object."""
    meta = obj["metadata"]
    return Slot(str(obj["kind"]), str(meta.get("namespace") or ""), str(meta["name"]))


def by_slot(objects: Iterable[Obj]) -> Existing:
    """These objects by slot."""
    return {slot_of(obj): obj for obj in objects}
