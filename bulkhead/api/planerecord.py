"""The identity of a plane: a record of the controller's, signed, on the host beside the plane and in every snapshot of it.

    id       the identity: a UUID, that of the first Tenant that held the plane
    tenant   the Tenant that holds the plane now, by name and UID; the controller signs the record again when that changes

Issuer, names of mirrored objects and etcd's cluster token follow from `id`. The record holds no secret. Pure: its text is
signed by `bulkhead.signing` (docs/decisions/0046-who-a-plane-is.md).
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

SECRET: Final = "plane-record"  # noqa: S105 - the name of a Secret
FILE: Final = "record.json"
PURPOSE: Final = "bulkhead.dev/plane-record/v1"
_FIELDS: Final = frozenset({"id", "tenant", "tenantUID", "created"})
# A UUID, as API servers draw them.
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LONGEST: Final = 256


class RecordError(ValueError):
    """A record cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class PlaneRecord:
    """The content of a record."""

    id: str
    tenant: str
    tenant_uid: str
    created: str

    def text(self) -> str:
        """The text that is signed."""
        content = {"id": self.id, "tenant": self.tenant, "tenantUID": self.tenant_uid, "created": self.created}
        return json.dumps(content, sort_keys=True, separators=(",", ":"))


def is_identity(text: str) -> bool:
    """Whether a text can be the identity of a plane."""
    return _ID.fullmatch(text) is not None


def read(text: str) -> PlaneRecord:
    """The record of a text. Raises RecordError."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError("the record is not JSON") from error
    if not isinstance(found, dict) or found.keys() != _FIELDS:
        raise RecordError(f"the record must have {', '.join(sorted(_FIELDS))}, and nothing else")
    if not all(isinstance(value, str) and 0 < len(value) <= _LONGEST for value in found.values()):
        raise RecordError("the record's fields must be texts of at most 256 characters")
    if not is_identity(found["id"]):
        raise RecordError(f"the record's id {found['id'][:64]!r} is not a UUID")
    return PlaneRecord(found["id"], found["tenant"], found["tenantUID"], found["created"])
