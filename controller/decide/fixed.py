"""The immutable fields of an existing StatefulSet: they stay as they are, and everything else is applied. Pure.

If one of them had another value, the API server would reject the whole write, and with it images, certificates and flags.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.quantity import readable

FIELDS: Final = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")


def as_it_began(wanted: Obj, running: Obj | None) -> tuple[Obj, tuple[str, ...]]:
    """The StatefulSet to apply over an existing one, and which of its immutable fields differ from the wanted ones."""
    if running is None:
        return wanted, ()
    there = running["spec"]
    kept = tuple(field for field in FIELDS if field in wanted["spec"] and not _covers(there.get(field), wanted["spec"][field]))
    if not kept:
        return wanted, ()
    return wanted | {"spec": wanted["spec"] | {field: there[field] for field in kept if field in there}}, kept


def _covers(there: Any, wanted: Any) -> bool:
    """Whether the existing value equals the wanted one, except for defaults that an API server fills in."""
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(_covers(there.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(there, list) and len(there) == len(wanted) and all(map(_covers, there, wanted))
    if there == wanted:
        return True
    one, other = readable(there), readable(wanted)
    return one is not None and one == other
