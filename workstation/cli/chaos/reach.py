"""The way into planes for a chaos run: a certificate for an hour, and a tunnel where there is no route."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from workstation.chaos.planes import Unreached
from workstation.cli import connection, tunnel
from workstation.cli.arguments import Host, Tunnelling
from workstation.cli.credentials import certificate, document
from workstation.cli.failures import CliError
from workstation.cli.renewal import LastingClient

_SECONDS: Final = 15.0
_ANSWER_BYTES: Final = 32 << 20
# A flood's watches have connections of their own.
_TRIES: Final = 3
_PAUSE_SECONDS: Final = 2.0


class Reach:
    """Opens the planes of one host's tenants."""

    def __init__(self, host: Host, client: LastingClient, tunnelling: Tunnelling) -> None:
        self._host = host
        self._client = client
        self._tunnelling = tunnelling

    @contextlib.asynccontextmanager
    async def open(self, tenant: Obj) -> AsyncIterator[Client]:
        """A client of a tenant's plane. Raises KubeError or Unreached."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                data = document.with_certificate(tenant, await self._certificate(document.name_of(tenant)))
                data = await self._routed(stack, document.name_of(tenant), data)
                plane = connection.plane_client(data, seconds=_SECONDS, answer_bytes=_ANSWER_BYTES)
            except (CliError, OSError) as error:
                raise Unreached(str(error)) from error
            yield await stack.enter_async_context(plane)

    async def _certificate(self, name: str) -> certificate.Certificate:
        """A certificate that is kept nowhere; the controller may just be starting."""
        for attempt in range(_TRIES):
            try:
                return await certificate.obtain(self._client, name)
            except (CliError, KubeError):
                if attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
        raise AssertionError

    async def _routed(self, stack: contextlib.AsyncExitStack, name: str, data: bytes) -> bytes:
        """The kubeconfig, through a tunnel if its server does not answer from here."""
        if self._tunnelling == "never" or (self._tunnelling == "auto" and await asyncio.to_thread(tunnel.answers, data)):
            return data
        # With the run's own client: a plugin that takes long would hold up the lease, and the faults with it.
        way = tunnel.Tunnel(self._host, name, self._client)
        port = await way.start()
        stack.push_async_callback(way.stop)
        return tunnel.through(data, port)


def writable(path: str) -> str:
    """The path, if a file can be written there. Raises CliError, so that a run does not fail at its end."""
    folder = os.path.dirname(path) or "."  # noqa: PTH120 - pathlib is slow to load
    if os.path.isdir(path) or not os.access(folder, os.W_OK):  # noqa: PTH112
        raise CliError(f"--junit {path}: cannot be written", next_step="give a file in a folder that exists")
    return path


def emptied(path: str) -> str:
    """The path, whose file is empty now: a run that ends without a report leaves none of an earlier run. Raises CliError."""
    try:
        with open(path, "w", encoding="utf-8"):  # noqa: PTH123 - pathlib is slow to load
            return path
    except OSError as error:
        raise CliError(f"--junit {path}: cannot be written: {error.strerror}", next_step="give another file") from error
