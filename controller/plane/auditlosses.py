"""How many events of the audit trail an API server has lost, from its metrics. Pure.

The API server counts them by itself; nothing else of its metrics is read.
"""

import re
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(
    rb'^apiserver_audit_error_total\{plugin="(buffered|truncate|webhook)"\} '
    rb"([0-9]{1,18}|[0-9](?:[.][0-9]{1,17})?e[+][0-9]{2})$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Losses:
    """How many events were lost, by cause: `buffered` did not fit, `truncate` were too large, `webhook` were not accepted."""

    total: tuple[tuple[str, int], ...] = ()
    growing: bool = False  # whether the number has grown since the previous look
    unread: str = ""  # why the number is unknown; empty if it is known

    @property
    def count(self) -> int:
        """The sum over all causes."""
        return sum(number for _, number in self.total)


def losses_of(text: bytes) -> tuple[tuple[str, int], ...]:
    """The losses in the text of a plane's metrics, by cause."""
    return tuple(sorted((why.decode(), int(float(number))) for why, number in _LINE.findall(text)))
