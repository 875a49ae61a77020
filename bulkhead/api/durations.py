"""Durations as the API writes them: a whole number and a unit, as 90s, 5m or 1h. Pure."""

from typing import Any, Final

from bulkhead.api.untrusted import text

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_MOST_DIGITS: Final = 5


def seconds(written: Any) -> int | None:
    """How many seconds that is; None for anything else."""
    duration = text(written)
    number, unit = duration[:-1], _UNITS.get(duration[-1:])
    return int(number) * unit if unit is not None and number.isdecimal() and len(number) <= _MOST_DIGITS else None
