"""The prober: a process that measures real API servers at a steady rate, and ends with its parent."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until
from workstation.chaos import judge, measure, prober
from workstation.chaos.measure import Api, Samples, measuring

NAME = "probe"
DEADLINE = 5.0


async def test_it_measures_at_a_steady_rate_also_while_a_server_hangs(file_server: ApiServer) -> None:
    async with Client(file_server.admin, user_agent="t", field_manager="t") as client:
        await client.create(kinds.CONFIG_MAPS, {"metadata": {"name": NAME}}, "default")
        async with measuring([Api("a", client, "default", NAME, writes=True, seconds=DEADLINE)]) as samples:
            await until(lambda: _at_least(samples, 25), "samples")
            file_server.signal("kube-apiserver", signal.SIGSTOP)
            begin = measure.now()
            await asyncio.sleep(DEADLINE + 2)
            end = measure.now()
            file_server.signal("kube-apiserver", signal.SIGCONT)
            await until(lambda: _at_least(samples, 60), "samples after it")
        assert (await client.get(kinds.CONFIG_MAPS, NAME, "default"))["data"]["count"]
    before = judge.figures(samples.found, 0, begin - 1)["a"]
    during = judge.figures(samples.found, begin, end - DEADLINE)["a"]
    assert (before.errors, before.p50 > 0) == (0, True)
    # Requests began at their time, although none of those before had an answer.
    assert during.requests >= 10
    assert during.errors == during.requests
    assert "no answer within 5 s" in during.first_error


async def _at_least(samples: Samples, number: int) -> bool:
    assert not samples.broken
    return len(samples.found) >= number


def test_credentials_are_the_same_on_both_sides(file_server: ApiServer) -> None:
    assert prober.decode(prober.encode(file_server.admin)) == file_server.admin


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"{}", b'{"at": "x", "subject": 1}', b"[" * 50_000, b"\xff"])
def test_other_text_is_no_sample(line: bytes) -> None:
    samples = Samples()
    samples.add(line)
    assert samples.found == []


async def test_it_ends_with_its_parent() -> None:
    """A parent that is killed closes the prober's stdin."""
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'workstation.chaos.prober'], stdin=subprocess.PIPE)\n"
        'child.stdin.write(b\'{"period": 0.1, "apis": []}\\n\'); child.stdin.flush()\n'
        "print(child.pid, flush=True); time.sleep(600)\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    await parent.wait()

    async def gone() -> bool:
        return _ended(pid)

    await until(gone, "the prober to end", 30)


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
