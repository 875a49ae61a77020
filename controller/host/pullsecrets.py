"""Reads the host's pull Secrets for the platform's images from time to time, and enqueues all tenants if they changed.

The controller may read these few Secrets by name, in the chart's namespace (a Role of the chart). If one cannot be read or
used, nothing changes in tenants' namespaces: existing copies stay, and `trouble` gives the reason. Only while leading.
"""

import logging
from collections.abc import Callable
from typing import Final

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.work.clock import Clock
from controller.plane.pullsecret import UnusableError, merged

_log = logging.getLogger(__name__)
LOOK_PERIOD_SECONDS: Final = 10.0


class PullSecrets:
    """Reads the named Secrets every few seconds, merges them into `content`, and calls `on_change` if that changed."""

    def __init__(
        self, client: Client, names: tuple[str, ...], namespace: str, on_change: Callable[[], object], clock: Clock
    ) -> None:
        self._client = client
        self._names = names
        self._namespace = namespace
        self._on_change = on_change
        self._clock = clock
        self.content = ""  # the data of the copies; empty until all Secrets were usable once
        self.trouble = ""

    async def run(self) -> None:
        """Read the Secrets from time to time until cancelled."""
        while self._names:
            await self.look()
            await self._clock.sleep(LOOK_PERIOD_SECONDS)

    async def look(self) -> None:
        """Read all of them once; if one is unusable, the previous content stays."""
        before = (self.content, self.trouble)
        try:
            self.content = merged([await self._client.get(kinds.SECRETS, name, self._namespace) for name in self._names])
            self.trouble = ""
        except NotFound as error:
            self.trouble = f"chart value images.pullSecrets names a Secret that does not exist in {self._namespace}: {error}"
        except (UnusableError, KubeError) as error:
            self.trouble = f"chart value images.pullSecrets in {self._namespace}: {error}"
        if (self.content, self.trouble) != before:
            if self.trouble:
                _log.warning("pull secrets: %s", self.trouble)
            self._on_change()
