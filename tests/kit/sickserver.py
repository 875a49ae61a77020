"""A server before a real API server that answers 429, or nothing at all, for some kinds, as a server in trouble does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import ClientSession, TCPConnector, web

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit import tlsserver

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

        async with tlsserver.serving(serve, folder, token="of-the-sick") as config:
            sick = Sick(config)
            yield sick
