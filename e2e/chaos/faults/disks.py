"""A slow or failing disk under one program: strace injects delays and errors into its system calls, and logs each of them.

Nothing but the traced program is affected, and it runs on untraced when strace ends, also if strace is killed.
"""

import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from e2e import machine
from e2e.chaos.faults import parts
from e2e.chaos.faults.fault import Proof, Reversible, Scene, write_fails
from e2e.chaos.faults.traces import traced_by
from e2e.machine import Process
from e2e.poll import until
from e2e.workloads import expect

_SYNCS: Final = "fsync,fdatasync"


def strace(process: Process, calls: str, inject: str, log: Path) -> tuple[str, ...]:
    """The command that traces a program with all its threads; it ends with this process. Pure."""
    tracer = ("strace", "-f", "-q", "-T", "-p", str(process.pid), "-e", f"trace={calls}")
    return ("setpriv", "--pdeathsig", "TERM", "--", *tracer, "-e", f"inject={calls}:{inject}", "-o", str(log))


def injected(log: str) -> tuple[int, int, float]:
    """How many calls a log of strace shows as delayed and as failed, and the longest in seconds. Pure."""
    longest = max((float(text) for text in re.findall(r"<(\d+\.\d+)>$", log, re.MULTILINE)), default=0.0)
    return log.count("(DELAYED)"), log.count("(INJECTED)"), longest


def _detach(tracer: subprocess.Popen[bytes]) -> None:
    tracer.terminate()
    try:
        tracer.wait(timeout=10)
    except subprocess.TimeoutExpired:
        tracer.kill()
        tracer.wait(timeout=10)


@dataclass(frozen=True, slots=True)
class _Disk(Reversible):
    """The parts that both faults share."""

    seconds: float = 20.0

    def _trace(self, scene: Scene, calls: str, inject: str) -> Path:
        """Trace the target's etcd; returns strace's log."""
        process = until("etcd of the target", lambda: _first(scene), seconds=30)
        log = Path(tempfile.mkdtemp(prefix="bulkhead-strace-")) / "calls"
        tracer = subprocess.Popen(strace(process, calls, inject, log), stderr=subprocess.DEVNULL)
        self.undo.later("strace", partial(_detach, tracer))
        until("strace to hold etcd", lambda: expect(traced_by(process) > 0, "not traced"), seconds=10)
        return log

    def over(self, scene: Scene) -> None:
        held = [process.pid for process in parts.plane_processes(scene, "etcd") if traced_by(process)]
        expect(not held, f"still traced: {held}")


def _first(scene: Scene) -> Process:
    found = parts.plane_processes(scene, "etcd")
    expect(bool(found), "no process of etcd")
    return found[0]


@dataclass(frozen=True, slots=True)
class SlowDisk(_Disk):
    """Each sync of the target's etcd to its disk takes longer."""

    delay: float = 0.5

    def inject(self, scene: Scene) -> Sequence[Proof]:
        log = self._trace(scene, _SYNCS, f"delay_enter={int(self.delay * 1_000_000)}")
        slowest, failed, end = 0.0, 0, time.monotonic() + self.seconds
        while time.monotonic() < end:
            begin = time.monotonic()
            failed += bool(write_fails(scene.target.api, timeout=30))
            slowest = max(slowest, time.monotonic() - begin)
        delayed, _, longest = injected(log.read_text())
        return [
            (
                delayed > 0,
                f"strace delayed {delayed} syncs of etcd by {self.delay} s; the longest took {longest:.2f} s",
            ),
            (slowest >= self.delay, f"a write to the target took up to {slowest:.1f} s; {failed} failed"),
        ]


@dataclass(frozen=True, slots=True)
class FailingDisk(_Disk):
    """Calls of the target's etcd to its disk fail with an error, such as EIO or ENOSPC."""

    error: str = "EIO"
    calls: str = _SYNCS

    def inject(self, scene: Scene) -> Sequence[Proof]:
        doomed = _first(scene)
        log = self._trace(scene, self.calls, f"error={self.error}:when=3+")
        failure, end = "", time.monotonic() + self.seconds
        while time.monotonic() < end:
            failure = failure or write_fails(scene.target.api)
            time.sleep(0.2)
        _, failed, _ = injected(log.read_text())
        ended = machine.gone([doomed], seconds=1)
        text = f"etcd (process {doomed.pid}) {'ended' if ended else 'went on'}; a write failed: {failure[:100] or 'no'}"
        return [
            (failed > 0, f"strace let {failed} calls ({self.calls}) fail with {self.error}"),
            (bool(failure) or ended, text),
        ]
