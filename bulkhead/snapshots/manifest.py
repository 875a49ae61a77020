"""The manifest of a snapshot: what it is of, and of which bytes it consists. Signed, in the clear, written last. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import planerecord
from bulkhead.api.untrusted import mapping
from bulkhead.snapshots.layout import PARTS, is_attempt

PURPOSE: Final = "bulkhead.dev/snapshot-manifest/v1"
FORMAT: Final = 1
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_TEXTS: Final = (
    "snapshot",
    "attempt",
    "identity",
    "tenant",
    "tenantUID",
    "created",
    "kubernetes",
    "etcd",
    "bulkhead",
    "serviceSlice",
)
_FIELDS: Final = frozenset({"format", "parts", "recipients", "record", *_TEXTS})
_LONGEST: Final = 512
_MOST_RECIPIENTS: Final = 16
_MOST_BYTES: Final = 1 << 50


class ManifestError(ValueError):
    """A manifest cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Part:
    """One object: its bytes as they are stored, their SHA-256, and how many bytes come out of them."""

    size: int
    sha256: str
    plain: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot is of.

    attempt: the folder of its parts, below that of the snapshot.
    record: the plane's record (`bulkhead.api.planerecord`), as it is signed.
    kubernetes, etcd, bulkhead: versions that the plane ran.
    recipients: the age public keys that the parts are encrypted to.
    """

    snapshot: str
    attempt: str
    identity: str
    tenant: str
    tenant_uid: str
    created: str
    kubernetes: str
    etcd: str
    bulkhead: str
    service_slice: str
    record: str
    recipients: tuple[str, ...]
    parts: Mapping[str, Part]

    @property
    def size(self) -> int:
        """The bytes of all parts, as they are stored."""
        return sum(part.size for part in self.parts.values())

    def text(self) -> str:
        """The text that is signed."""
        content = {
            "format": FORMAT,
            "snapshot": self.snapshot,
            "attempt": self.attempt,
            "identity": self.identity,
            "tenant": self.tenant,
            "tenantUID": self.tenant_uid,
            "created": self.created,
            "kubernetes": self.kubernetes,
            "etcd": self.etcd,
            "bulkhead": self.bulkhead,
            "serviceSlice": self.service_slice,
            "record": self.record,
            "recipients": list(self.recipients),
            "parts": {
                name: {"size": part.size, "sha256": part.sha256, "plain": part.plain}
                for name, part in sorted(self.parts.items())
            },
        }
        return json.dumps(content, sort_keys=True, indent=1) + "\n"


def read(text: str) -> Manifest:
    """The manifest of a text whose signature was verified. Raises ManifestError."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError("the manifest is not JSON") from error
    if not isinstance(found, dict):
        raise ManifestError("the manifest is not an object")
    number = found.get("format")
    if number != FORMAT or isinstance(number, bool):
        raise ManifestError(f"the snapshot has format {str(number)[:16]}, and this release reads format {FORMAT}")
    if found.keys() != _FIELDS:
        wrong = sorted(str(key)[:32] for key in found.keys() ^ _FIELDS)
        raise ManifestError(f"the manifest has missing or unknown fields: {', '.join(wrong)}")
    for field in _TEXTS:
        if not isinstance(found[field], str) or not 0 < len(found[field]) <= _LONGEST:
            raise ManifestError(f"the manifest's {field} is not a text of at most {_LONGEST} characters")
    if not planerecord.is_identity(found["identity"]):
        raise ManifestError("the manifest's identity is not a UUID")
    if not is_attempt(found["attempt"]):
        raise ManifestError("the manifest's attempt is not one")
    return Manifest(
        snapshot=found["snapshot"],
        attempt=found["attempt"],
        identity=found["identity"],
        tenant=found["tenant"],
        tenant_uid=found["tenantUID"],
        created=found["created"],
        kubernetes=found["kubernetes"],
        etcd=found["etcd"],
        bulkhead=found["bulkhead"],
        service_slice=found["serviceSlice"],
        record=_record(found["record"]),
        recipients=_recipients(found["recipients"]),
        parts=_parts(found["parts"]),
    )


def _record(found: Any) -> str:
    if not isinstance(found, str) or len(found) > 16 * _LONGEST:
        raise ManifestError("the manifest's record is not a text")
    return found


def _recipients(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not 0 < len(found) <= _MOST_RECIPIENTS:
        raise ManifestError(f"the manifest must name 1 to {_MOST_RECIPIENTS} recipients")
    if not all(isinstance(key, str) and 0 < len(key) <= 4 * _LONGEST for key in found):
        raise ManifestError("a recipient of the manifest is not a text")
    return tuple(found)


def _parts(found: Any) -> dict[str, Part]:
    if not isinstance(found, dict) or found.keys() != set(PARTS):
        raise ManifestError(f"the manifest's parts must be {', '.join(PARTS)}")
    return {name: _part(name, mapping(part)) for name, part in found.items()}


def _part(name: str, found: Mapping[str, Any]) -> Part:
    digest = found.get("sha256")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ManifestError(f"the manifest's sha256 of {name} is not one")
    numbers = [found.get("size"), found.get("plain")]
    if not all(isinstance(number, int) and not isinstance(number, bool) and 0 < number < _MOST_BYTES for number in numbers):
        raise ManifestError(f"the manifest's sizes of {name} are not numbers of bytes")
    return Part(int(numbers[0] or 0), digest, int(numbers[1] or 0))
