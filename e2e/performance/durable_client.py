"""A client that works on a plane, and sends what failed again: a process of its own, so that no other work delays its clock.

    parent ── one line of JSON: API with credentials, ConfigMap, period ──> stdin     stdout ──> lines of JSON for each request

Requests begin at their time, whether or not the one before has ended; one in four writes. A request that failed is sent again
on a new connection, at once and, independent of that, a second later: each tells whether a client that tries again that way
would have noticed the failure. It ends when its stdin is closed.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.kubeconfig import KubeConfig
from e2e.performance.durable_figures import Asked
from workstation.chaos import prober

PERIOD_SECONDS: Final = 0.1
# A request that takes longer counts as failed.
REQUEST_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
_WRITE_EACH: Final = 4
_NAMESPACE: Final = "default"
_ERROR_CHARACTERS: Final = 200
_ANSWER_BYTES: Final = 1 << 20
_END_SECONDS: Final = 15.0
_BEGIN_SECONDS: Final = 60.0
_NO_END: Final = "it did not end"


class Requests:
    """The requests that a client has made so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._found: dict[float, Asked | None] = {}  # by their begin; None while it is under way, or waits to be sent again
        self._first = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            told = json.loads(line)
            self._found[told["at"]] = Asked(**told) if "error" in told else None
            if "error" in told:
                self._first.set()

    def begun(self) -> None:
        """Wait for its first request. Raises RuntimeError if none comes."""
        if not self._first.wait(_BEGIN_SECONDS):
            raise RuntimeError(f"the client on the plane made no request within {_BEGIN_SECONDS:g} s")

    def since(self, begin: float) -> tuple[Asked, ...]:
        """The requests that began after a moment of `time.monotonic` and before now; waits for their ends."""
        end, deadline = time.monotonic(), time.monotonic() + _END_SECONDS
        while True:
            there = {at: one for at, one in tuple(self._found.items()) if begin <= at <= end}
            if all(there.values()) or time.monotonic() > deadline:
                return tuple(one or Asked(at, *[_NO_END] * 3) for at, one in there.items())
            time.sleep(PERIOD_SECONDS)


@contextlib.contextmanager
def working(kubeconfig: Path, config_map: str) -> Iterator[Requests]:
    """A client that reads and writes this ConfigMap of the default namespace until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "e2e.performance.durable_client"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the run, which ends it
    )
    assert process.stdin is not None
    order = {"config": prober.encode(KubeConfig.from_file(kubeconfig)), "name": config_map, "period": PERIOD_SECONDS}
    try:
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        requests = Requests(process)
        requests.begun()
        yield requests
    finally:
        process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _ask(client: Client, name: str, count: int) -> str:
    """One request: why it failed, empty if it did not."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            if count % _WRITE_EACH == 0:
                await client.patch(kinds.CONFIG_MAPS, name, {"data": {"count": str(count)}}, _NAMESPACE)
            else:
                await client.get(kinds.CONFIG_MAPS, name, _NAMESPACE)
    except TimeoutError:
        return f"no answer within {REQUEST_SECONDS:g} s"
    except KubeError as failure:
        return str(failure)[:_ERROR_CHARACTERS] or type(failure).__name__
    return ""


async def _again(config: KubeConfig, name: str, count: int, pause: float) -> str:
    await asyncio.sleep(pause)
    async with _client(config) as client:
        return await _ask(client, name, count)


async def _one(steady: Client, config: KubeConfig, name: str, count: int) -> None:
    found: dict[str, Any] = {"at": time.monotonic()}
    _tell(found)
    found["error"] = await _ask(steady, name, count)
    if found["error"]:
        found["at_once"], found["later"] = await asyncio.gather(
            _again(config, name, count, 0.0), _again(config, name, count, RETRY_SECONDS)
        )
    _tell(found)


def _tell(found: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def _client(config: KubeConfig) -> Client:
    return Client(config, user_agent="bench", field_manager="bench", timeout=REQUEST_SECONDS, max_body=_ANSWER_BYTES)


async def _steadily(order: Mapping[str, Any]) -> None:
    config = prober.decode(order["config"])
    clock = asyncio.get_running_loop().time
    due, count = clock(), 0
    async with _client(config) as steady, asyncio.TaskGroup() as tasks:
        while True:
            await asyncio.sleep(max(0.0, due - clock()))
            due += order["period"]
            count += 1
            tasks.create_task(_one(steady, config, order["name"], count))


async def _main() -> None:
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    order = json.loads(await reader.readline())
    task = asyncio.create_task(_steadily(order))
    await reader.read()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(_main())
