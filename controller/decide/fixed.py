"""The fields of a StatefulSet that never change once it is there: they stay as they began, and all the rest is applied. Pure.

With another value in one of them the API server refuses the whole write: images, certificates and flags would wait with it.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.quantity import readable

FIELDS: Final = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")


def as_it_began(wanted: Obj, running: Obj | None) -> tuple[Obj, tuple[str, ...]]:
    """The StatefulSet to apply over one that is there, and which of its fields are not as they are wanted."""
    if running is None:
        return wanted, ()
    there = running["spec"]
    kept = tuple(field for field in FIELDS if field in wanted["spec"] and not _covers(there.get(field), wanted["spec"][field]))
    if not kept:
        return wanted, ()
    return wanted | {"spec": wanted["spec"] | {field: there[field] for field in kept if field in there}}, kept


def _covers(there: Any, wanted: Any) -> bool:
    """Whether what is there is what is wanted, but for what an API server fills in."""
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(_covers(there.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(there, list) and len(there) == len(wanted) and all(map(_covers, there, wanted))
    if there == wanted:
        return True
    one, other = readable(there), readable(wanted)
    return one is not None and one == other
