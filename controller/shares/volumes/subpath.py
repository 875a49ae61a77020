"""Computes a tenant's directory below a shared source, from a template such as `teams/{tenant}/data`. Pure.

The path leads only downwards, and only through directories that no tenant can write to. A tenant that can write to a directory
can put a symbolic link there, and a node that mounts a path below it follows the link with its own rights.
"""

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from bulkhead.api.names import check_tenant_name
from bulkhead.api.sharedvolume import SUBPATH_LIMIT

Parts: TypeAlias = tuple[str, ...]

PLACEHOLDER: Final = "{tenant}"
_PART: Final = re.compile(r"[-A-Za-z0-9_.]+")
_PART_BYTES: Final = 200  # what file systems allow, less room for a tenant's name


class InvalidSubPathError(ValueError):
    """A template is malformed; the text says why."""


def parse(template: str) -> Parts:
    """The parts of a template; none if it is empty."""
    if not template:
        return ()
    if len(template) > SUBPATH_LIMIT:
        raise InvalidSubPathError(f"subPath must have at most {SUBPATH_LIMIT} characters, not {len(template)}")
    if template.startswith("/"):
        raise InvalidSubPathError("subPath must be relative to the shared directory, not absolute")
    parts = tuple(template.split("/"))
    for part in parts:
        plain = part.replace(PLACEHOLDER, "x")
        if plain in ("", ".", "..") or part.replace(PLACEHOLDER, "") == "..":
            raise InvalidSubPathError(f"subPath {template!r}: {part!r} is not allowed: every part must name a subdirectory")
        if not _PART.fullmatch(plain) or len(part) > _PART_BYTES:
            raise InvalidSubPathError(
                f"subPath {template!r}: {part[:40]!r} must consist of letters, digits, '-', '_', '.' and {PLACEHOLDER}"
            )
    return parts


def filled(parts: Parts, tenant: str) -> Parts:
    """The directory of one tenant."""
    name = check_tenant_name(tenant)
    return tuple(part.replace(PLACEHOLDER, name) for part in parts)


def plain(path: str) -> Parts:
    """The parts of an absolute path of an admin's, as a file system reads it."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if not path.startswith("/") or ".." in parts or any(ord(character) < ord(" ") for character in path):
        raise InvalidSubPathError(f"must be an absolute path without '..', not {path[:100]!r}")
    return parts


def joined(parts: Iterable[str]) -> str:
    """The absolute path of these parts."""
    return "/" + "/".join(parts)


def lies_below(parts: Parts, other: Parts) -> bool:
    """Whether a directory may be below another one; `{tenant}` matches any name."""
    return len(parts) > len(other) and all(_may_be_one(mine, its) for mine, its in zip(parts, other, strict=False))


def _may_be_one(mine: str, its: str) -> bool:
    if PLACEHOLDER in mine and PLACEHOLDER in its:
        return True
    if PLACEHOLDER in mine:
        mine, its = its, mine
    pieces = its.split(PLACEHOLDER)
    return mine == its or (
        len(pieces) > 1 and re.fullmatch("[-a-z0-9]+".join(re.escape(piece) for piece in pieces), mine) is not None
    )
