"""`bulkhead console` on the host: an admin's page and a user's page have real data, and end without leaving anything."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from e2e import machine, workloads
from e2e.names import GPU
from e2e.poll import until
from e2e.tenants import Tenant


class Page:
    """The command, and what its page gets: the newest picture."""

    def __init__(self, kubeconfig: Path, *words: str) -> None:
        command = [
            sys.executable,
            "-m",
            "workstation.cli.main",
            "--kubeconfig",
            str(kubeconfig),
            "console",
            "--no-browser",
            *words,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        link = re.search(r"http://\S+", self.process.stdout.readline())
        assert link is not None, self.process.communicate(timeout=30)[1]
        self.at = urlsplit(link[0])
        connection = self._connection()
        connection.request("GET", f"{self.at.path}?{self.at.query}")
        self.cookie = str(connection.getresponse().getheader("Set-Cookie")).split(";")[0]
        self.picture: dict[str, Any] = {}
        threading.Thread(target=self._follow, daemon=True).start()

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(str(self.at.hostname), self.at.port, timeout=60)

    def _follow(self) -> None:
        connection = self._connection()
        connection.request("GET", "/events", headers={"Cookie": self.cookie})
        answer, name = connection.getresponse(), ""
        with contextlib.suppress(OSError, http.client.HTTPException):
            while line := answer.readline():
                if line.startswith(b"event: "):
                    name = line[7:].strip().decode()
                elif line.startswith(b"data: ") and name == "picture":
                    self.picture = json.loads(line[6:])

    def ask(self, question: str) -> dict[str, Any]:
        connection = self._connection()
        connection.request("GET", f"/api/{question}", headers={"Cookie": self.cookie})
        found: dict[str, Any] = json.loads(connection.getresponse().read())
        return found


@contextlib.contextmanager
def console(kubeconfig: Path, *words: str) -> Iterator[Page]:
    page = Page(kubeconfig, *words)
    try:
        yield page
        page.process.send_signal(signal.SIGINT)
        assert page.process.wait(30) == 0
    finally:
        page.process.kill()
        page.process.communicate()


def test_the_console_shows_an_admin_and_a_user_what_is_there(bob: Tenant) -> None:
    for name, gpus in (("works", 2), ("too-large", 64)):
        bob.api.create(workloads.pod(name, workloads.pod_spec(gpus=gpus, where=workloads.SIMULATED)))
    workloads.wait_running(bob.api, "works")
    workloads.wait_refused(bob.api, "too-large", "QuotaExceeded")

    with console(machine.KUBECONFIG) as page:

        def whole() -> None:
            picture = page.picture
            workloads.expect(bool(picture) and not picture["reading"], f"still being read: {picture.get('reading')}")
            rows = {row["name"]: row for row in picture["tenants"]}
            workloads.expect(rows.get(bob.name, {}).get("used") == 2, f"bob: {rows.get(bob.name)}")
            held = {tenant for item in picture["maps"] for rack in item["racks"] for tenant, _ in rack["held"]}
            workloads.expect(bob.name in held, f"the map has devices of {sorted(held)}")

        until("the admin's picture to be whole", whole, seconds=60)
        assert "pods" not in " ".join(page.picture["unread"])
        # The controller of the host reports certificates, and none ends soon.
        until(
            "the certificates to be known",
            lambda: workloads.expect(not page.picture["unread"], page.picture["unread"]),
            seconds=90,
        )
        assert not [alarm for alarm in page.picture["alarms"] if alarm["reason"].startswith("Certificate")]
        told = page.ask(f"tenant?name={bob.name}")["answer"]
        assert {part["name"] for part in told["parts"]} >= {"plane-0"}
        assert told["certificates"]

    with console(bob.kubeconfig, "-f", str(bob.kubeconfig)) as page:

        def own() -> None:
            picture = page.picture
            workloads.expect(bool(picture), "no picture yet")
            holding = {row["name"]: row for row in picture["holding"]}
            waiting = {row["name"]: row for row in picture["waiting"]}
            workloads.expect("default/works" in holding, f"holding: {sorted(holding)}")
            workloads.expect(waiting.get("default/too-large", {}).get("reason") == "QuotaExceeded", f"waiting: {waiting}")
            lines = {line["name"]: line["rows"][0] for line in picture["lines"]}
            workloads.expect(lines.get(GPU, {}).get("used") == 2, f"quota: {lines}")
            workloads.expect(picture["use"] is not None, "the use of GPUs was not asked for yet")

        until("the user's picture", own, seconds=60)
        # This host has no exporter of GPUs, or one that says that its values are simulated: either is shown.
        assert page.picture["use"]["missing"] or page.picture["use"]["simulated"], page.picture["use"]
        text = json.dumps(page.picture)
        for foreign in ("alice", bob.work, bob.plane):
            assert foreign not in text
    for name in ("works", "too-large"):
        bob.api.delete("Pod", name, "default", grace=0)
