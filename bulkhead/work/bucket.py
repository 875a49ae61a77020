"""How often something may be done: so many times at once, and one more after so many seconds.

Asked and answered at once; whoever has to wait for leave has a queue of their own. Belongs to one event loop.
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
