"""A moment with its zone, as the API has it. Pure.

API servers take more for `format: date-time` than Python reads: a small `z`, the year 0, a zone of 99 hours. What cannot be
read is None, and each caller decides what is safe then.
"""

from datetime import datetime
from typing import Any

from bulkhead.api.untrusted import text


def moment_of(written: Any) -> datetime | None:
    """The moment that a text names; None for anything else, and for one without a zone."""
    try:
        found = datetime.fromisoformat(text(written).upper())
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
