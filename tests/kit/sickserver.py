"""A server before a real API server that answers 429, or nothing at all, for some kinds, as a server in trouble does."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import ClientSession, TCPConnector, web

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.pki import Authority
from tests.kit.ports import free_port

_THROTTLED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "the server has received too many requests",
    "reason": "TooManyRequests",
    "code": 429,
}


@dataclass
class Sick:
    """The kinds that it does not serve, by their plural names; they may change at any time."""

    config: KubeConfig
    throttled: set[str] = field(default_factory=set)
    hanging: set[str] = field(default_factory=set)


@contextlib.asynccontextmanager
async def before(healthy: KubeConfig, folder: Path) -> AsyncIterator[Sick]:
    """Serve until the block ends; every caller has the rights of `healthy`."""
    authority, port = Authority("sick"), free_port()
    pem = folder / "sick.pem"
    pem.write_bytes(b"".join(authority.issue("server-in-trouble", addresses=("127.0.0.1",))))
    sick = Sick(KubeConfig(server=f"https://127.0.0.1:{port}", ca=authority.pem, token="of-the-sick"))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(pem)
    tls = healthy.ssl_context()
    assert tls is not None
    async with ClientSession(connector=TCPConnector(ssl=tls), auto_decompress=False) as session:

        async def serve(request: web.Request) -> web.StreamResponse:
            parts = set(request.path.split("/"))
            if parts & sick.throttled:
                return web.json_response(_THROTTLED, status=429, headers={"Retry-After": "1"})
            if parts & sick.hanging:
                await asyncio.Event().wait()
            headers = {key: value for key, value in request.headers.items() if key.lower() in {"accept", "content-type"}}
            asked = session.request(
                request.method, healthy.server + request.raw_path, headers=headers, data=await request.read()
            )
            async with asked as answer:
                kind = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
                if "watch" not in request.query:
                    return web.Response(status=answer.status, body=await answer.read(), headers=kind)
                watch = web.StreamResponse(status=answer.status, headers=kind)
                await watch.prepare(request)
                async for chunk in answer.content.iter_any():
                    await watch.write(chunk)
                return watch

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port, ssl_context=served).start()
            yield sick
        finally:
            await runner.cleanup()
