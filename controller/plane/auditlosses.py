"""What an API server says that it lost of its audit trail. Pure.

It counts by itself, in its metrics; nothing of them is read but these numbers.
"""

import re
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(
    rb'^apiserver_audit_error_total\{plugin="(buffered|truncate|webhook)"\} ([0-9]{1,18}|[0-9.]{1,18}e[+][0-9]{2})$',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Losses:
    """How many events, by why: `buffered` did not fit, `truncate` were too large, `webhook` were not taken."""

    total: tuple[tuple[str, int], ...] = ()
    growing: bool = False  # whether there were more of them than at the look before
    unread: str = ""  # why nothing is known

    @property
    def count(self) -> int:
        """All of them."""
        return sum(number for _, number in self.total)


def losses_of(text: bytes) -> tuple[tuple[str, int], ...]:
    """What a plane's metrics say."""
    return tuple(sorted((why.decode(), int(float(number))) for why, number in _LINE.findall(text)))
