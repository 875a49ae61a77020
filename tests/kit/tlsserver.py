"""One handler behind TLS, at a port and with a certificate of its own: what tests put in the place of an API server."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from aiohttp import web

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.pki import Authority
from tests.kit.ports import free_port


@contextlib.asynccontextmanager
async def serving(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], folder: Path, *, token: str
) -> AsyncIterator[KubeConfig]:
    """Serve every path until the block ends; `folder` gets the key. The kubeconfig has the token, which nothing checks."""
    authority, port = Authority("played"), free_port()
    pem = folder / "played.pem"
    pem.write_bytes(b"".join(authority.issue("played-server", addresses=("127.0.0.1",))))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        yield KubeConfig(server=f"https://127.0.0.1:{port}", ca=authority.pem, token=token)
    finally:
        await runner.cleanup()
