"""Keeps one HAProxy at what the Services say: compares, tells it what differs, and leaves the same in files for its next start.

It also compares every few seconds, and so notices an HAProxy that has restarted from older files. A command that HAProxy
refuses is tried again then, and does not hold up the others.
"""

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from frontdoor import haproxy, metrics
from frontdoor.routes import Routes, routes
from frontdoor.runtime import Runtime, UnreachableError
from frontdoor.settings import Settings

_log = logging.getLogger(__name__)
_COMPARE_DEADLINE_SECONDS: Final = 5.0


class Keeper:
    """Keeps one HAProxy up to date; `services` gives the Services as they were last seen."""

    def __init__(self, settings: Settings, services: Callable[[], list[dict[str, Any]]]) -> None:
        self._settings = settings
        self._services = services
        self._runtime = Runtime(settings.folder)
        self._news = asyncio.Event()
        self._written: Routes | None = None
        self.answered = False  # whether HAProxy did when it was last compared; what it refuses stops no traffic of the others

    def wake(self) -> None:
        """Compare soon, because something has changed."""
        self._news.set()

    async def run(self) -> None:
        """Compare until cancelled."""
        while True:
            self._news.clear()
            await self.compare()
            try:
                async with asyncio.timeout(_COMPARE_DEADLINE_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def compare(self) -> None:
        """Compare once: first the files, then HAProxy."""
        wanted = routes(self._services())
        self._write(wanted)
        try:
            running = await self._runtime.running()
            refused = 0
            for command in haproxy.commands(wanted.good, running, str(self._settings.folder)):
                answer = await self._runtime.say(command)
                if not haproxy.went_well(command, answer):
                    refused += 1
                    metrics.commands_refused.inc()
                    _log.warning("HAProxy: %s", answer.strip()[:200], extra={"command": command})
            self.answered = True
            metrics.refused_now.set(refused)
            metrics.take(*await self._runtime.refused())
        except UnreachableError as error:
            self.answered = False
            _log.info("%s", error)

    def _write(self, wanted: Routes) -> None:
        if wanted == self._written:
            return
        write_files(self._settings, wanted)
        for where, why in wanted.left_out:
            _log.warning("left out: %s", why, extra={"service": where})
        metrics.routes.set(len(wanted.good))
        metrics.left_out.set(len(wanted.left_out))
        self._written = wanted


def write_files(settings: Settings, wanted: Routes) -> None:
    """Write the files that HAProxy starts from, each atomically."""
    folder = settings.folder
    # A name whose server is missing is refused, so the order of the two files does not matter to clients.
    _replace(folder / "hosts.map", haproxy.hosts_map(wanted.good))
    _replace(folder / "haproxy.cfg", haproxy.configuration(wanted.good, settings.limits, str(folder)))


def _replace(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(temporary).chmod(0o644)
    Path(temporary).replace(path)
