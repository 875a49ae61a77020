"""The output of commands: tables, and the progress of waits.

Results go to stdout, progress and warnings to stderr. Text that comes from a cluster may have been written by a tenant, so
control characters never reach the terminal. Decoration appears on a terminal only; pipes get plain columns.
"""

import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TextIO

from bulkhead.api.moments import moment_of

_LINE_LIMIT = 400
_LAST_AT_LEAST = 24
_NARROW = 80
# Printable for Python, and nothing on a screen: a name of them looks like another one, or like none.
_UNSEEN = frozenset(
    map(
        chr,
        (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)),
    )
)


def plain(text: object, limit: int = _LINE_LIMIT) -> str:
    """One line of printable text of bounded length, without control characters."""
    clean = " ".join("".join(char if char.isprintable() and char not in _UNSEEN else " " for char in str(text)).split())
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"


def is_terminal(stream: TextIO) -> bool:
    """Whether this stream is a terminal that can be redrawn."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def let_go(stream: TextIO) -> None:
    """Send what is still written to a stream nowhere, because its reader has gone or its disk is full.

    Each further write would fail, and so would the one with which Python flushes the stream at its exit.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


def told(stream: TextIO, tell: Callable[[], object]) -> None:
    """Print a part of a result. If its reader has gone (`| head`), the exit code still tells what was found."""
    try:
        tell()
        stream.flush()
    except BrokenPipeError:
        let_go(stream)


def _width(stream: TextIO) -> int:
    """Columns of the terminal behind a stream."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _NARROW
    except OSError:
        return _NARROW


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, stream: TextIO | None = None, indent: int = 0) -> None:
    """Print rows under headers: with rich on a terminal that is wide enough, row by row on a narrow one, else in columns."""
    stream = stream or sys.stdout
    cells = [[plain(cell) if cell not in (None, "") else "-" for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(headers), *cells]) for i in range(len(headers))]
    if is_terminal(stream):
        room = _width(stream) - indent
        if sum(widths[:-1]) + 3 * len(widths) + min(widths[-1], _LAST_AT_LEAST) <= room:
            _rich_table(headers, cells, stream, indent)
            return
        if sum(widths) + 3 * (len(widths) - 1) > room:
            for row in cells:
                stream.writelines(f"{' ' * indent}{line}\n" for line in _row_alone(headers, row, room))
            return
    for row in [list(headers), *cells]:
        line = "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        stream.write(f"{' ' * indent}{line}\n")


def _row_alone(headers: Sequence[str], row: Sequence[str], room: int) -> list[str]:
    """A row that is wider than the terminal: its first cell, and below it the others with their headers. Names stay whole."""
    lines, pairs = [row[0]], [f"{head.lower()} {cell}" for head, cell in zip(headers[1:], row[1:], strict=True) if cell != "-"]
    filled = ""
    for pair in pairs:
        if filled and len(filled) + 3 + len(pair) > room - 2:
            lines.append(f"  {filled}")
            filled = ""
        filled = f"{filled}   {pair}" if filled else pair
        if len(filled) > room - 2 and " " in pair.partition(" ")[2]:  # a message
            wrapped = textwrap.wrap(filled, max(room - 2, _LAST_AT_LEAST), break_long_words=False, break_on_hyphens=False)
            lines += [f"  {line}" for line in wrapped]
            filled = ""
    return [*lines, f"  {filled}"] if filled else lines


def _rich_table(headers: Sequence[str], cells: Sequence[Sequence[str]], stream: TextIO, indent: int) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to load, needed on a terminal only
    from rich.padding import Padding  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for header in headers:
        # Names stay whole, so that they can be copied; only the last column, the message, is wrapped.
        drawn.add_column(header, overflow="fold", no_wrap=header != headers[-1])
    for row in cells:
        drawn.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console(file=stream, highlight=False).print(Padding(drawn, (0, 0, 0, indent)))


_STYLES = {"True": "green", "False": "red", "Unknown": "yellow", "Running": "green"}


def heading(text: str) -> None:
    """A section's title on stdout."""
    sys.stdout.write(f"\n{text}\n")


def document(value: Any, form: str) -> None:
    """Print a value as JSON, or as YAML if `form` is `yaml`."""
    if form == "json":
        import json  # noqa: PLC0415

        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=True) + "\n")
        return
    import json  # noqa: PLC0415

    import yaml  # noqa: PLC0415

    # Convert to plain values first: YAML's writer does not accept enums.
    sys.stdout.write(yaml.safe_dump(json.loads(json.dumps(value)), sort_keys=False))


def age(stamp: str | None, *, now: datetime | None = None) -> str:
    """How long ago a timestamp of the API was, in one or two units, as kubectl prints it."""
    then = moment_of(stamp)
    if then is None:
        return "-"
    seconds = max(0, int(((now or datetime.now(UTC)) - then).total_seconds()))
    for unit, size, limit in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172_800)):
        if seconds < limit:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86_400}d"


class Progress:
    """The state of a wait on stderr: on a terminal one line that is rewritten, otherwise one line for each change."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = is_terminal(self._stream)
        self._begin = time.monotonic()
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live:
            self._write("\r\x1b[K")

    def show(self, text: str) -> None:
        """Show what the command waits for now."""
        text = plain(text)
        if self._live:
            self._write("\r\x1b[K" + f"{self._clock()} {text}"[: _width(self._stream) - 1])
        elif text != self._last:
            self._write(f"{self._clock()} {text}\n")
        self._last = text

    def warn(self, text: str) -> None:
        """Print a warning, which remains on the screen."""
        self._write(("\r\x1b[K" if self._live else "") + f"{self._clock()} warning: {plain(text)}\n")

    def _clock(self) -> str:
        return f"[{time.monotonic() - self._begin:5.1f}s]"

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            # Its reader has gone (`2>&1 | head`, a closed terminal): what is under way must still come to its end.
            let_go(self._stream)
