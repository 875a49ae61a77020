"""Takes over changed settings while the syncer runs, so that a changed quota or bound ends no exec, log or watch.

    ConfigMap `syncer` on the host ──> Settings ──> what is read again (`bulkhead/api/syncersettings.py`) ──> `adopt`

Settings that cannot be used leave those that are in use, and are counted. What is read once stays until the controller's
Deployment starts another process. Reads one object of the host, and writes nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from bulkhead.api.syncersettings import CONFIG_MAP, FILE
from bulkhead.kube.client import Client
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import CONFIG_MAPS
from syncer import metrics
from syncer.settings import Settings, SettingsFileError, parse, taken_over

_log = logging.getLogger(__name__)


class Rereading:
    """The settings in use."""

    def __init__(self, settings: Settings, host: Client, adopt: Callable[[Settings], Awaitable[None]]) -> None:
        self._settings = settings
        self._adopt = adopt
        self._key = Key(settings.plane_namespace, CONFIG_MAP)
        self._changed = asyncio.Event()
        self.informer = Informer(
            host,
            CONFIG_MAPS,
            namespace=settings.plane_namespace,
            field_selector=f"metadata.name={CONFIG_MAP}",
            on_change=self._saw,
            max_bytes=4 << 20,
        )

    def _saw(self, _change: Change) -> None:
        self._changed.set()

    async def run(self) -> NoReturn:
        """Take over what changes, for ever; one after the other."""
        # A failed step is tried again when the supervisor restarts this task.
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            told = self._told()
            if told != self._settings:
                await self._adopt(told)
                self._settings = told
                _log.info("new settings are in use")

    def _told(self) -> Settings:
        """What is to be in use: as the controller has written it, or as it is where that is gone or cannot be used."""
        found = self.informer.store.get(self._key)
        if found is None:
            return self._settings
        try:
            told = parse(str((found.get("data") or {}).get(FILE, "")).encode())
        except SettingsFileError as error:
            metrics.SETTINGS_REFUSED.set(1)
            _log.error("settings not applied, the previous ones stay in use: %s", error)
            return self._settings
        metrics.SETTINGS_REFUSED.set(0)
        return taken_over(self._settings, told)
