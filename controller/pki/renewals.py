"""How many planes have certificates renewed in a while: those of tenants that were made together fall due together.

A third of a certificate's life is left then, so nobody is in a hurry; and a clock that is wrong in spite of all that it is held
against has a few planes renewed, not all of them.
"""

from collections.abc import Callable
from typing import Final

from bulkhead.work.bucket import Bucket
from bulkhead.work.clock import Clock

_RENEWALS_AT_ONCE: Final = 5
_SECONDS_BETWEEN_RENEWALS: Final = 3.0


class Renewals:
    """Gives leave, to one reconcile at a time; `in_doubt` says why nobody knows what time it is, where that is so."""

    def __init__(self, clock: Clock, in_doubt: Callable[[], str] = str) -> None:
        self._in_doubt = in_doubt
        self._bucket = Bucket(clock, most=_RENEWALS_AT_ONCE, seconds_each=_SECONDS_BETWEEN_RENEWALS)

    @property
    def why_not(self) -> str:
        """Why certificates that are due are not renewed, in words that stay the same."""
        return self._in_doubt() or "those of other tenants come first"

    def take(self) -> bool:
        """Whether a plane's certificates may be renewed now; else its reconcile comes again."""
        if self._in_doubt():
            return False
        return self._bucket.take()
