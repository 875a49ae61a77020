"""How fast the machine is: the CPU time that it takes for a piece of work which is always the same. It changes nothing.

CPU time, and no time on the clock: to wait for a core is what load, probes and faults cause, and does not count. What is left
is what others on the same hardware take from this machine, of which it sees nothing else. The work has a process of its own, so
that no thread of the run is counted with it: `python -m e2e.chaos.speed` prints the figure.
"""

import mmap
import os
import resource
import statistics
import subprocess
import sys
from typing import Final

_ROUNDS: Final = 5
_ADDITIONS: Final = 300_000
_TOUCHED_BYTES: Final = 32 << 20
_PAGE_BYTES: Final = 4096
_CHILDREN: Final = 20
_CHILD: Final = "/bin/true"
_LONGEST_SECONDS: Final = 60.0


def cpu_seconds() -> float:
    """The CPU seconds of that work. Raises OSError and subprocess.SubprocessError if it could not be done."""
    command = [sys.executable, "-m", "e2e.chaos.speed"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=_LONGEST_SECONDS)
    return float(done.stdout)


def _round() -> float:
    before = _used()
    _work()
    return _used() - before


def _work() -> None:
    """What planes do: compute, take memory for the first time, and start processes."""
    total = 0
    for number in range(_ADDITIONS):
        total += number
    with mmap.mmap(-1, _TOUCHED_BYTES) as memory:
        for page in range(0, _TOUCHED_BYTES, _PAGE_BYTES):
            memory[page] = 1
    for _ in range(_CHILDREN):
        os.waitpid(os.posix_spawn(_CHILD, [_CHILD], {}), 0)


def _used() -> float:
    found = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


if __name__ == "__main__":
    sys.stdout.write(f"{statistics.median(_round() for _ in range(_ROUNDS)):.6f}\n")
