"""The progress output of a long run: one line for each step, with the seconds since the start."""

import time
from collections.abc import Callable


def stopwatch() -> Callable[[str], None]:
    """A function that prints a line; the clock starts now."""
    begin = time.monotonic()

    def note(text: str) -> None:
        print(f"[{time.monotonic() - begin:6.1f} s] {text}", flush=True)

    return note
