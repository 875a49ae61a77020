"""Where the parts of a snapshot are, below the prefix of a target. Pure."""

import re
from typing import Final

from bulkhead.api import planerecord

STORE: Final = "etcd.age"
PLANE: Final = "plane.age"
MANIFEST: Final = "manifest.json"
PARTS: Final = (STORE, PLANE)
_ATTEMPT: Final = re.compile(r"[0-9a-f]{16}")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class LayoutError(ValueError):
    """A name cannot be part of a path."""


def is_attempt(text: str) -> bool:
    """Whether a text can name an attempt."""
    return _ATTEMPT.fullmatch(text) is not None


def folder(identity: str, snapshot: str) -> str:
    """The folder of a snapshot. Raises LayoutError for names that could lead elsewhere."""
    if not planerecord.is_identity(identity):
        raise LayoutError(f"{identity[:64]!r} is not the identity of a plane")
    if not _NAME.fullmatch(snapshot) or ".." in snapshot:
        raise LayoutError(f"{snapshot[:64]!r} is not the name of a snapshot")
    return f"{identity}/{snapshot}"
