"""`make picture`: docs/pictures/top.svg, the output of `bulkhead top` in the demo while team-b borrows GPUs of team-a.

    demo, until team-b borrows ──> `bulkhead top` in a pseudo-terminal ──> bytes ──> `drawn`, pure ──> SVG

Nothing in the picture is written by hand: it is what the command prints into a terminal of this size.
"""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Final

from e2e import machine
from e2e.demo import lending
from e2e.demo.context import Context, StepError, run_steps
from e2e.demo.steps import STEPS

PICTURE: Final = Path("docs/pictures/top.svg")
COMMAND: Final = ("bulkhead", "top")
COLUMNS: Final = 84
ROWS: Final = 40
_SECONDS: Final = 60.0
_CHUNK: Final = 1 << 16
# The frame that rich fills in, with the reader's own fonts: rich's default format loads one from a server.
_FORMAT: Final = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<!-- written by `make picture`; do not edit -->
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px;
  line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: ui-sans-serif, Helvetica, Arial, sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def drawn(shown: str, title: str, columns: int) -> str:
    """The SVG of what a program wrote into a terminal, ANSI colours included; the same text gives the same picture."""
    from rich.console import Console  # noqa: PLC0415 - slow to load, for this alone
    from rich.text import Text  # noqa: PLC0415

    console = Console(
        record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="standard", legacy_windows=False
    )
    for line in shown.replace("\r\n", "\n").rstrip("\n").split("\n"):
        console.print(Text.from_ansi(line, no_wrap=True, overflow="crop"), highlight=False)
    made = console.export_svg(title=title, code_format=_FORMAT, unique_id="terminal")
    return re.sub(r"[ \t]+$", "", made, flags=re.MULTILINE)


def in_terminal(arguments: tuple[str, ...], environment: dict[str, str]) -> str:
    """The output of a command in a terminal of its own. Raises `RuntimeError` if the command fails or does not end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with subprocess.Popen(arguments, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment) as process:
        os.close(theirs)
        found = b""
        while chunk := _read(ours):
            found += chunk
        os.close(ours)
        _, complaint = process.communicate(timeout=_SECONDS)
    if process.returncode:
        raise RuntimeError(
            f"{' '.join(arguments)}: exit code {process.returncode}: {complaint.decode(errors='replace')[-2000:]}"
        )
    return found.decode()


def _read(stream: int) -> bytes:
    """The next bytes of a terminal; empty once its last writer is gone, which Linux reports as an error."""
    try:
        return os.read(stream, _CHUNK)
    except OSError:
        return b""


def main() -> int:
    """Run the demo up to the moment of the picture; another `make demo` continues from there."""
    if os.geteuid() != 0:
        print("picture: the embedded host needs root; next: sudo make picture", file=sys.stderr)
        return 1
    upto = next(number for number, step in enumerate(lending.STEPS, 1) if step.act is lending.borrow)
    try:
        run_steps((*STEPS, *lending.STEPS[:upto]), Context())
    except StepError as exc:
        print(f"\npicture failed\n  step:  {exc.step}\n  cause: {exc.cause}\n  next:  {exc.hint}", file=sys.stderr)
        return 1
    environment = os.environ | {"KUBECONFIG": str(machine.KUBECONFIG), "TERM": "xterm", "NO_COLOR": ""}
    shown = in_terminal((sys.executable, "-m", "workstation.cli.main", *COMMAND[1:]), environment)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(drawn(shown, "$ " + " ".join(COMMAND), COLUMNS))
    print(shown)
    print(f"drawn: {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
