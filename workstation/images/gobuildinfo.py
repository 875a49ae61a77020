"""The modules from which a Go program was built, read from its build information (`debug/buildinfo`) without Go.

Pure. The program is ours, but a damaged one must not stop a build: unreadable build information counts as none.
"""

from dataclasses import dataclass
from typing import Final

_MAGIC: Final = b"\xff Go buildinf:"
_ALIGN: Final = 16
_HEADER: Final = 32
_INLINE: Final = 2  # this flag means that the strings follow the header, as since Go 1.18
_SENTINEL: Final = 16
_TEXT_LIMIT_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Module:
    """One module at one version."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The compiler and the modules of a program."""

    go: str
    modules: tuple[Module, ...]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a length without an end")


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _varint(data, at)
    if size > _TEXT_LIMIT_BYTES or at + size > len(data):
        raise ValueError("a text that is longer than the program")
    return data[at : at + size], at + size


def modules_of(listing: str) -> tuple[Module, ...]:
    """The modules of a listing in the form of `go version -m`; a replaced module appears as its replacement."""
    found: list[Module] = []
    for line in listing.splitlines():
        kind, *parts = line.split("\t")
        if kind in {"mod", "dep"} and len(parts) >= 2:
            found.append(Module(parts[0], parts[1]))
        elif kind == "=>" and len(parts) >= 2 and found:
            found[-1] = Module(parts[0], parts[1])
    return tuple(dict.fromkeys(found))


def read(program: bytes) -> BuildInfo | None:
    """The build information of an ELF program; None if there is none that can be read."""
    if not program.startswith(b"\x7fELF"):
        return None
    at = program.find(_MAGIC)
    while at >= 0 and at % _ALIGN:
        at = program.find(_MAGIC, at + 1)
    if at < 0 or len(program) < at + _HEADER or not program[at + 15] & _INLINE:
        return None
    try:
        version, after = _text(program, at + _HEADER)
        listing, _ = _text(program, after)
    except (ValueError, IndexError):
        return None
    return BuildInfo(version.decode(errors="replace"), modules_of(listing[_SENTINEL:-_SENTINEL].decode(errors="replace")))
