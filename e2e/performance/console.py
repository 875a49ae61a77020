"""What the console costs on a large host: `python -m e2e.performance.console`.

It needs neither root nor the embedded host: it starts its own etcd and kube-apiserver, and fills them with nodes and pods of
real size (`tests.kit.largehost`). Then it runs the command as a user does, enters its link, and follows its events.

    listed_s           from the start of the command until every kind is read; most of it is the API server's work
    first_picture_s    from then until the first picture is on the page's stream: what the console itself takes
    first_picture_cpu_s  the same in CPU time of the process, which other work of the machine does not stretch
    rss_mib            the command's resident memory, the highest until a minute after the first picture
    overview_kib       the first picture; the nodes of a rack come when the user opens it
    change_s           from a cordon on the host until the picture shows it
"""

import argparse
import asyncio
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from e2e import machine
from e2e.performance import judgement
from tests.kit import largehost
from tests.kit.kubeconfigs import to_yaml
from tests.kit.largehost import Size
from tests.kit.servers import ServerOptions, running

LIMITS: Final = Path(__file__).with_name("limits-console.yaml")
RESULTS: Final = machine.RESULTS / "console.json"
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

    def high_mib(self) -> float:
        """The highest resident memory so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024


def follow(page: Page, cordon: Any) -> dict[str, float]:
    """Measure one run."""
    found: dict[str, float] = {}
    cordoned = 0.0
    for name, at, body in page.events():
        if name == "times":
            times = json.loads(body)
            found |= {"first_picture_s": times["first"], "first_picture_cpu_s": times["cpu"]}
        if name == "picture" and "overview_kib" not in found:
            found["total_s"] = at - page.begun
            found["overview_kib"] = len(body) / 1024
        if "overview_kib" in found and not cordoned and at - page.begun > found["total_s"] + _SETTLE_SECONDS:
            found["rss_mib"] = page.high_mib()
            cordoned = time.monotonic()
            cordon()
        if name == "picture" and cordoned and b"Cordoned" in body:
            found["change_s"] = at - cordoned
            break
    found["listed_s"] = found["total_s"] - found["first_picture_s"]
    return {key: round(value, 2) for key, value in sorted(found.items())}


def measure(folder: Path, size: Size) -> dict[str, float]:
    """Start a server, fill it, and measure on it."""
    with running("console", folder, ServerOptions(memory_mib=_SERVER_MIB)) as server:

        async def fill() -> None:
            async with Client(server.admin, user_agent="bench", field_manager="bench") as client:
                await largehost.fill(server, client, size)

        async def cordon() -> None:
            async with Client(server.admin, user_agent="bench", field_manager="bench") as client:
                await client.patch(kinds.NODES, "gpu-node-00007", {"spec": {"unschedulable": True}})

        begun = time.monotonic()
        asyncio.run(fill())
        print(f"filled in {time.monotonic() - begun:.0f} s", flush=True)
        kubeconfig = folder / "host.yaml"
        kubeconfig.write_bytes(to_yaml(server.admin))
        page = Page(kubeconfig)
        try:
            return follow(page, lambda: asyncio.run(cordon()))
        finally:
            page.process.kill()
            page.process.wait()


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
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    verdicts = judgement.judge(found, limits)
    print(judgement.as_text(verdicts), json.dumps(found), RESULTS, sep="\n")
    return 0 if judgement.passes(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
