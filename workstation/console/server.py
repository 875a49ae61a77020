"""The console's server: loopback only, one session, GET only.

    /enter?token=…   once ──> cookie, and on to the page        /events       the board, as server-sent events
    /                the page without a picture                 /api/<name>   one question, answered by the caller's function

The answers' headers forbid other pages to frame, embed or read them. It keeps no log of requests: a link has a secret in it.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Self, TypeAlias

from aiohttp import web

from workstation.console import page
from workstation.console.board import Board
from workstation.console.session import ENTER, Asked, Refusal, is_same, refusal

# Answers a question from its parameters; None if there is no such thing.
Question: TypeAlias = Callable[[Mapping[str, str]], Awaitable[Any]]
_ADDRESS: Final = "127.0.0.1"
_MAX_STREAMS: Final = 16
_MAX_PARAMETER_CHARS: Final = 1024
_BEAT_SECONDS: Final = 4.0
_STOP_SECONDS: Final = 1.0
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "bulkhead",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class QuestionError(Exception):
    """A question that cannot be answered, with a text for the user."""


class Console:
    """The server of one session."""

    def __init__(self, board: Board, questions: Mapping[str, Question], *, way: str = "live") -> None:
        self._board = board
        self._questions = questions
        self._way = way
        self._token = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)
        self._streams = 0
        self._runner: web.AppRunner | None = None
        self._ending = asyncio.Event()
        self.port = 0
        self.entered = asyncio.Event()

    async def start(self, port: int) -> None:
        """Listen; `port` 0 for any. Raises OSError."""
        app = web.Application(middlewares=[self._guard], client_max_size=1024)
        app.router.add_get("/", self._page)
        app.router.add_get(ENTER, self._enter)
        app.router.add_get("/events", self._events)
        app.router.add_get("/api/{name}", self._ask)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_SECONDS, max_line_size=4096)
        await self._runner.setup()
        site = web.TCPSite(self._runner, _ADDRESS, port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    @property
    def link(self) -> str:
        """The link with the token, which works once."""
        return f"http://{_ADDRESS}:{self.port}{ENTER}?token={self._token}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending.set()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def _cookie(self) -> str:
        # Cookies do not know ports: two consoles on one machine must not replace each other's.
        return f"bulkhead-console-{self.port}"

    @web.middleware
    async def _guard(self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
        refused = refusal(
            Asked(
                request.method,
                request.path,
                request.headers.get("Host", ""),
                request.headers.get("Origin", ""),
                request.headers.get("Sec-Fetch-Site", ""),
                request.cookies.get(self._cookie, ""),
            ),
            self._secret,
        )
        if refused is not None:
            return self._plain(refused)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            return self._plain(Refusal(error.status, "the console has no such page"))
        return response

    def _plain(self, refused: Refusal) -> web.Response:
        return web.Response(text=f"{refused.message}\n", status=refused.status, headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {**_HEADERS, "Content-Security-Policy": f"{page.policy(live=True)}; frame-ancestors 'none'"}

    async def _page(self, _: web.Request) -> web.Response:
        text = page.document(None, live=True, way=self._way)
        return web.Response(text=text, content_type="text/html", headers=self._headers())

    async def _enter(self, request: web.Request) -> web.Response:
        if not is_same(request.query.get("token", ""), self._token):
            used = Refusal(403, "this link was used before, or is another console's; run `bulkhead console` for a new one")
            # The browser that used it may open it again from its history.
            if is_same(request.cookies.get(self._cookie, ""), self._secret):
                return web.Response(status=303, headers={**self._headers(), "Location": "/"})
            return self._plain(used)
        self._token = ""
        self.entered.set()
        response = web.Response(status=303, headers={**self._headers(), "Location": "/"})
        response.set_cookie(self._cookie, self._secret, httponly=True, samesite="Strict", path="/")
        return response

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= _MAX_STREAMS:
            return self._plain(Refusal(503, f"{_MAX_STREAMS} pages follow this console already; close one of them"))
        response = web.StreamResponse(headers={**self._headers(), "Content-Type": "text/event-stream"})
        self._streams += 1
        try:
            await response.prepare(request)
            seen: dict[str, int] = {}
            while not self._ending.is_set():
                for name, (version, body) in self._board.news(seen).items():
                    await response.write(b"event: %s\ndata: %s\n\n" % (name.encode(), body))
                    seen[name] = version
                await response.write(b"event: beat\ndata: 0\n\n")
                await self._wait()
        except ConnectionError:
            pass  # the page was closed
        finally:
            self._streams -= 1
        return response

    async def _wait(self) -> None:
        """Until there is news, the next beat is due, or the server ends."""
        waits = [asyncio.ensure_future(self._board.changed(_BEAT_SECONDS)), asyncio.ensure_future(self._ending.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _ask(self, request: web.Request) -> web.Response:
        question = self._questions.get(request.match_info["name"])
        parameters = {name: value for name, value in request.query.items() if len(value) <= _MAX_PARAMETER_CHARS}
        if question is None:
            return self._json({"error": "the console has no such page"}, 404)
        try:
            answer = await question(parameters)
        except QuestionError as error:
            return self._json({"error": str(error)}, 200)
        return self._json({"answer": answer}, 200)

    def _json(self, value: Any, status: int) -> web.Response:
        return web.Response(
            body=page.embedded(value).encode(), status=status, content_type="application/json", headers=self._headers()
        )
