"""What the console costs on a large host: `python -m e2e.performance.console`.

It needs neither root nor the embedded host: it starts its own etcd and kube-apiserver, and fills them with nodes and pods of
real size (`tests.kit.largehost`). Then it runs the command as a user does, enters its link, and follows its events.

    first_picture_s    from the start of the command until the first picture is on the page's stream: tenants and quotas
    first_picture_ran_s  the same without the time in which the process was ready to run and other work had the CPU
    first_picture_cpu_s  the process's CPU time until then, which other work of the machine does not stretch
    whole_s, whole_cpu_s   the same until the first picture with the map and the queue: all nodes and pods were read
    control_s          the same lists read once before, and thrown away: what the API server alone takes
    control_cpu_s      CPU time of this process for that: what reading, decoding and TLS cost on the machine of the moment
    start_cpu_s        CPU time of the command for its help: what its start costs, without any request
    whole_over_control, first_over_start   the console's CPU time by these two: a machine that computes slowly stretches both
    server_cpu_s       CPU time of etcd and the API server from the start of the command until the whole picture
    rss_mib            the command's resident memory, the highest until a minute after the whole picture
    overview_kib       the whole picture; the nodes of a rack come when the user opens it
    change_s           from a cordon on the host until the picture shows it
"""

import argparse
import asyncio
import http.client
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Resource
from e2e.performance import judgement, report
from tests.kit import largehost
from tests.kit.kubeconfigs import to_yaml
from tests.kit.largehost import Size
from tests.kit.servers import ServerOptions, running

LIMITS: Final = Path(__file__).with_name("limits-console.yaml")
_WAIT_SECONDS: Final = 600.0
_SETTLE_SECONDS: Final = 60.0
_SERVER_MIB: Final = 3000


class Page:
    """The command, and the stream that its page reads."""

    def __init__(self, kubeconfig: Path) -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(kubeconfig.parent), "KUBECONFIG": str(kubeconfig)}
        self.begun = time.monotonic()
        words = ["console", "--no-browser"]
        command = [sys.executable, "-m", "workstation.cli.main", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        assert self.process.stdout is not None
        link = re.search(r"http://\S+", self.process.stdout.readline().decode())
        assert link is not None
        self._at = urlsplit(link[0])
        self._cookie = self._enter()

    def _enter(self) -> str:
        connection = self._connection()
        connection.request("GET", f"{self._at.path}?{self._at.query}")
        return str(connection.getresponse().getheader("Set-Cookie")).split(";")[0]

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(str(self._at.hostname), self._at.port, timeout=_WAIT_SECONDS)

    def events(self) -> Iterator[tuple[str, float, bytes]]:
        """Name, time and body of each event."""
        connection = self._connection()
        connection.request("GET", "/events", headers={"Cookie": self._cookie})
        answer = connection.getresponse()
        name = ""
        while line := answer.readline():
            if line.startswith(b"event: "):
                name = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                yield name, time.monotonic(), line[6:].strip()

    def queued(self) -> float:
        """Seconds in which the process was ready to run and waited for a CPU."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[1]) / 1e9

    def high_mib(self) -> float:
        """The highest resident memory so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024


def follow(page: Page, cordon: Any, server_cpu: Callable[[], float]) -> dict[str, float]:
    """Measure one run."""
    found: dict[str, float] = {}
    cordoned, before = 0.0, server_cpu()
    for name, at, body in page.events():
        if name == "times":
            times = json.loads(body)
            found |= {"first_picture_cpu_s": times["firstCpu"]} | (
                {"whole_cpu_s": times["wholeCpu"]} if "wholeCpu" in times else {}
            )
        if name == "picture" and "first_picture_s" not in found:
            found["first_picture_s"] = at - page.begun
            found["first_picture_ran_s"] = at - page.begun - page.queued()
        if name == "picture" and "whole_s" not in found and not json.loads(body)["reading"]:
            found["whole_s"] = at - page.begun
            found["overview_kib"] = len(body) / 1024
            found["server_cpu_s"] = server_cpu() - before
        if "whole_s" in found and not cordoned and at - page.begun > found["whole_s"] + _SETTLE_SECONDS:
            found["rss_mib"] = page.high_mib()
            cordoned = time.monotonic()
            cordon()
        if name == "picture" and cordoned and b"Cordoned" in body:
            found["change_s"] = at - cordoned
            break
    return found


def cpu_seconds(*pids: int) -> float:
    """CPU time that processes have used so far."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(user) + int(system) for user, system in (line[11:13] for line in fields)) / os.sysconf("SC_CLK_TCK")


async def read_all(client: Client) -> dict[str, float]:
    """Read what is large as the console does, throw it away, and return the seconds that it took, by the clock and of CPU."""

    async def read(kind: Resource) -> None:
        async for _ in client.pages(kind):
            pass

    begun, computed = time.monotonic(), time.process_time()
    await asyncio.gather(read(kinds.NODES), read(kinds.PODS))
    return {"control_s": time.monotonic() - begun, "control_cpu_s": time.process_time() - computed}


def start_cost(times: int = 5) -> dict[str, float]:
    """CPU seconds of a start of the command that asks nothing, the mean of some."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(times):
        command = [sys.executable, "-m", "workstation.cli.main", "console", "--help"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=_WAIT_SECONDS)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"start_cpu_s": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / times}


def mean(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """The means of the control before and after what it is compared with: a machine's speed drifts."""
    return {key: (one[key] + other[key]) / 2 for key in one}


def ratios(found: dict[str, float]) -> dict[str, float]:
    """The console's CPU time by that of the controls, as far as both were measured."""
    pairs = {
        "whole_over_control": ("whole_cpu_s", "control_cpu_s"),
        "first_over_start": ("first_picture_cpu_s", "start_cpu_s"),
    }
    return {key: found[one] / found[other] for key, (one, other) in pairs.items() if one in found and other in found}


def measure(folder: Path, size: Size) -> dict[str, float]:
    """Start a server, fill it, and measure on it."""
    with running("console", folder, ServerOptions(memory_mib=_SERVER_MIB)) as server:

        async def fill() -> None:
            async with Client(server.admin, user_agent="bench", field_manager="bench") as client:
                await largehost.fill(server, client, size)

        async def control() -> dict[str, float]:
            async with Client(server.admin, user_agent="bench", field_manager="bench") as client:
                return await read_all(client)

        async def cordon() -> None:
            async with Client(server.admin, user_agent="bench", field_manager="bench") as client:
                await client.patch(kinds.NODES, "gpu-node-00007", {"spec": {"unschedulable": True}})

        begun = time.monotonic()
        asyncio.run(fill())
        print(f"filled in {time.monotonic() - begun:.0f} s", flush=True)
        before = asyncio.run(control()) | start_cost()
        print(f"read without the console in {before['control_s']:.1f} s", flush=True)
        kubeconfig = folder / "host.yaml"
        kubeconfig.write_bytes(to_yaml(server.admin))
        page = Page(kubeconfig)
        try:
            found = follow(
                page, lambda: asyncio.run(cordon()), lambda: cpu_seconds(server.pid("etcd"), server.pid("kube-apiserver"))
            )
        finally:
            page.process.kill()
            page.process.wait()
        found |= mean(before, asyncio.run(control()) | start_cost())
        return {key: round(value, 2) for key, value in sorted((found | ratios(found)).items())}


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance.console", description="What the console costs on a large host.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20_000, help="of which one in twenty waits")
    chosen = parser.parse_args()
    limits = judgement.load(LIMITS)
    size = Size(nodes=chosen.nodes, running=chosen.pods - chosen.pods // 20, waiting=chosen.pods // 20)
    print(f"a host of {chosen.nodes} nodes and {chosen.pods} pods, some minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="bulkhead-bench-") as folder:
        found = measure(Path(folder), size)
    return report.conclude("console", found, limits)


if __name__ == "__main__":
    sys.exit(main())
