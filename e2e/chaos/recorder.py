"""Writes a history. Prober and observer share this: a queue of records, one writer, and an orderly end.

All records of a process pass through one queue to one writer, so that a slow disk delays no measurement. The process ends on
SIGTERM, or when the runner that started it is gone: how long a run takes is not known before. Times are those of the machine's
monotonic clock, so that histories of several processes can be merged.

    python -m e2e.chaos.<prober|observer> --out FILE [--period N] TENANT=KUBECONFIG…
"""

import argparse
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from e2e.api import Api
from e2e.chaos.history import Record, to_line
from e2e.machine import Standing, host_api, stand

REQUEST_TIMEOUT = 5.0
Start = Callable[["Recorder", Mapping[str, Api], Api], Iterable[Callable[[], None]]]


class Recorder:
    """Collects records of all threads and writes them, one line each."""

    def __init__(self, path: Path) -> None:
        self._queue: queue.Queue[Record] = queue.Queue(maxsize=100_000)
        self._path = path
        self.stop = threading.Event()
        self.period = 0.1  # seconds between two probes of one API

    def add(self, record: Record) -> None:
        self._queue.put(record, timeout=5)

    def write(self, runner: int) -> None:
        """Write until stopped, or until `runner`, the parent process, is gone; then write what is left in the queue."""
        with self._path.open("w") as out:
            while not (self.stop.is_set() and self._queue.empty()):
                if os.getppid() != runner:
                    self.stop.set()
                with suppress(queue.Empty):
                    out.write(to_line(self._queue.get(timeout=0.2)) + "\n")
                if self._queue.empty():  # the runner reads what there is before the run is over
                    out.flush()


def record(description: str, loops: Start) -> int:
    """The body of a recording process: each of `loops` in a thread of its own, until stopped."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--period", type=float, default=0.1, help="seconds between two probes of one API")
    parser.add_argument("tenants", nargs="+", metavar="TENANT=KUBECONFIG")
    chosen = parser.parse_args()
    runner = os.getppid()
    recorder = Recorder(chosen.out)
    recorder.period = chosen.period
    # The measurement is how long the APIs take, not how long this process waits for a core.
    stand(Standing.PROBE)
    signal.signal(signal.SIGTERM, lambda *_: recorder.stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner stops us in its own order
    kubeconfigs = dict(item.split("=", 1) for item in chosen.tenants)
    # A certificate is valid for one hour. The runner writes the file again in time, and each process reads it again.
    apis = {name: Api(Path(path), timeout=REQUEST_TIMEOUT, renew=_renewed_by_the_runner) for name, path in kubeconfigs.items()}
    for loop in loops(recorder, apis, host_api(timeout=REQUEST_TIMEOUT)):
        threading.Thread(target=loop, daemon=True).start()
    recorder.write(runner)
    return 0


def _renewed_by_the_runner() -> None:
    """Nothing to do: the file is new already."""
