"""Kubernetes quantities as exact numbers: `500m`, `16Gi`, `1e3`. The only place that reads or writes them.

An API server gives no quantity back as it was written: 1000 pods are `1k`, 1024Mi are `1Gi`. So nothing may look at the text,
and what has to be equal to what the server shows is written as it would write it. A quantity is read once, where it comes in,
and travels as an `Amount`, which is printed once, where it goes out. What is negative or no quantity at all is refused.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, ROUND_UP, Context, Decimal
from functools import lru_cache
from typing import Any, Final, Literal, Self, TypeAlias

Notation: TypeAlias = Literal["decimal", "binary", "exponent"]
Rounding: TypeAlias = Literal["down", "up"]

_QUANTITY: Final = re.compile(
    r"\+?([0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,2}))?"
)
_POWERS: Final[Mapping[str, int]] = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES: Final = {power: suffix for suffix, power in _POWERS.items()}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FACTORS: Final[Mapping[str, Decimal]] = {suffix: Decimal(1024) ** at for at, suffix in enumerate(_BINARY) if suffix} | {
    suffix: Decimal(1).scaleb(power) for suffix, power in _POWERS.items()
}
_MOST: Final = Decimal(2**63 - 1)
_REMEMBERED_CHARS: Final = 32
_BYTES: Final = frozenset({"memory", "ephemeral-storage"})
_PAGES: Final = "hugepages-"
_NANO: Final = Decimal("1e-9")
_MILLI: Final = 3  # a power of ten
# More digits than any of the above have together: the context of the thread would round.
_EXACT: Final = Context(prec=250)


class InvalidQuantityError(ValueError):
    """Not a quantity, or a negative one."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity that was read: the exact number, and the notation in which an API server goes on writing it."""

    number: Decimal
    notation: Notation = "decimal"

    @classmethod
    def read(cls, value: Any) -> Self:
        """Read a quantity; raises `InvalidQuantityError`."""
        number, suffix, exponent = _read(value)
        notation: Notation = "binary" if suffix in _BINARY[1:] else "exponent" if exponent is not None else "decimal"
        return cls(number, notation)

    @classmethod
    def of(cls, number: int) -> Self:
        """A number of things."""
        return cls(Decimal(number))

    @property
    def is_whole(self) -> bool:
        """Whether it is a number of things that can only be had whole."""
        return self.number == self.number.to_integral_value()

    @property
    def count(self) -> int:
        """The number of things; a fraction counts as the next whole."""
        return math.ceil(self.number)

    def __str__(self) -> str:
        """As an API server writes it."""
        if self.notation == "binary" and self.number >= 1024 and self.is_whole:
            return _binary(int(self.number))
        return _decimal(self.number, exponents=self.notation == "exponent")


def parse(value: Any) -> Decimal:
    """The number that a quantity stands for, to the next higher of the smallest steps that an API server knows."""
    return _read(value)[0]


def readable(value: Any) -> Decimal | None:
    """The same of an unchecked value; None where it is missing or no quantity."""
    try:
        return None if value is None else parse(value)
    except InvalidQuantityError:
        return None


def whole(value: Any) -> int:
    """The number of things that can only be had whole, such as GPUs."""
    found = parse(value)
    if found != found.to_integral_value():
        raise InvalidQuantityError(f"{str(value)[:32]!r} is not a whole number")
    return int(found)


def mebibytes(value: Any) -> int:
    """Whole MiB of a quantity of memory, rounded down."""
    return int((parse(value) / 2**20).to_integral_value(ROUND_FLOOR))


def base_units(resource: str, number: Decimal, rounding: Rounding) -> int:
    """A number in whole base units: millicores of cpu, of all else what it counts.

    What is given (a quota, a node's room) is rounded down and what is asked for or used is rounded up: so what fits in base
    units fits.
    """
    exact = number.scaleb(_MILLI, _EXACT) if resource == "cpu" else number
    return math.floor(exact) if rounding == "down" else math.ceil(exact)


def of_base_units(resource: str, units: int) -> Decimal:
    """The number that so many base units are."""
    return Decimal(units).scaleb(-_MILLI, _EXACT) if resource == "cpu" else Decimal(units)


def unit_of(resource: str) -> str:
    """What a base unit of a resource is, as JSON names it: millicores, bytes or count."""
    if resource == "cpu":
        return "millicores"
    return "bytes" if resource in _BYTES or resource.startswith(_PAGES) else "count"


def written(resource: str, units: int) -> str:
    """So many base units, as people write them: of bytes the shorter of both notations, `3G` or `16Gi`."""
    number = of_base_units(resource, units)
    if resource in _BYTES or resource.startswith(_PAGES):
        return min(str(Amount(number, "binary")), str(Amount(number)), key=len)
    return str(Amount(number)) if resource == "cpu" else str(units)


def shown(resource: str, units: int) -> str | int:
    """The same in a status: a number of devices, or a quantity, which no sum makes longer than the largest one is."""
    bounded = min(units, int(_MOST))
    return bounded if "/" in resource else written(resource, bounded)


def same(one: Any, other: Any) -> bool:
    """Whether two quantities are equal as numbers; a value that is not a quantity equals nothing."""
    try:
        return parse(one) == parse(other)
    except InvalidQuantityError:
        return False


def canonical(value: Any, like: str = "") -> str:
    """A quantity as an API server writes it; a number gets decimal suffixes, or those of what it is `like`."""
    made = Amount(value) if isinstance(value, Decimal) else Amount.read(value)
    return str(replace(made, notation=Amount.read(like).notation) if like else made)


def _read(value: Any) -> tuple[Decimal, str | None, str | None]:
    """The number, and the suffix or exponent; thousands of pods request the same few amounts, so short texts are remembered."""
    return _remembered(value) if type(value) is str and len(value) <= _REMEMBERED_CHARS else _parsed(value)


@lru_cache(maxsize=4096)
def _remembered(text: str) -> tuple[Decimal, str | None, str | None]:
    return _parsed(text)


def _parsed(value: Any) -> tuple[Decimal, str | None, str | None]:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidQuantityError(f"expected a quantity, got {type(value).__name__}")
    plain = str(value) if isinstance(value, str) else f"{value}" if abs(value) <= _MOST else "too large"
    match = _QUANTITY.fullmatch(plain)
    if match is None:
        raise InvalidQuantityError(f"{plain[:32]!r} is not a quantity of zero or more")
    digits, suffix, exponent = match.groups()
    factor = _FACTORS[suffix] if suffix else Decimal(1).scaleb(int(exponent or 0))
    found = _EXACT.multiply(Decimal(digits), factor)
    if found > _MOST:
        raise InvalidQuantityError(f"{plain[:32]!r} is beyond every resource")
    return found.quantize(_NANO, ROUND_UP, _EXACT), suffix, exponent


def _decimal(number: Decimal, *, exponents: bool) -> str:
    """As few digits as there are before a power of a thousand."""
    if not number:
        return "0"
    power = -9
    digits = int(number.quantize(_NANO, ROUND_UP, _EXACT).scaleb(9, _EXACT))
    while digits % 1000 == 0:
        digits, power = digits // 1000, power + 3
    if exponents:
        return f"{digits}e{power}" if power else f"{digits}"
    return f"{digits}{_SUFFIXES[power]}"


def _binary(number: int) -> str:
    at = 0
    while number % 1024 == 0:
        number, at = number // 1024, at + 1
    return f"{number}{_BINARY[at]}"
