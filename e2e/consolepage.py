"""`bulkhead console` as a process, and the newest picture that its page gets. It must end by Ctrl-C with status 0."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Page:
    """The command, and what its page gets: the newest picture."""

    def __init__(self, kubeconfig: Path, *words: str, environment: Mapping[str, str] | None = None) -> None:
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
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
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
def console(kubeconfig: Path, *words: str, environment: Mapping[str, str] | None = None) -> Iterator[Page]:
    page = Page(kubeconfig, *words, environment=environment)
    try:
        yield page
        page.process.send_signal(signal.SIGINT)
        assert page.process.wait(30) == 0
    finally:
        page.process.kill()
        page.process.communicate()
