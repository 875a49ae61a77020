"""What faults may have left on this machine, for example after a run that was killed, and how to remove it.

    python -m e2e.chaos.faults.traces             list it; exit code 1 if there is something
    python -m e2e.chaos.faults.traces --remove    remove it

It reads the machine and never changes a cluster: what a fault made there has the label `chaos`, and goes with its tenant.
"""

import argparse
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from e2e import machine
from e2e.chaos.faults import packets
from e2e.machine import Process

_PROXY = "e2e.chaos.faults.proxy"


@dataclass(frozen=True, slots=True)
class Trace:
    """One thing that is left, and what removes it; nothing but a person may remove files of a volume."""

    text: str
    remove: Callable[[], object] | None = None


def traced_by(process: Process) -> int:
    """The process that traces a program, as the kernel says; 0 if there is none."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^TracerPid:\s+(\d+)$", status, re.MULTILINE)
    return int(found.group(1)) if found else 0


def left() -> list[Trace]:
    """Everything that is left."""
    return [*_of_packets(), *_of_processes(), *_of_files()]


def _of_packets() -> Iterator[Trace]:
    if packets.present():
        yield Trace(f"nft table inet {packets.TABLE}", packets.clear)
    for device in packets.limited():
        yield Trace(f"a limit of the rate of {device}", partial(packets.unlimit_rate, device))


def _of_processes() -> Iterator[Trace]:
    for process in machine.processes_of_host():
        if process.state == "T":
            yield Trace(f"{process.program} (process {process.pid}) is stopped", partial(process.send, signal.SIGCONT))
        if (number := traced_by(process)) and (tracer := machine.process_at(number)):
            yield Trace(f"{process.program} (process {process.pid}) is traced", partial(tracer.send, signal.SIGTERM))
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if _PROXY.encode() in words and (proxy := machine.process_at(int(path.parent.name))):
            yield Trace(f"a proxy that delays (process {proxy.pid})", partial(proxy.send, signal.SIGTERM))


def _of_files() -> Iterator[Trace]:
    for path in sorted((machine.DATA / "volumes").glob("*/chaos-*")):
        yield Trace(f"{path}: a copy of a plane's data from before it was changed")


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.chaos.faults.traces", description="What faults have left on this machine.")
    parser.add_argument("--remove", action="store_true", help="remove all of it, but for files")
    chosen = parser.parse_args()
    for trace in left():
        print(trace.text)
        if chosen.remove and trace.remove is not None:
            trace.remove()
    return 1 if left() else 0


if __name__ == "__main__":
    sys.exit(main())
