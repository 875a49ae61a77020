"""Bounds how many planes renew certificates at a time: those of tenants that were created together are due together.

A third of a certificate's life is left then, so there is no hurry. And if the clock is wrong in spite of all checks, only a few
planes have their certificates renewed, not all of them.
"""

from collections.abc import Callable
from typing import Final

from bulkhead.work.bucket import Bucket
from bulkhead.work.clock import Clock

_RENEWALS_AT_ONCE: Final = 5
_SECONDS_BETWEEN_RENEWALS: Final = 3.0


class Renewals:
    """Permits renewals, to one reconcile at a time; `in_doubt` returns why the present time is unknown, or nothing."""

    def __init__(self, clock: Clock, in_doubt: Callable[[], str] = str) -> None:
        self._in_doubt = in_doubt
        self._bucket = Bucket(clock, most=_RENEWALS_AT_ONCE, seconds_each=_SECONDS_BETWEEN_RENEWALS)

    @property
    def why_not(self) -> str:
        """Why certificates that are due are not renewed; the text stays the same."""
        return self._in_doubt() or "those of other tenants come first"

    def take(self) -> bool:
        """Whether a plane's certificates may be renewed now; if not, its reconcile runs again later."""
        if self._in_doubt():
            return False
        return self._bucket.take()
