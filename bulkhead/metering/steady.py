"""Tells the time from a clock that may jump.

Times are whole milliseconds. Pure: both clocks of the machine are passed in.
"""

from typing import Final

# How far both clocks may drift apart before that counts as a jump, and after how long a jump is accepted.
_DRIFT: Final = 2_000
_BELIEVED_AFTER: Final = 600_000


class Steady:
    """Tells the time from a clock that may jump: never backwards, and a jump is accepted only once it has lasted."""

    def __init__(self, wall: int, monotonic: int) -> None:
        self._at = wall
        self._monotonic = monotonic
        self._off_since: int | None = None

    def now(self, wall: int, monotonic: int) -> int:
        """The time, by both clocks of the machine."""
        went = self._at + max(0, monotonic - self._monotonic)
        self._monotonic = max(monotonic, self._monotonic)
        if abs(wall - went) <= _DRIFT:
            self._off_since = None
        elif self._off_since is None:
            self._off_since = self._monotonic
        elif self._monotonic - self._off_since >= _BELIEVED_AFTER:
            # It never runs backwards: it stands still until the wall clock has caught up.
            went = max(wall, self._at)
            if went == wall:
                self._off_since = None
        self._at = went
        return went
