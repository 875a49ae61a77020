"""A clock that goes on steadily where the machine's jumps, and says so: held against a server's clock and elapsed time.

    the machine's ──┬─ as the server's, and as expected ──────> it counts, and what is expected follows it
                    ├─ as the server's, but both jumped ──────> what is expected, until both stay with it for a while
                    └─ not as the server's ───────────────────> what is expected; before there was agreement, the server's

What is expected is the last time at which both agreed and the seconds since, those included during which the machine was
suspended: a laptop that wakes has the right time. Certificates that are renewed by a clock that is wrong for a moment would all
be renewed at once, with a life that is over or has not begun.
"""

import logging
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from bulkhead.work.clock import MachineClock

_log = logging.getLogger(__name__)
# Certificates are dated back for longer than that.
_APART: Final = timedelta(minutes=2)
# With this between both, and no time known at which they agreed, nothing says which of them is right.
_UNKNOWN: Final = timedelta(days=1)
_STAYS_SECONDS: Final = 600.0
_YEARS: Final = range(2000, 3000)  # outside of these a date is not plausible
# Of several API servers one may be wrong, and every answer another's.
_QUIET_SECONDS: Final = 60.0


class SteadyClock:
    """Wraps the machine's clock; everything in the process that asks for the time asks this one."""

    def __init__(self, machine: MachineClock) -> None:
        self._machine = machine
        self._agreed: tuple[datetime, float] | None = None
        self._server: tuple[datetime, float] | None = None
        self._jumped: float | None = None
        self._logged = float("-inf")
        self.trouble = ""
        # Whether even the approximate time is unknown: then nothing may become due.
        self.unknown = False

    def heard(self, date: str) -> None:
        """Take over the `Date` that a server has just answered with; ignore text that is not a date."""
        try:
            reported = parsedate_to_datetime(date)
        except (ValueError, OverflowError):
            return
        if reported.year in _YEARS:
            self._server = (reported if reported.tzinfo else reported.replace(tzinfo=UTC), self._machine.elapsed())

    def now(self) -> datetime:
        """The machine's time where nothing speaks against it, else what it ought to be."""
        machine, at = self._machine.now(), self._machine.elapsed()
        server, expected = _since(self._server, at), _since(self._agreed, at)
        if server is None:
            return machine  # before the first answer there is nothing to hold it against
        apart, jump = _apart(machine, server), timedelta() if expected is None else _apart(machine, expected)
        if not apart and jump:
            self._jumped = at if self._jumped is None else self._jumped
            if at - self._jumped >= _STAYS_SECONDS:
                jump = timedelta()
        else:
            self._jumped = None
        if not apart and not jump:
            self._agreed, self._jumped = (machine, at), None
            self._say("", unknown=False)
            return machine
        of = "the host's API server" if apart else "what it was and the seconds since, and so is the host's API server's"
        reported = f"the controller's clock is {_words(apart or jump)} {of}"
        self._say(reported, unknown=expected is None and abs(apart) > _UNKNOWN)
        return server if expected is None else expected

    def monotonic(self) -> float:
        """Monotonic seconds."""
        return self._machine.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._machine.sleep(seconds)

    def _say(self, trouble: str, *, unknown: bool) -> None:
        if bool(trouble) != bool(self.trouble) and self.monotonic() - self._logged >= _QUIET_SECONDS:
            self._logged = self.monotonic()
            if trouble:
                _log.error("%s: it does not count until they agree again; set the clocks right", trouble)
            else:
                _log.warning("the controller's clock counts again")
        self.trouble, self.unknown = trouble, unknown


def _since(moment: tuple[datetime, float] | None, at: float) -> datetime | None:
    return None if moment is None else moment[0] + timedelta(seconds=at - moment[1])


def _apart(machine: datetime, other: datetime) -> timedelta:
    """How far the machine's clock is ahead of another; nothing where that is within what counts as the same."""
    ahead = machine - other
    return ahead if abs(ahead) > _APART else timedelta()


def _words(ahead: timedelta) -> str:
    """A difference in words that stay the same from one moment to the next."""
    size = abs(ahead)
    amount = f"{size.days} days" if size.days > 1 else f"{round(size.total_seconds() / 60)} minutes"
    return f"{amount} {'ahead of' if ahead > timedelta() else 'behind'}"
