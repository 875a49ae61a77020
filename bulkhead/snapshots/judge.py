"""Which snapshots are refused before anything of them is used. Pure: the manifest, what is stored, and what would take it.

manifest.json ── not signed by a known key, of another format ──> refused: nothing in it counts
              └─ signed ──> judge(): every reason at once, or none
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bulkhead.api import planerecord
from bulkhead.api.planerecord import RecordError
from bulkhead.signing import Ring, SignatureError
from bulkhead.snapshots import manifest
from bulkhead.snapshots.layout import PARTS
from bulkhead.snapshots.manifest import Manifest, ManifestError

_MINOR: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(\..*)?")
# age adds a header, and 16 bytes to each 64 KiB.
_HEADER_BYTES: Final = 16 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_TAG_BYTES: Final = 16


class RefusedError(ValueError):
    """A snapshot is not used; the message says why."""


@dataclass(frozen=True, slots=True)
class Taker:
    """What would take a snapshot.

    identity: the plane that it must be of; empty where any will do.
    kubernetes, etcd: the newest versions that this installation runs.
    most: the most bytes that its store may have.
    """

    most: int
    identity: str = ""
    kubernetes: str = ""
    etcd: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """The sizes of the objects that are there, by name."""

    sizes: Mapping[str, int] = field(default_factory=dict)


def opened(envelope: str, ring: Ring) -> Manifest:
    """The manifest of what is stored under its name. Raises RefusedError."""
    try:
        found = manifest.read(ring.verify(manifest.PURPOSE, envelope).text)
        record = planerecord.read(ring.verify(planerecord.PURPOSE, found.record).text)
    except (SignatureError, ManifestError, RecordError) as error:
        raise RefusedError(f"its manifest does not count: {error}") from error
    if (record.id, record.tenant, record.tenant_uid) != (found.identity, found.tenant, found.tenant_uid):
        raise RefusedError(f"its record is of plane {record.id}, and its manifest of plane {found.identity}")
    return found


def judge(found: Manifest, stored: Stored, taker: Taker) -> tuple[str, ...]:
    """Why a signed snapshot is not used; empty if nothing speaks against it."""
    reasons = []
    if taker.identity and found.identity != taker.identity:
        reasons.append(f"it is of plane {found.identity} (Tenant {found.tenant}), and not of {taker.identity}")
    for name in PARTS:
        part, size = found.parts[name], stored.sizes.get(name)
        if size is None:
            reasons.append(f"{name} is missing")
        elif size != part.size:
            reasons.append(f"{name} has {size} bytes, and the manifest says {part.size}: it is truncated or another one")
        if not _plausible(part.size, part.plain):
            reasons.append(f"{name} has {part.size} bytes, from which {part.plain} cannot come")
        if part.plain > taker.most:
            reasons.append(f"{name} has {part.plain} bytes, and at most {taker.most} are taken")
    for what, theirs, ours in (("Kubernetes", found.kubernetes, taker.kubernetes), ("etcd", found.etcd, taker.etcd)):
        if ours and (minor(theirs) is None or (minor(theirs) or (0, 0)) > (minor(ours) or (0, 0))):
            reasons.append(f"its plane ran {what} {theirs}, and {ours} is the newest here: data of a newer minor is not read")
    return tuple(reasons)


def minor(version: str) -> tuple[int, int] | None:
    """Major and minor of a version; None if it is not one."""
    found = _MINOR.fullmatch(version)
    return (int(found[1]), int(found[2])) if found else None


def _plausible(size: int, plain: int) -> bool:
    """Whether so many bytes can be those that age makes of so many: it compresses nothing, so no bomb hides in it."""
    added = size - plain - _TAG_BYTES * max(1, -(-plain // _CHUNK_BYTES))
    return 0 < added <= _HEADER_BYTES
