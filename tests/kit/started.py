"""Waits until a server that a test has started answers; of one that ended, or never answers, it tells the log and the port."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

from tests.kit.ports import seen

_LOG_CHARACTERS = 2000


def wait(
    name: str, process: "Popen[bytes]", log: Path, answers: Callable[[], bool], *, port: int, seconds: float = 60.0
) -> None:
    """Return once `answers` says so; after an `OSError` it is asked again. Raises RuntimeError."""
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        with contextlib.suppress(OSError):
            if answers():
                return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{name} does not answer after {seconds:g} s: {_tail(log)}{seen(port)}")
        time.sleep(0.05)
    raise RuntimeError(f"{name} ended with {process.returncode}: {_tail(log)}{seen(port)}")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-_LOG_CHARACTERS:]
