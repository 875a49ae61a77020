"""Whether the machine has room for a run: how busy it is without a fault. It reads the CPU's counters and changes nothing."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from e2e import machine
from e2e.poll import NotYetError, WaitTimeoutError, until

# A machine without room shows itself and not the fault: load and probes become slower until it has some (docs/decisions/0013).
MOST_BUSY = 0.6
# How many times slower. Spans are longer with it, so a step too many costs a whole run of ten tenants ten minutes.
_TIMES_SLOWER = (1, 2, 3, 4, 6, 8)
MOST_SLOWER = _TIMES_SLOWER[-1]
_CALM_BUSY, _CALM_SECONDS = 0.4, 90.0


@dataclass(frozen=True, slots=True)
class Baseline:
    """A span without a fault: when it `started`, its ends on the monotonic clock, and how `busy` the CPU was, 0 to 1."""

    started: str
    begin: float
    end: float
    idle_cores: float
    busy: float


def measure(
    seconds: float,
    times: int = 1,
    begin_one: Callable[[], None] = lambda: None,
    goes_on: Callable[[float], bool] = lambda _: True,
) -> Baseline:
    """What the machine is like for so long, so many times without a pause.

    `begin_one` is called as each begins, and `goes_on` after each with how busy the CPU has been: it may end the measurement.
    """
    begin, before, started = time.monotonic(), machine.CoreSeconds.now(), datetime.now(UTC).isoformat(timespec="seconds")
    for _ in range(times):
        begin_one()
        time.sleep(seconds)
        after = machine.CoreSeconds.now()
        if not goes_on(after.busy_since(before)):
            break
    end = time.monotonic()
    return Baseline(started, begin, end, (after.idle - before.idle) / max(0.001, end - begin), after.busy_since(before))


def calm(note: Callable[[str], None]) -> None:
    """Wait until what brought the tenants up is over, within a limit: a run need not be slower for it."""

    def probe() -> None:
        if (busy := measure(2.0).busy) > _CALM_BUSY:
            raise NotYetError(f"{busy:.0%} of the CPU is busy")

    with contextlib.suppress(WaitTimeoutError):
        until("the machine to be calm", probe, seconds=_CALM_SECONDS, note=note, patience=1)


def next_slower(slower: int) -> int:
    """How many times slower load and probes become when so many times are not enough. Pure."""
    return min((times for times in _TIMES_SLOWER if times > slower), default=MOST_SLOWER)


def enough(busy: float, slower: int) -> bool:
    """Whether so busy a machine has room, or load and probes are as slow as they may become. Pure."""
    return busy <= MOST_BUSY or slower >= MOST_SLOWER
