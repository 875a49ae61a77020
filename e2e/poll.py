"""Waits for something until a deadline and remembers what it saw last, so that a timeout explains itself.

A probe returns a value when it is satisfied, or raises `NotYetError` with what it saw instead. Errors of an API server that is
away count as "not yet"; any other error is passed on.
"""

import os
import time
from collections.abc import Callable
from typing import TypeVar

from e2e.api import ApiError, UnreachableError

T = TypeVar("T")

# The least number of checks before a state counts as lasting, however short the time.
_LEAST_LOOKS = 2
# Deadlines are written for an idle machine; they are multiplied by this factor.
PATIENCE = float(os.environ.get("BULKHEAD_E2E_PATIENCE", "3"))


class NotYetError(Exception):
    """The awaited state is not reached yet; the text says what was seen instead."""


class WaitTimeoutError(AssertionError):
    """The deadline passed; the text says what was awaited and what was seen last."""


Note = Callable[[str], None]


def until(
    what: str,
    probe: Callable[[], T],
    *,
    seconds: float,
    interval: float = 0.25,
    note: Note | None = None,
    patience: float = PATIENCE,
) -> T:
    """Call `probe` until it returns, for at most `seconds`; `note` gets each new observation, to show progress.

    `patience` is 1 if the test judges the deadline itself.
    """
    seconds *= patience
    deadline = time.monotonic() + seconds
    seen = "nothing"
    while True:
        try:
            return probe()
        except NotYetError as exc:
            current = str(exc)
        except UnreachableError as exc:
            current = str(exc)
        except ApiError as exc:
            if exc.status not in {404, 409, 429, 500, 502, 503, 504} and not exc.is_startup_refusal:
                raise
            current = str(exc)
        if current != seen and note is not None:
            note(current)
        seen = current
        if time.monotonic() >= deadline:
            raise WaitTimeoutError(f"waited {seconds:.0f} s for {what}; last seen: {seen}")
        time.sleep(interval)


def holds(what: str, probe: Callable[[], object], *, seconds: float, interval: float = 0.25) -> None:
    """Call `probe` for `seconds`, at least twice; it must never raise `NotYetError`. Shows that a state lasts."""
    deadline = time.monotonic() + seconds
    looks = 0
    while looks < _LEAST_LOOKS or time.monotonic() < deadline:
        try:
            probe()
        except NotYetError as exc:
            raise AssertionError(f"{what} did not hold for {seconds:.0f} s: {exc}") from exc
        looks += 1
        time.sleep(interval)
