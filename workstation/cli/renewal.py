"""Keeps the credentials of a command that runs for long: the kubeconfig's plugin is asked again before they end.

A token of an identity provider is good for minutes, a certificate for an hour, and a console is open for a day. The plugin can
ask the user nothing by then: if it fails, the former credentials stay, and the server's refusal says so.

    kubeconfig, exec ──> credentials, their end ──> shortly before, or once they were refused ──> exec again ──> the client
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bulkhead.kube.client import Client
from bulkhead.kube.errors import ConfigError
from bulkhead.kube.kubeconfig import KubeConfig
from workstation.cli import execcredential, hostfile
from workstation.cli.arguments import Host
from workstation.cli.execcredential import Answered
from workstation.cli.failures import CliError

_BEFORE_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 30.0
# Not more often, whatever ends a plugin tells and however often credentials are refused.
_LEAST_SECONDS: Final = 5.0


class Renewal:
    """Asks again until cancelled; for a kubeconfig without a plugin it does nothing."""

    def __init__(self, client: Client, host: Host) -> None:
        self._client = client
        self._host = host
        self._refused = asyncio.Event()

    def refused(self) -> None:
        """The server no longer accepts the credentials: ask at once."""
        self._refused.set()

    async def run(self) -> None:
        """Renew until cancelled, or return if there is nothing to ask."""
        # The plugin answers from its cache what it has just answered, and now it is known until when that is good.
        try:
            found = await self._ask()
            if found is None:
                return
            self._use(found)
        except (CliError, ConfigError):
            found = Answered(b"", None)
        while True:
            left = _LEAST_SECONDS
            if found.ends is None:
                await self._refused.wait()
            else:
                left = max(left, (found.ends - datetime.now(UTC)).total_seconds() - _BEFORE_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._refused.wait()
            self._refused.clear()
            with contextlib.suppress(CliError, ConfigError):
                found = await self._ask() or found
                self._use(found)
            await asyncio.sleep(_LEAST_SECONDS)

    async def _ask(self) -> Answered | None:
        path = self._path()
        try:
            data = await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            raise CliError(f"cannot read kubeconfig {path}: {error.strerror}") from error
        return await execcredential.ask_quietly(data, path.parent, self._host.context, within=_ANSWER_SECONDS)

    def _use(self, found: Answered) -> None:
        config = KubeConfig.from_bytes(found.data, context=self._host.context, folder=self._path().parent)
        self._client.transport.renew(config)

    def _path(self) -> Path:
        return hostfile.find_kubeconfig(self._host.kubeconfig)


@contextlib.asynccontextmanager
async def renewing(client: Client, host: Host) -> AsyncIterator[Renewal]:
    """Keep the client's credentials good until the block ends."""
    renewal = Renewal(client, host)
    task = asyncio.create_task(renewal.run())
    try:
        yield renewal
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
