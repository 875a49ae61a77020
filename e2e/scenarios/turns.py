"""Turns on the machine's only host: most tests run at the same time as others, and tests that change the whole host run alone.

    beside others:  through the door -> onto the floor together        alone:  into the door, wait there -> the floor for itself

Door and floor are two locked files. With only a floor, a test that needs the host for itself would wait for ever while others
come and go. A test that waits in the door keeps the next ones out, except those that a process has announced (`expect`): once
the host is free again, they would have no others to run beside. The kernel unlocks all files when a process ends. This module
knows nothing about tests or hosts.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

POLL_SECONDS = 0.2
REMIND_SECONDS = 60.0
_ANNOUNCED = "next-of-"

Note = Callable[[str], None]


@dataclass(slots=True)
class Turns:
    """The turns of one process; all processes that share a folder share a host."""

    folder: Path
    note: Note
    _floor: TextIO | None = field(default=None, init=False)
    _next: TextIO | None = field(default=None, init=False)

    def expect(self, what: str) -> None:
        """Announce the next turn of this process, which runs beside others: it begins before any that needs the host alone."""
        if self._next is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._next = (self.folder / f"{_ANNOUNCED}{os.getpid()}-{id(self)}").open("w")
            fcntl.flock(self._next, fcntl.LOCK_EX)
            self._next.write(what)
            self._next.flush()

    def take(self, what: str, *, alone: bool) -> None:
        """Wait for the turn and keep it until `give`. While it waits, it prints the tests that it waits for."""
        if self._floor is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if alone:
            self._let_others_begin(what)
        with (self.folder / "door").open("w") as door:
            self._lock(door, fcntl.LOCK_EX, what, alone=alone)
            floor = (self.folder / "floor").open("w")
            self._lock(floor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, what, alone=alone)
        self._floor = floor
        if self._next is not None:
            Path(self._next.name).unlink(missing_ok=True)
            self._next.close()
            self._next = None
        self._mine.write_text(f"{what}{' alone' if alone else ''}")

    def give(self) -> None:
        """End the turn, so that others can run."""
        if self._floor is None:
            return
        self._mine.unlink(missing_ok=True)
        self._floor.close()
        self._floor = None

    @property
    def _mine(self) -> Path:
        return self.folder / f"held-by-{os.getpid()}"

    def _let_others_begin(self, what: str) -> None:
        told: list[str] = []
        while announced := [text for path in sorted(self.folder.glob(f"{_ANNOUNCED}*")) if (text := _announced(path))]:
            if announced != told:
                told = announced
                self.note(f"{what}: lets {', '.join(announced)} begin first")
            time.sleep(POLL_SECONDS)

    def _lock(self, file: TextIO, mode: int, what: str, *, alone: bool) -> None:
        begin = told = time.monotonic()
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, mode | fcntl.LOCK_NB)
                if told > begin:
                    self.note(f"{what}: goes on after {time.monotonic() - begin:.0f} s")
                return
            now = time.monotonic()
            if told == begin or now - told > REMIND_SECONDS:
                told = now
                wanted = "needs the host for itself" if alone else "runs beside others"
                self.note(f"{what}: {wanted}; waits for the end of {self._others() or 'another run'}")
            time.sleep(POLL_SECONDS)

    def _others(self) -> str:
        """The turns that other live processes have written down."""
        held = []
        for path in sorted(self.folder.glob("held-by-*")):
            with contextlib.suppress(FileNotFoundError):
                if Path("/proc", path.name.removeprefix("held-by-")).exists():
                    held.append(path.read_text())
                else:
                    path.unlink()
        return ", ".join(held)


def _announced(path: Path) -> str:
    """The turn that a live process has announced in this file; empty if there is none left."""
    with contextlib.suppress(FileNotFoundError), path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read() or path.name
        path.unlink(missing_ok=True)
    return ""
