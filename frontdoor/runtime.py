"""Speaks to the HAProxy in the same pod, by the socket of its runtime API: one command a connection, each with a deadline."""

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from frontdoor import haproxy
from frontdoor.haproxy import Running

_REQUEST_DEADLINE_SECONDS: Final = 5.0
_ANSWER_BYTES: Final = 16 * 1024 * 1024


class UnreachableError(OSError):
    """HAProxy does not answer; it may be starting."""


class Runtime:
    """One HAProxy, by the folder that its socket and files are in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def say(self, command: str) -> str:
        """Run one command and return the answer."""
        if "\n" in command or ";" in command:
            raise ValueError(f"not one command: {command!r}")
        try:
            async with asyncio.timeout(_REQUEST_DEADLINE_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self._folder / "admin.sock")
                try:
                    writer.write(f"{command}\n".encode())
                    writer.write_eof()
                    return await _read(reader)
                finally:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()
        except OSError as error:  # a deadline is one, too
            raise UnreachableError(f"HAProxy's socket: {type(error).__name__}: {error}") from error

    async def running(self) -> Running:
        """The present state of HAProxy."""
        servers = await self.say(f"show servers state {haproxy.BACKEND}")
        hosts = await self.say(f"show map {self._folder}/hosts.map")
        return Running(haproxy.servers_of(servers), haproxy.map_of(hosts))

    async def refused(self) -> tuple[dict[str, int], dict[str, int]]:
        """How many connections it has refused: by tenant beyond its limits, and without a tenant by reason."""
        tenants = haproxy.table_of(await self.say("show table tenants"), "gpc0")
        nobody = haproxy.table_of(await self.say("show table refusals"), "conn_cnt")
        return tenants, nobody


async def _read(reader: asyncio.StreamReader) -> str:
    data = bytearray()
    while part := await reader.read(64 * 1024):
        data += part
        if len(data) > _ANSWER_BYTES:
            raise OSError(f"an answer of more than {_ANSWER_BYTES} bytes")
    return data.decode(errors="replace")
