"""Reads and changes messages of protobuf by the numbers of their fields, without their definitions. Pure.

What is not changed keeps its bytes, so fields that this release does not know come through. Wrong input raises ProtobufError.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_KUBERNETES: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final[Mapping[int, int]] = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT: Final = 10


class ProtobufError(ValueError):
    """Bytes are not a message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its number, what it holds (a number is 0 bytes), and its bytes as they stand in the message."""

    number: int
    content: bytes
    raw: bytes


def fields(message: bytes) -> list[Field]:
    """The fields of a message, in their order. Raises ProtobufError."""
    found, at = [], 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        number, wire, content = tag >> 3, tag & 7, b""
        if wire == _VARINT:
            _, at = _varint(message, at)
        elif wire == _BYTES:
            length, at = _varint(message, at)
            content = message[at : at + length]
            at += length
        elif wire in _FIXED:
            at += _FIXED[wire]
        else:
            raise ProtobufError(f"a field has wire type {wire}")
        if at > len(message) or not number:
            raise ProtobufError("a message ends within a field")
        found.append(Field(number, content, message[start:at]))
    return found


def field(message: bytes, wanted: int) -> bytes:
    """The first field with this number, if it is bytes; empty if there is none. Raises ProtobufError."""
    return next((found.content for found in fields(message) if found.number == wanted), b"")


def is_set(message: bytes, wanted: int) -> bool:
    """Whether a field that is a truth value is true. Raises ProtobufError."""
    return any(found.number == wanted and found.raw[-1] != 0 for found in fields(message))


def texts(message: bytes, wanted: int) -> list[str]:
    """The texts of a repeated field."""
    return [found.content.decode("utf-8", "replace") for found in fields(message) if found.number == wanted]


def entries(message: bytes, wanted: int) -> dict[str, str]:
    """A field that is a map of texts."""
    found = (entry.content for entry in fields(message) if entry.number == wanted)
    return {field(entry, 1).decode("utf-8", "replace"): field(entry, 2).decode("utf-8", "replace") for entry in found}


def changed(message: bytes, changes: Mapping[int, Iterable[bytes]]) -> bytes:
    """The message with these fields of bytes in place of those that have their numbers; none takes a field away."""
    made = [found.raw for found in fields(message) if found.number not in changes]
    made += [_made(number, content) for number, contents in changes.items() for content in contents]
    return b"".join(made)


def object_in(value: bytes) -> bytes:
    """The message of an object of Kubernetes, as etcd stores it. Raises ProtobufError for another form."""
    if not value.startswith(_KUBERNETES):
        raise ProtobufError("it is not stored as protobuf")
    return field(value[len(_KUBERNETES) :], 2)


def with_object(value: bytes, message: bytes) -> bytes:
    """The stored value with another message in it."""
    return _KUBERNETES + changed(value[len(_KUBERNETES) :], {2: (message,)})


def _made(number: int, content: bytes) -> bytes:
    return _written(number << 3 | _BYTES) + _written(len(content)) + content


def _written(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise ProtobufError("a number has no end")
