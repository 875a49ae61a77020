"""A pytest plugin that turns a good machine into a bad one: `make test LAG=1`. Tests that pass there do not pass by chance.

    every watch event of a client in this process   comes 0.7 to 1 s after it was read, in its order
    every fsync of a test's etcd                    takes 20 ms longer, as on a slow disk
    every core                                      has a busy loop of another process on it

Only tests with real API servers have late events: with simulated time nothing waits. Without LAG=1 the plugin does nothing.
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
# The loop is told its parent's process ID: otherwise it would mistake the process that adopts it for its parent, if the parent
# has already ended.
_BUSY: Final = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(10_000_000): pass"
_busy: list[subprocess.Popen[bytes]] = []


def slow_disk(command: list[str]) -> list[str]:
    """The command of an etcd with slow fsyncs; the started process is still etcd itself, so tests can kill and freeze it."""
    if not STRAINED:
        return command
    strace = shutil.which("strace")
    if strace is None:
        raise RuntimeError("LAG=1 slows the disk by strace, which is not installed: apt-get install strace")
    kept = [item for item in command if item != "--unsafe-no-fsync"]
    inject = f"--inject=fsync,fdatasync:delay_enter={_FSYNC_MICROSECONDS}"
    return [strace, "-D", "-f", "--seccomp-bpf", "--trace=fsync,fdatasync", inject, "-o", "/dev/null", *kept]


async def late_events(*arguments: Any, **options: Any) -> AsyncGenerator[WatchEvent, None]:
    """The events of `watch_events`, each late and in its order; the end, or the error, comes after all of them."""
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
    """Use up the CPU, once for all processes of a run."""
    if STRAINED and "PYTEST_XDIST_WORKER" not in os.environ and not config.option.collectonly:
        _busy.extend(subprocess.Popen([sys.executable, "-c", _BUSY, str(os.getpid())]) for _ in range(os.cpu_count() or 1))


def pytest_unconfigure() -> None:
    """Stop using up the CPU."""
    while _busy:
        _busy.pop().kill()


@pytest.fixture(autouse=STRAINED)
def _late(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("apiserver"):
        monkeypatch.setattr(client, "watch_events", late_events)
