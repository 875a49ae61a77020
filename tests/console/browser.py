"""A real browser for the tests of the console: Debian's Chromium, driven by Selenium; it records all that it asks for."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

T = TypeVar("T")
WAIT_SECONDS = 60.0
_DARK = [{"name": "prefers-color-scheme", "value": "dark"}]
# The number of a key, and what it types.
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "ArrowRight": (39, ""), "ArrowLeft": (37, "")}
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
)  # fmt: skip


class Browser:
    """One window."""

    def __init__(self, folder: Path) -> None:
        options = webdriver.ChromeOptions()
        for flag in (*_FLAGS, f"--user-data-dir={folder}", "--window-size=1400,1000"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        options.binary_location = "/usr/bin/chromium"
        self.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self._asked: list[str] = []

    def open(self, address: str) -> None:
        self.driver.get(address)

    def text(self) -> str:
        """The visible text of the page."""
        return str(self.driver.execute_script("return document.body.innerText"))

    def run(self, script: str, *arguments: object) -> object:
        """The value of a script of the test's own, which the page's policy does not concern."""
        return self.driver.execute_script(script, *arguments)

    def until(self, found: Callable[[], T | None], what: str, seconds: float = WAIT_SECONDS) -> T:
        """Wait until something is found."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = found()
            if value:
                return value
            time.sleep(0.1)
        raise AssertionError(f"not seen within {seconds:g} s: {what}\n{self.text()[:3000]}")

    def shows(self, words: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait until the page shows a text."""
        self.until(lambda: words in self.text(), words, seconds)

    def hides(self, words: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait until the page does not show a text."""
        self.until(lambda: words not in self.text(), f"without {words}", seconds)

    def size(self, width: int, height: int) -> None:
        """The size of the page, also below the smallest window."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def dark(self, *, on: bool) -> None:
        """Whether the user's system is dark."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": _DARK if on else []})

    def press(self, key: str) -> None:
        """A key, as the keyboard sends it."""
        code, text = _KEYS[key]
        for kind in ("keyDown", "keyUp"):
            pressed = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
            self.driver.execute_cdp_cmd("Input.dispatchKeyEvent", pressed)

    def picture(self, path: Path) -> Path:
        """Write what the window shows as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))
        return path

    def asked(self) -> list[str]:
        """Every address that the browser has asked for."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self._asked.append(message["params"]["request"]["url"])
        return self._asked

    def complaints(self) -> list[str]:
        """What the browser wrote into its console: errors of scripts, refusals by the policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextlib.contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    opened = Browser(folder)
    try:
        yield opened
    finally:
        opened.driver.quit()


class Served:
    """The command `bulkhead console` as a process."""

    def __init__(self, kubeconfig: Path, *words: str) -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(kubeconfig.parent), "KUBECONFIG": str(kubeconfig)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "workstation.cli.main", "console", "--no-browser", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
        )  # fmt: skip
        self.link = self._read_link()
        self.origin = self.link.partition("/enter")[0]

    def _read_link(self) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], WAIT_SECONDS)
        line = self.process.stdout.readline().decode() if ready else ""
        found = re.search(r"http://127\.0\.0\.1:\d+/enter\?token=\S+", line)
        if found is None:
            self.process.kill()
            raise AssertionError(f"no link: {line}{self.process.communicate()[1].decode()}")
        return found[0]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def memory(self) -> int:
        """Resident memory in bytes."""
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def end(self) -> tuple[int, str, str]:
        """Interrupt it as a user does; its exit code and what it wrote."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, out.decode(), err.decode()


@contextlib.contextmanager
def serving(kubeconfig: Path, *words: str) -> Iterator[Served]:
    """The console for a block."""
    served = Served(kubeconfig, *words)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.send_signal(signal.SIGCONT)
            served.process.kill()
        served.process.communicate()
