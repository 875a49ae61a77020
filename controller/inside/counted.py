"""Structs that are counted while an answer is decoded, so that an answer of nothing but brackets cannot fill the memory. Pure.

A decoder checks the length of a list only when all of it is in memory: three bytes of an answer, `{},`, take a hundred there.
"""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class _Ration:
    """How many more counted structs the answer that is being decoded may hold; decoding is never interrupted."""

    left = 0


class Counted(msgspec.Struct, gc=False, frozen=True):
    """A struct that an answer may repeat."""

    def __post_init__(self) -> None:
        _Ration.left -= 1
        if _Ration.left < 0:
            raise ValueError("more repeated entries than are read")


class _PageMeta(msgspec.Struct, gc=False):
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T]):
    """One page of a list."""

    items: list[T] | None = None
    metadata: _PageMeta | None = None


def decode(decoder: "msgspec.json.Decoder[T]", data: bytes, most: int) -> T:
    """Decode an answer that may hold so many counted structs; raises what msgspec raises."""
    _Ration.left = most
    return decoder.decode(data)
