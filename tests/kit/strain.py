"""A pytest plugin that makes a bad machine of a good one: `make test LAG=1`. What passes there does not pass by chance.

    every watch event of a client in this process   comes 0.7 to 1 s after it was read, in its order
    every fsync of a test's etcd                    takes 20 ms longer, as on a slow disk
    every core                                      has a busy loop of somebody else on it

Only tests with real API servers have late events: where time is simulated, nothing is waited for. Without LAG=1 it does
nothing.
"""

import asyncio
import contextlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from typing import Any, Final

import pytest

from bulkhead.kube import client
from bulkhead.kube.watch import WatchEvent, watch_events

STRAINED: Final = os.environ.get("BULKHEAD_TEST_LAG", "") not in {"", "0"}
_LATE_SECONDS: Final = (0.7, 1.0)
_FSYNC_MICROSECONDS: Final = 20_000
# Its parent's number is told: a parent that has ended before it looks would be mistaken for the one that adopts it.
_BUSY: Final = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(10_000_000): pass"
_busy: list[subprocess.Popen[bytes]] = []


def slow_disk(command: list[str]) -> list[str]:
    """The command of an etcd whose fsyncs are slow; the process that is started stays etcd itself, to be killed and frozen."""
    if not STRAINED:
        return command
    strace = shutil.which("strace")
    if strace is None:
        raise RuntimeError("LAG=1 slows the disk by strace, which is not installed: apt-get install strace")
    kept = [each for each in command if each != "--unsafe-no-fsync"]
    inject = f"--inject=fsync,fdatasync:delay_enter={_FSYNC_MICROSECONDS}"
    return [strace, "-D", "-f", "--seccomp-bpf", "--trace=fsync,fdatasync", inject, "-o", "/dev/null", *kept]


async def late_events(*arguments: Any, **options: Any) -> AsyncGenerator[WatchEvent, None]:
    """What `watch_events` yields, each event late and in its order; the end, or the error, comes after all of them."""
    clock = asyncio.get_running_loop().time
    line: asyncio.Queue[tuple[float, WatchEvent | Exception | None]] = asyncio.Queue()

    async def read() -> None:
        try:
            async for event in watch_events(*arguments, **options):
                line.put_nowait((clock() + random.uniform(*_LATE_SECONDS), event))  # noqa: S311 -- a delay, no secret
            line.put_nowait((clock(), None))
        except Exception as error:  # noqa: BLE001 -- it is raised where it would have been
            line.put_nowait((clock(), error))

    reader = asyncio.create_task(read())
    try:
        while True:
            due, event = await line.get()
            await asyncio.sleep(due - clock())
            if event is None:
                return
            if isinstance(event, Exception):
                raise event
            yield event
    finally:
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader


def pytest_configure(config: pytest.Config) -> None:
    """Take the CPU away, once for all processes of a run."""
    if STRAINED and "PYTEST_XDIST_WORKER" not in os.environ and not config.option.collectonly:
        _busy.extend(subprocess.Popen([sys.executable, "-c", _BUSY, str(os.getpid())]) for _ in range(os.cpu_count() or 1))


def pytest_unconfigure() -> None:
    """Give it back."""
    while _busy:
        _busy.pop().kill()


@pytest.fixture(autouse=STRAINED)
def _late(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("apiserver"):
        monkeypatch.setattr(client, "watch_events", late_events)
