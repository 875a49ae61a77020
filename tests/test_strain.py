"""What LAG=1 does to a run: late events keep their order and their end; a slow etcd stays the process that was started."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.kube.errors import Gone
from tests.kit import strain


def _events(*texts: str, then: Exception | None = None) -> Any:
    async def watch() -> AsyncIterator[str]:
        for text in texts:
            yield text
        if then is not None:
            raise then

    return watch


async def _seen(events: Any) -> list[str]:
    return [event async for event in events]


async def test_events_come_late_together_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred simultaneous events are late once, not a hundred times."""
    names = [f"event-{number}" for number in range(100)]
    monkeypatch.setattr(strain, "watch_events", _events(*names))
    begun = time.monotonic()
    assert await _seen(strain.late_events()) == names
    assert 0.7 <= time.monotonic() - begun < 30


async def test_an_error_comes_after_what_came_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strain, "watch_events", _events("one", then=Gone(410, "Expired", "too old")))
    events = strain.late_events()
    assert await anext(events) == "one"
    with pytest.raises(Gone, match="too old"):
        await anext(events)


async def test_a_watch_that_is_left_leaves_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless() -> AsyncIterator[str]:
        yield "one"
        await asyncio.Event().wait()

    monkeypatch.setattr(strain, "watch_events", endless)
    events = strain.late_events()
    assert await anext(events) == "one"
    await events.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_slow_disk_slows_what_is_started_and_nothing_stands_between(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import os, sys, time\nbegun = time.monotonic()\nos.fsync(os.open(sys.argv[1], os.O_CREAT | os.O_RDWR))\n"
    script += "print(os.getpid(), time.monotonic() - begun)"
    monkeypatch.setattr(strain, "STRAINED", True)
    command = strain.slow_disk(["python3", "-c", script, "/dev/shm/slow-disk", "--unsafe-no-fsync"])  # noqa: S108 -- memory
    assert "--unsafe-no-fsync" not in command
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    out, _ = started.communicate(timeout=60)
    pid, seconds = out.split()
    assert (int(pid), started.returncode) == (started.pid, 0)
    assert float(seconds) >= 0.02


def test_without_it_a_command_stays_as_it_is() -> None:
    if strain.STRAINED:
        pytest.skip("this run is under LAG=1")
    assert strain.slow_disk(["etcd", "--unsafe-no-fsync"]) == ["etcd", "--unsafe-no-fsync"]


def test_the_busy_loops_end_with_the_run() -> None:
    """A busy loop whose parent has died ends too."""
    start = "import os, subprocess, sys\nargs = [sys.executable, '-c', sys.argv[1], str(os.getpid())]\n"
    start += "print(subprocess.Popen(args, stdout=subprocess.DEVNULL).pid)"
    parent = subprocess.Popen(["python3", "-c", start, strain._BUSY], stdout=subprocess.PIPE, text=True)
    out, _ = parent.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while _runs(int(out)):
        assert time.monotonic() < deadline, "the busy loop outlived its run"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return True
