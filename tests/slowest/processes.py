"""What the processes cost that a test process has started, as Linux tells it: those that run, and those that have ended."""

import os
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

_TICKS = os.sysconf("SC_CLK_TCK")
# Taken before any test runs: a test's time is also read while what it has put in place of these is still there.
_open, _take, _close, _listed = os.open, os.read, os.close, os.listdir


@dataclass(frozen=True, slots=True)
class Seen:
    """A started process when it was last looked at."""

    name: str
    first: str  # the test after which it ran for the first time
    seconds: float  # of CPU
    peak_mib: int


def children_seconds() -> float:
    """CPU seconds of all children, of those that run too: one that ends moves from one sum to the other."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + sum(_seconds(pid) for pid in _children())


def look(before: Mapping[int, Seen], test: str) -> dict[int, Seen]:
    """What runs now with what it has cost so far; what has ended since stays as it was."""
    found = dict(before)
    for pid in _children():
        name, seconds = _name(pid), _seconds(pid)
        if not name or (pid in found and found[pid].name == name):
            if pid in found:
                found[pid] = replace(found[pid], seconds=max(seconds, found[pid].seconds), peak_mib=_peak_mib(pid))
            continue
        found[pid] = Seen(name=name, first=test, seconds=seconds, peak_mib=_peak_mib(pid))
    return found


def _children() -> Iterator[int]:
    for task in _listed("/proc/self/task"):
        yield from map(int, _read(f"/proc/self/task/{task}/children").split())


def _seconds(pid: int) -> float:
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS  # its own and that of its ended children


def _name(pid: int) -> str:
    return _read(f"/proc/{pid}/comm").strip()


def _peak_mib(pid: int) -> int:
    lines = _read(f"/proc/{pid}/status").splitlines()
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _read(path: str) -> str:
    """A file, or nothing of a thread or process that has ended meanwhile."""
    try:
        number = _open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return b"".join(iter(lambda: _take(number, 65_536), b"")).decode(errors="replace")
    except OSError:
        return ""
    finally:
        _close(number)
