"""A client of the host cluster whose credentials stay good: the kubeconfig's plugin is asked again before they end.

A token of a cloud is good for a quarter of an hour, one of an identity provider for minutes. A restore of many tenants, a chaos
run, a tunnel or a console lasts longer. The plugin can ask the user nothing by then: if it fails, the former credentials stay,
and the server's refusal says so.

    kubeconfig, exec ──> credentials, their end ──> shortly before, or once they were refused ──> exec again ──> the client

Every 401 asks for others: a plugin may name no end, this machine may have slept past it, or its clock may be behind. The
request that got it has failed all the same; what waits repeats it (`is_renewed`).
"""

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

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


class LastingClient(Client):
    """A client that renews its credentials while it is open. `answered` is the first answer of the plugin; None without one."""

    def __init__(self, config: KubeConfig, host: Host, answered: Answered | None, *, timeout: float) -> None:
        super().__init__(config, user_agent="bulkhead-cli", field_manager="bulkhead-cli", timeout=timeout)
        self._host = host
        self._answered = answered
        self._refused = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None
        self.transport.on_unauthorized = self.refused

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self._answered is not None:
            self._renewing = asyncio.create_task(self._renew(self._answered))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        await super().__aexit__(kind, error, trace)

    @property
    def renews(self) -> bool:
        """Whether there is a plugin to ask."""
        return self._answered is not None

    def refused(self) -> None:
        """The server no longer accepts the credentials: ask at once."""
        self._refused.set()

    async def _renew(self, found: Answered) -> None:
        while True:
            if found.ends is None:
                await self._refused.wait()
            else:
                left = max(_LEAST_SECONDS, (found.ends - datetime.now(UTC)).total_seconds() - _BEFORE_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._refused.wait()
            self._refused.clear()
            with contextlib.suppress(CliError, ConfigError):
                found = await self._ask() or found
                config = KubeConfig.from_bytes(found.data, context=self._host.context, folder=self._path().parent)
                self.transport.renew(config)
                # What starts later, in another process too, starts with these.
                self.config = config
            await asyncio.sleep(_LEAST_SECONDS)

    async def _ask(self) -> Answered | None:
        path = self._path()
        try:
            data = await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            raise CliError(f"cannot read kubeconfig {path}: {error.strerror}") from error
        return await execcredential.ask_quietly(data, path.parent, self._host.context, within=_ANSWER_SECONDS)

    def _path(self) -> Path:
        return hostfile.find_kubeconfig(self._host.kubeconfig)


def is_renewed(client: Client) -> bool:
    """Whether the client gets other credentials once a server has refused the present ones."""
    return isinstance(client, LastingClient) and client.renews
