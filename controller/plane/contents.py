"""What fills a plane's store: how many objects of each kind, and about how many bytes. Pure.

The API server counts and measures what it stores, custom resources included; nothing else has to be read, no object and no key.
"""

import heapq
import re
from dataclasses import dataclass
from typing import Final

MOST_KINDS: Final = 10
# Kinds that are looked at: a tenant may define as many as it likes.
_MOST_READ: Final = 4096
_NAME_CHARACTERS: Final = 60
_COUNTS: Final = b"apiserver_resource_objects{"
_SIZES: Final = b"apiserver_resource_size_estimate_bytes{"
_LABELS: Final = re.compile(rb'^group="([a-z0-9.-]{0,253})",resource="([a-z0-9./-]{1,253})"\} (-?[0-9.e+]{1,32})$')
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Kind:
    """The objects of one kind."""

    name: str  # configmaps, widgets.example.org
    count: int = 0
    size: int = 0  # bytes of their newest versions; 0 if the API server does not measure them


@dataclass(frozen=True, slots=True)
class Contents:
    """The kinds that take the most space, or why they are unknown."""

    kinds: tuple[Kind, ...] = ()
    unread: str = ""

    @property
    def words(self) -> str:
        """One clause for a message; sizes are rounded, so that it does not change all the time."""
        if self.unread:
            return f"what fills it is unknown: {self.unread}"
        named = ", ".join(f"{_short(kind.name)} {kind.count} ({_size(kind.size)})" for kind in self.kinds)
        return f"most is in {named}" if named else ""


def contents_of(text: bytes) -> Contents:
    """The ten kinds that take the most space, from the metrics of an API server."""
    counts: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        for prefix, into in ((_COUNTS, counts), (_SIZES, sizes)):
            if line.startswith(prefix) and len(into) < _MOST_READ:
                found = _LABELS.match(line[len(prefix) :])
                if found is not None:
                    into[_name(found[1], found[2])] = _number(found[3])
    kinds = (Kind(name, counts.get(name, 0), sizes.get(name, 0)) for name in counts.keys() | sizes.keys())
    there = (kind for kind in kinds if kind.count > 0 or kind.size > 0)
    most = heapq.nsmallest(MOST_KINDS, there, key=lambda kind: (-kind.size, -kind.count, kind.name))
    return (
        Contents(tuple(most))
        if most
        else Contents(unread="the plane's API server counts once a minute, and has not counted yet")
    )


def _name(group: bytes, resource: bytes) -> str:
    return f"{resource.decode()}.{group.decode()}" if group else resource.decode()


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"


def _number(text: bytes) -> int:
    try:
        return max(0, int(float(text)))
    except (ValueError, OverflowError):
        return 0


def _size(size: int) -> str:
    if size < _MIB:
        return "under 1Mi"
    return f"{size // _MIB}Mi"
