"""Stop asking what keeps failing, and let one probe find out when it works again.

closed ── `failures` in a row ──> open ── `cooldown` passed ──> half-open: one probe
  ^                                ^                               │
  └────────── success ─────────────┼───────────────────────────────┤
                                   └────────── failure ────────────┘  (cooldown doubles up to `max_cooldown`)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from bulkhead.work.clock import Clock, SystemClock

State = Literal["closed", "open", "half-open"]


class BreakerOpen(Exception):  # noqa: N818 -- reads as a state
    """The call was not made."""

    def __init__(self, name: str, retry_after: float) -> None:
        super().__init__(f"breaker {name} open: next try in {retry_after:.1f} s")
        self.name = name
        self.retry_after = retry_after


class CircuitBreaker:
    """Guards one target."""

    def __init__(
        self,
        name: str,
        *,
        failures: int = 5,
        cooldown: float = 5.0,
        max_cooldown: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self._threshold = failures
        self._cooldown = cooldown
        self._max_cooldown = max_cooldown
        self._clock = clock or SystemClock()
        self._failures = 0
        self._wait = cooldown
        self._opened: float | None = None
        self._probe: float | None = None

    @property
    def state(self) -> State:
        """Where the breaker is now."""
        if self._opened is None:
            return "closed"
        return "open" if self.retry_after() > 0 else "half-open"

    def retry_after(self) -> float:
        """Seconds until a probe may go; 0 when calls may go now."""
        if self._opened is None:
            return 0.0
        since = max(self._opened, self._probe or self._opened)
        return max(0.0, since + self._wait - self._clock.monotonic())

    def allow(self) -> bool:
        """Whether a call may go now. In half-open the first caller is the probe, and the others wait for its outcome."""
        if self._opened is None:
            return True
        if self.retry_after() > 0:
            return False
        # A probe whose caller never reports back blocks for one more cooldown, not for ever.
        self._probe = self._clock.monotonic()
        return True

    def success(self) -> None:
        """The call worked."""
        self._failures = 0
        self._wait = self._cooldown
        self._opened = self._probe = None

    def failure(self) -> None:
        """The call failed in a way that says something about the target."""
        self._failures += 1
        if self._opened is not None and self._probe is not None:
            self._wait = min(self._max_cooldown, self._wait * 2)
            self._opened, self._probe = self._clock.monotonic(), None
        elif self._opened is None and self._failures >= self._threshold:
            self._opened = self._clock.monotonic()

    @contextmanager
    def guard(self, *counted: type[Exception]) -> Iterator[None]:
        """Run a call under the breaker; only the `counted` errors are failures, everything else proves life."""
        if not self.allow():
            raise BreakerOpen(self.name, self.retry_after())
        try:
            yield
        except counted:
            self.failure()
            raise
        except Exception:
            self.success()
            raise
        self.success()
