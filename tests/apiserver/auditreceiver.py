"""A receiver of audit trails over TLS, which can be told to behave badly: it keeps silent, refuses, hangs up, or is gone."""

import asyncio
import json
import ssl
from collections import Counter
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from tests.kit.pki import Authority
from tests.kit.ports import free_port

_MOST = 64 << 20


class AuditReceiver:
    """Takes EventLists; `behaves` says how it answers."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.authority = Authority("receiver-ca")
        self.port = free_port()
        self.behaves = "well"
        self.events: list[tuple[str, str, dict[str, Any]]] = []  # path, who, event
        self.answered: Counter[str] = Counter()
        self._silent = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        cert, key = self.authority.issue("receiver", addresses=("127.0.0.1",))
        (self._folder / "server.pem").write_bytes(cert + key)
        await self.come()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go()

    async def come(self) -> None:
        """Listen."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.authority.pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_cert_chain(self._folder / "server.pem")
        application = web.Application(client_max_size=_MOST)
        application.router.add_post("/{path:.*}", self._take)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=context).start()

    async def go(self) -> None:
        """Be gone, with all connections."""
        self._silent.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def names(self, who: str | None = None) -> set[str]:
        """The names of the objects of all events that were taken, of one who signed in or of all."""
        return {
            str((event.get("objectRef") or {}).get("name")) for _, sender, event in self.events if who is None or who == sender
        }

    async def _take(self, request: web.Request) -> web.StreamResponse:
        self.answered[self.behaves] += 1
        body = await request.read()
        if self.behaves == "silent":
            self._silent.clear()
            await self._silent.wait()
        if self.behaves == "hanging up":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if self.behaves == "refusing":
            return web.Response(status=500, text="no")
        for event in json.loads(body)["items"]:
            self.events.append((request.path, _who(request), event))
        return web.Response()


def _who(request: web.Request) -> str:
    if "Authorization" in request.headers:
        return request.headers["Authorization"]
    assert request.transport is not None
    subject = (request.transport.get_extra_info("peercert") or {}).get("subject", ())
    return next((value for part in subject for name, value in part if name == "commonName"), "")
