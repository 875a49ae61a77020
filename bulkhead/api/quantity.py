"""Kubernetes quantities as exact numbers: `500m`, `16Gi`, `1e3`. Parsing refuses what is negative or no quantity at all."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

_QUANTITY: Final = re.compile(
    r"\+?([0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,2}))?"
)
_BINARY: Final = {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL: Final = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal("1e3"), "M": Decimal("1e6"),
    "G": Decimal("1e9"), "T": Decimal("1e12"), "P": Decimal("1e15"), "E": Decimal("1e18"),
}  # fmt: skip
_FACTORS: Final[Mapping[str, Decimal]] = _BINARY | _DECIMAL
_MOST: Final = Decimal(2**63 - 1)


class InvalidQuantityError(ValueError):
    """Not a quantity, or a negative one."""


def parse(value: Any) -> Decimal:
    """The number that a quantity stands for."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidQuantityError(f"expected a quantity, got {type(value).__name__}")
    plain = str(value) if isinstance(value, str) else f"{value}" if abs(value) <= _MOST else "too large"
    match = _QUANTITY.fullmatch(plain)
    if match is None:
        raise InvalidQuantityError(f"{plain[:32]!r} is not a quantity of zero or more")
    digits, suffix, exponent = match.groups()
    found = Decimal(digits) * (_FACTORS[suffix] if suffix else Decimal(10) ** int(exponent or 0))
    if found > _MOST:
        raise InvalidQuantityError(f"{plain[:32]!r} is beyond every resource")
    return found


def whole(value: Any) -> int:
    """The number of things that can only be had whole, such as GPUs."""
    found = parse(value)
    if found != found.to_integral_value():
        raise InvalidQuantityError(f"{str(value)[:32]!r} is not a whole number")
    return int(found)


def same(one: Any, other: Any) -> bool:
    """Whether two quantities are equal as numbers; what is no quantity equals nothing."""
    try:
        return parse(one) == parse(other)
    except InvalidQuantityError:
        return False
