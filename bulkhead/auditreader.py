"""The process in container `audit` of a plane's pod: waits, or prints the newest events of the files beside it.

    python3 -m bulkhead.auditreader --wait                     does nothing until it is told to end
    python3 -m bulkhead.auditreader --since T --user U …       events as JSON lines, then a line of what is not among them

Reads files one line at a time and keeps a bounded number, so it needs no more memory for long trails than for short ones.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from bulkhead.api.auditevents import LONGEST_LINE, Choice, Newest

FOLDER = Path("/var/log/audit")


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(prog="auditreader", description="Events of a plane's audit trail.")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    for name in ("since", "user", "verb"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--most", type=int, default=500)
    options = parser.parse_args()
    if options.wait:
        stop = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, stop)
        signal.sigwait(stop)
        return 0
    newest = Newest(Choice(options.since, options.user, options.verb, options.most))
    for file in files(options.folder):
        with file:
            newest.add(lines(file))
    for line in newest.lines:
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.write(json.dumps({"large": newest.large, "leftOut": newest.left_out}).encode() + b"\n")
    return 0


def files(folder: Path) -> list[BinaryIO]:
    """The trail's files, the oldest first; the newest is opened before it can become a former one, and then counts once."""
    opened: list[BinaryIO] = []
    seen: set[int] = set()
    for path in (folder / "audit.log", *sorted(folder.glob("audit-*.log"), reverse=True)):
        try:
            file = path.open("rb")
        except FileNotFoundError:
            continue
        number = os.fstat(file.fileno()).st_ino
        if number in seen:
            file.close()
            continue
        seen.add(number)
        opened.append(file)
    return opened[::-1]


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Its lines; of one that is longer than events that are read, the beginning and a little more than they may have."""
    while line := file.readline(LONGEST_LINE + 2):
        whole = line.endswith(b"\n")
        yield line
        while not whole and (rest := file.readline(LONGEST_LINE)):
            whole = rest.endswith(b"\n")


if __name__ == "__main__":
    sys.exit(main())
