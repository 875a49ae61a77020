"""Runs one command in a process group of its own, and ends it so that it can tidy up. Knows nothing of suites.

signal or deadline ──> SIGINT to the group ──(patience)──> SIGTERM ──(a little)──> SIGKILL

Tests remove what they made on SIGINT, as on Ctrl-C; a group of its own keeps a Ctrl-C at the terminal from reaching them twice.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ci.record import Result

# How long a command that is told to end has for what it removes: at the hard stop, and when we have been told to end ourselves.
PATIENCE: Final = 180.0
SIGNALLED_PATIENCE: Final = 20.0
_LAST_PATIENCE: Final = 5.0
_LOOK: Final = 0.1  # how often a command that runs is looked at
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_told: list[int] = []


class Signalled(Exception):  # noqa: N818 -- a request, not an error
    """A signal told the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    result: Result
    seconds: float


@contextlib.contextmanager
def signals_end() -> Iterator[None]:
    """SIGINT and SIGTERM end the command that runs, and `run` raises `Signalled`; between commands they wait for the next.

    A signal is noted first and raised later: raised at once, it could come while a process is being started, and nothing would
    end that process. Commands listen to both, also where a shell started us in the background with SIGINT ignored.
    """
    former = {wanted: signal.signal(wanted, lambda number, _: _told.append(number)) for wanted in _SIGNALS}
    try:
        yield
    finally:
        for wanted, handler in former.items():
            signal.signal(wanted, handler)
        _told.clear()


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
    listen: bool = True,
) -> Ended:
    """Run it, at most this long. A signal to us ends it and is raised, but for what tidies up: that does not `listen`."""
    begin = time.monotonic()
    with subprocess.Popen(list(command), env={**os.environ, **(environment or {})}, process_group=0) as process:
        while process.poll() is None:
            if listen and _told:
                end(process, SIGNALLED_PATIENCE)
                raise Signalled(_told[0])
            if seconds is not None and time.monotonic() - begin > seconds:
                end(process, PATIENCE)
                return Ended(Result.STOPPED, time.monotonic() - begin)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK)
    return Ended(Result.PASSED if process.returncode == 0 else Result.FAILED, time.monotonic() - begin)


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """End a process group, as gently as possible."""
    for number, seconds in ((signal.SIGINT, patience), (signal.SIGTERM, _LAST_PATIENCE), (signal.SIGKILL, _LAST_PATIENCE)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
