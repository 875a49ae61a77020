"""The controller's HTTP server: /metrics, /livez and /readyz on one port. It reads state and changes nothing."""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

Check = Callable[[], str | None]


def application(alive: Check, ready: Check) -> web.Application:
    """The routes. A check returns None if all is well, else what is wrong."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def livez(_: web.Request) -> web.Response:
        return _answer(alive())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(ready())

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/livez", livez), web.get("/readyz", readyz)])
    return app


def _answer(fault: str | None) -> web.Response:
    return web.Response(text="ok\n") if fault is None else web.Response(status=503, text=f"{fault}\n")
