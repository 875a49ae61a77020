"""The Secrets with which the host pulls the platform's images, looked at now and then; every tenant is queued when they change.

The controller may read these few by name, in the chart's namespace (a Role of the chart). What cannot be read or used changes
nothing in tenants' namespaces: copies that are there stay, and `trouble` says what is wrong. Only while leading.
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
    """Looks at the named Secrets every few seconds, merges them into `content`, and calls `on_change` where that differs."""

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
        """Look until cancelled."""
        while self._names:
            await self.look()
            await self._clock.sleep(LOOK_PERIOD_SECONDS)

    async def look(self) -> None:
        """Read all of them once; what is unusable leaves what was known."""
        before = (self.content, self.trouble)
        try:
            self.content = merged([await self._client.get(kinds.SECRETS, name, self._namespace) for name in self._names])
            self.trouble = ""
        except NotFound as error:
            self.trouble = f"a pull secret of the chart's images.pullSecrets is missing in {self._namespace}: {error}"
        except (UnusableError, KubeError) as error:
            self.trouble = f"the chart's images.pullSecrets in {self._namespace}: {error}"
        if (self.content, self.trouble) != before:
            if self.trouble:
                _log.warning("pull secrets: %s", self.trouble)
            self._on_change()
