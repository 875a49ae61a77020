"""What others on the host (backups, administrators) added to a copy's metadata, for a write that replaces it whole.

Theirs are labels and annotations that translation neither sets now nor set last time (`bulkhead.dev/applied`), but for our own
`bulkhead.dev/*`; and every finalizer. Patches do not touch them, and the host's policies refuse a syncer that takes them away.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from syncer.translate.diff import applied

_OURS: Final = "bulkhead.dev/"


def kept(desired: Obj, there: Mapping[str, Any]) -> Obj:
    """`desired` with what others have added to the metadata of the existing copy; what both name is as desired."""
    before = applied(there)
    meta = dict(desired["metadata"])
    for field in ("labels", "annotations"):
        ours = frozenset(before.get(field, ()))
        theirs = {
            key: value for key, value in (there.get(field) or {}).items() if key not in ours and not key.startswith(_OURS)
        }
        if theirs:
            meta[field] = theirs | (meta.get(field) or {})
    if there.get("finalizers"):
        meta["finalizers"] = list(there["finalizers"])
    return desired | {"metadata": meta}
