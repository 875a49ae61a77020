"""How often something may be done: so many times at once, and one more after so many seconds.

It answers at once; a caller that has to wait keeps its own queue. Belongs to one event loop.
"""

from bulkhead.work.clock import Clock


class Bucket:
    """Full at first."""

    def __init__(self, clock: Clock, *, most: int, seconds_each: float) -> None:
        self._clock = clock
        self._most = float(most)
        self._seconds_each = seconds_each
        self._left = self._most
        self._at = clock.monotonic()

    def take(self) -> bool:
        """Whether it may be done once now; where it may, that is counted."""
        now = self._clock.monotonic()
        self._left = min(self._most, self._left + (now - self._at) / self._seconds_each)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
