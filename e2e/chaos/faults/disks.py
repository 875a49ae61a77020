"""A slow or failing disk under one program: strace injects delays and errors into its system calls, and logs each of them.

Nothing but the traced program is affected, and it runs on untraced when strace ends, also if strace is killed.
"""

import contextlib
import re
import shutil
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


def strace(process: Process, calls: str, inject: str, log: Path, files: Sequence[str] = ()) -> tuple[str, ...]:
    """The command that traces a program with all its threads; it ends with this process. Pure.

    `files` are the paths, as the program sees them, to which the calls have to go; all calls without any.
    """
    tracer = ("strace", "-f", "-q", "-T", "-p", str(process.pid), "-e", f"trace={calls}")
    only = [word for path in files for word in ("-P", path)]
    return ("setpriv", "--pdeathsig", "TERM", "--", *tracer, "-e", f"inject={calls}:{inject}", *only, "-o", str(log))


def open_files(process: Process, part: str) -> list[str]:
    """The paths of a program's open files that contain `part`, as the program sees them."""
    found = set()
    for link in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            path = str(link.readlink())
            if part in path and link.is_file():
                found.add(path)
    return sorted(found)


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

    def _trace(self, scene: Scene, calls: str, inject: str, files: str = "") -> Path:
        """Trace the target's etcd, or its calls to the open files whose paths contain `files`; returns strace's log."""
        process = until("etcd of the target", lambda: _first(scene), seconds=30)
        log = Path(tempfile.mkdtemp(prefix="bulkhead-strace-")) / "calls"
        only = open_files(process, files) if files else []
        if files and not only:
            raise OSError(f"etcd (process {process.pid}) has no open file with {files!r} in its path")
        tracer = subprocess.Popen(strace(process, calls, inject, log, only), stderr=subprocess.DEVNULL)
        self.undo.later("the log of strace", partial(shutil.rmtree, log.parent, ignore_errors=True))
        self.undo.later("strace", partial(_detach, tracer))
        # An etcd that cannot write ends so soon that it is never seen traced; the log shows what it was refused.
        until(
            "strace to hold etcd",
            lambda: expect(traced_by(process) > 0 or (log.exists() and log.stat().st_size > 0), "not traced"),
            seconds=10,
        )
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
    files: str = ""  # only calls to the open files with this in their paths: a full disk refuses no network

    def inject(self, scene: Scene) -> Sequence[Proof]:
        doomed = _first(scene)
        log = self._trace(scene, self.calls, f"error={self.error}:when=3+", self.files)
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
