"""Crowds at the target's API: thousands of watches and lists, and logs without an end."""

import contextlib
import http.client
import re
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e import machine, workloads
from e2e.api import Api, ApiError, UnreachableError, path_of
from e2e.chaos.faults.crew import crew, each_of
from e2e.chaos.faults.fault import Fault, Proof, Scene, of_pod, quietly
from e2e.workloads import expect

_BROKEN: Final = (OSError, http.client.HTTPException, ssl.SSLError)
# What a tenant's logs may pass in bytes, at once and each second, where its class says nothing (docs/security.md).
LOGS_AT_ONCE: Final = 16 << 20
LOGS_A_SECOND: Final = 4 << 20
_WATCH: Final = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=300"
_OPEN_SECONDS: Final = 300.0


@contextlib.contextmanager
def _held() -> Iterator[list[http.client.HTTPSConnection]]:
    """Connections that are closed when the block ends."""
    held: list[http.client.HTTPSConnection] = []
    try:
        yield held
    finally:
        for connection in held:
            with contextlib.suppress(OSError):
                connection.close()


@dataclass(frozen=True, slots=True)
class WatchesAndLists(Fault):
    """Thousands of open watches, while some clients list everything without a pause."""

    watches: int = 2000
    listers: int = 6
    seconds: float = 20.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        api = scene.target.api
        statuses: list[int] = []
        listed: list[int] = []
        over = threading.Event()
        with _held() as held:

            def watch(_: int) -> None:
                connection = api.connect(timeout=30)
                held.append(connection)
                try:
                    connection.request("GET", _WATCH)
                    statuses.append(connection.getresponse().status)
                except _BROKEN:
                    statuses.append(0)

            each_of(range(self.watches), watch, threads=16, seconds=_OPEN_SECONDS)
            counted = long_running(api)

            def lists() -> None:
                while not over.is_set():
                    try:
                        api.request("GET", "/api/v1/pods", raw=True, query={"resourceVersion": ""}, timeout=20)
                        listed.append(200)
                    except ApiError as error:
                        listed.append(error.status)
                    except UnreachableError:
                        listed.append(0)

            threads = [threading.Thread(target=lists, daemon=True) for _ in range(self.listers)]
            for thread in threads:
                thread.start()
            over.wait(self.seconds)
            over.set()
            for thread in threads:
                thread.join(timeout=30)
        granted, refused = statuses.count(200), statuses.count(429)
        return [
            (granted + refused >= self.watches * 0.9, f"{granted} watches were opened, {refused} refused with 429"),
            (counted >= granted * 0.8, f"the API server itself counted {counted} watches"),
            (len(listed) > self.seconds, f"{len(listed)} lists in {self.seconds:.0f} s; {listed.count(429)} got 429"),
        ]


def long_running(api: Api) -> int:
    """The watches that an API server counts itself."""
    lines = api.text("/metrics").splitlines()
    found = [line for line in lines if line.startswith("apiserver_longrunning_requests{") and 'verb="WATCH"' in line]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in found)


@dataclass(frozen=True, slots=True)
class FloodOfLogs(Fault):
    """Pods that write logs as fast as they can, and clients that read them."""

    writers: int = 2
    readers: int = 4
    seconds: float = 20.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        api = scene.target.api
        names = [f"log-{number}" for number in range(self.writers)]
        spec = workloads.pod_spec(("sh", "-c", f"exec yes {'x' * 500}"))
        for name in names:
            api.create(workloads.pod(name, spec))
        pods = [workloads.wait_running(api, name, seconds=60) for name in names]
        uids = [of_pod(workloads.host_pod_of(scene.host, pod, scene.target.work)) for pod in pods]
        wrote = [process for uid in uids for process in machine.processes_of_pod(uid)]
        before = sum(written_bytes(process.pid) for process in wrote)
        most: dict[int, int] = {}
        read: list[int] = []

        def follow(number: int) -> None:
            read.append(_read_log(api, names[number % len(names)], self.seconds))

        begin = time.monotonic()
        with crew(self.readers) as pool:
            reading = [pool.submit(follow, number) for number in range(self.readers)]
            while not all(reader.done() for reader in reading):
                # A pod that is evicted meanwhile takes the counters of its processes along.
                for process in wrote:
                    most[process.pid] = max(most.get(process.pid, 0), written_bytes(process.pid))
                time.sleep(0.5)
        return flooded(sum(most.values()) - before, read, processes=len(wrote), seconds=time.monotonic() - begin)

    def lift(self, scene: Scene) -> None:
        for number in range(self.writers):
            quietly(lambda name=f"log-{number}": scene.target.api.delete("Pod", name, "default", grace=0))  # type: ignore[misc]

    def over(self, scene: Scene) -> None:
        left = [pod for pod in scene.target.api.list("Pod", "default") if pod["metadata"]["name"].startswith("log-")]
        expect(not left, f"{len(left)} pods that write logs are left")


def flooded(wrote: int, read: Sequence[int], *, processes: int, seconds: float) -> list[Proof]:
    """The proofs of a flood of logs: more was there than could be read, all was asked for, and no more came than may. Pure."""
    came, may = sum(read), int(LOGS_AT_ONCE + LOGS_A_SECOND * seconds)
    return [
        (wrote > 20 << 20, f"{processes} processes wrote {wrote >> 20} MiB of logs in {seconds:.0f} s, as the kernel counts"),
        (min(read, default=0) > 0 and came > 1 << 20, f"{len(read)} clients read {came >> 20} MiB through the target's API"),
        (came <= may, f"its syncer lets {may >> 20} MiB pass in that time"),
    ]


def written_bytes(pid: int) -> int:
    """What a process has written so far, to files, sockets and pipes; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/io").read_text()
    except OSError:
        return 0
    found = re.search(r"^wchar: (\d+)$", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def _read_log(api: Api, pod: str, seconds: float) -> int:
    """The bytes of a log that arrive within this time."""
    got, end = 0, time.monotonic() + seconds
    connection = api.connect(timeout=10)
    try:
        connection.request("GET", f"{path_of('Pod', 'default', pod)}/log?follow=true")
        response = connection.getresponse()
        while time.monotonic() < end and (part := response.read1(1 << 16)):
            got += len(part)
    except _BROKEN:
        return got
    finally:
        connection.close()
    return got
