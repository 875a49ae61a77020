"""Structs that are counted while a response is decoded, so that a response of empty objects cannot fill the memory. Pure.

A decoder checks the length of a list only once all of it is in memory: three bytes of a response, `{},`, take a hundred there.
"""

from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")
# msgspec reports it as its own error, so that it is known by its text.
TOO_MANY: Final = "more repeated entries than are read"


class _Ration:
    """How many more counted structs the present response may have; decoding is never interrupted."""

    left = 0


class Counted(msgspec.Struct, gc=False, frozen=True):
    """A struct that a response may repeat."""

    def __post_init__(self) -> None:
        _Ration.left -= 1
        if _Ration.left < 0:
            raise ValueError(TOO_MANY)


class _PageMeta(msgspec.Struct, gc=False):
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T]):
    """One page of a list."""

    items: list[T] | None = None
    metadata: _PageMeta | None = None


def decode(decoder: "msgspec.json.Decoder[T]", data: bytes, most: int) -> T:
    """Decode a response with at most so many counted structs; raises what msgspec raises."""
    _Ration.left = most
    return decoder.decode(data)
