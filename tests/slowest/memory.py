"""How much memory a run holds at most: of the process that hands out the tests and all that it and its children have started.

    every two seconds: resident memory of each, which costs nothing to read ── a new most ──> proportional set sizes, by program

Pages that several processes share count once in proportional sizes, but the kernel walks all pages for them: so they are read
only when the resident sizes say that there is a new most.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

PERIOD_SECONDS: Final = 2.0
# A new most is looked at more closely from so much above the last one.
_STEP: Final = 1.01
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Held:
    """The proportional set sizes of a tree of processes at one moment."""

    programs: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # name -> how many, their MiB

    @property
    def mib(self) -> int:
        """All together."""
        return sum(mib for _, mib in self.programs.values())


def tree(root: int) -> list[int]:
    """A process and its descendants. A process whose parent has ended is not found."""
    children: dict[int, list[int]] = {}
    for pid in _running():
        fields = _read(pid, "stat").rpartition(")")[2].split()
        if fields:
            children.setdefault(int(fields[1]), []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def resident_bytes(pids: list[int]) -> int:
    """The resident memory of these, in which shared pages count for each."""
    return sum(int((_read(pid, "statm").split() or ["0", "0"])[1]) for pid in pids) * _PAGE


def held(pids: list[int]) -> Held:
    """The proportional memory of these by program."""
    found: dict[str, tuple[int, int]] = {}
    for pid in pids:
        lines = _read(pid, "smaps_rollup").splitlines()
        kib = next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
        name = _read(pid, "comm").strip()
        if name:
            count, mib = found.get(name, (0, 0))
            found[name] = (count + 1, mib + kib // 1024)
    return Held(found)


class Watch:
    """Looks at the tree of this process from `start` to `stop`."""

    def __init__(self) -> None:
        self.most = Held()
        self._resident = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def start(self) -> Self:
        """Begin, in a thread."""
        self._thread.start()
        return self

    def _run(self) -> None:
        while True:
            self.look(tree(os.getpid()))
            if self._over.wait(PERIOD_SECONDS):
                return

    def look(
        self,
        pids: list[int],
        resident: Callable[[list[int]], int] = resident_bytes,
        closely: Callable[[list[int]], Held] = held,
    ) -> None:
        """Keep what these hold if it is the most so far."""
        now = resident(pids)
        if now > self._resident * _STEP:
            self._resident = now
            self.most = max(self.most, closely(pids), key=lambda moment: moment.mib)

    def stop(self) -> Held:
        """The most that was seen."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        return self.most


def sentence(most: Held) -> str:
    """Text for a run's summary."""
    widest = sorted(most.programs.items(), key=lambda program: -program[1][1])
    parts = ", ".join(f"{count} {name} {mib} MiB" for name, (count, mib) in widest if mib >= 10)
    return f"memory at the most {most.mib / 1024:.1f} GiB: {parts}"


def _running() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def _read(pid: int, name: str) -> str:
    """A file of a process; nothing of one that has ended, or is another user's."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
