"""Which process of tests creates a tenant that all of them use, and which deletes it.

    enter: the first one of a run creates it, the others wait for that -> use -> leave: the last one deletes it

The kernel releases the files of a process that dies. This module knows nothing about tests or hosts.
"""

import fcntl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO


@dataclass(slots=True)
class Companions:
    """One process among those that use the tenant of this name; all share a folder, and the name of the run."""

    folder: Path
    run: str
    name: str
    _using: TextIO | None = field(default=None, init=False)

    def enter(self, create: Callable[[], None]) -> None:
        """Call `create` if no process of this run has created it, or if all that did have left."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # Waits while the last one before deletes it.
        self._using = (self.folder / f"used-{self.name}").open("a")
        fcntl.flock(self._using, fcntl.LOCK_SH)
        with self._made.open("a+") as made:
            fcntl.flock(made, fcntl.LOCK_EX)
            made.seek(0)
            if made.read() != self.run:
                create()
                made.truncate(0)
                made.write(self.run)

    def leave(self, delete: Callable[[], None]) -> None:
        """Call `delete` if no other process uses it. Nothing happens without an `enter`."""
        if self._using is None:
            return
        try:
            fcntl.flock(self._using, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            self._made.unlink(missing_ok=True)
            delete()
        self._using.close()
        self._using = None

    @property
    def _made(self) -> Path:
        return self.folder / f"made-{self.name}"
