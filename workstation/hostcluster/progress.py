"""Shows progress: a live line on a terminal, plain lines elsewhere, nothing in tests."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console

from workstation.hostcluster.component import Progress

_PLAIN_DETAIL_SECONDS = 10.0


class Silent:
    """Shows nothing."""

    def step(self, text: str) -> None:
        """Nothing."""

    def detail(self, text: str) -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """Nothing."""


class Reporter:
    """Prints steps with the time that each took; a context manager, so that the last step is also closed."""

    def __init__(self, stream: Console | None = None) -> None:
        self._console = stream or Console(file=sys.stderr, highlight=False)
        self._status = self._console.status("") if self._console.is_terminal else None
        self._step = ""
        self._started = 0.0
        self._last_detail = 0.0

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close(failed=kind is not None)
        if self._status:
            self._status.stop()

    def _close(self, *, failed: bool = False) -> None:
        if not self._step:
            return
        took = time.monotonic() - self._started
        mark = "[red]✗[/]" if failed else "[green]✓[/]"
        self._console.print(f"{mark} {self._step} [dim]{took:.1f} s[/]")
        self._step = ""

    def step(self, text: str) -> None:
        """Close the previous step and begin this one."""
        self._close()
        self._step = text
        self._started = self._last_detail = time.monotonic()
        if self._status:
            self._status.update(text)

    def detail(self, text: str) -> None:
        """Progress within the step: live on a terminal, one line every ten seconds elsewhere."""
        now = time.monotonic()
        if self._status:
            self._status.update(f"{self._step}: [dim]{text}[/]")
        elif now - self._last_detail >= _PLAIN_DETAIL_SECONDS:
            self._last_detail = now
            self._console.print(f"  … {self._step}: {text}")

    def warn(self, text: str) -> None:
        """Print a line that remains."""
        self._console.print(f"[yellow]![/] {text}")


def _check(_reporter: type[Progress]) -> None:
    """A check for mypy that both classes are a Progress."""


_check(Silent)
_check(Reporter)
