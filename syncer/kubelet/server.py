"""The kubelet that the tenant's API server sees: logs, exec, attach and port-forward of a tenant's own pods, and metrics.

Serves only callers with a certificate of the plane's kubelet CA or front-proxy CA, which the plane's API server alone has,
knows only the routes of `routes` and `metricsroutes`, finds the host pod by the UID of the virtual pod and never by a name
that the caller could have chosen, and asks the host with the syncer's own credentials. Nothing of the caller's headers but the
upgrade's negotiation is passed on, so no token travels either way.

    API server ──TLS, client certificate──> read_request ──> route ──> virtual pod ──> host pod (same virtual UID)
               <──────────── bytes, at the tenant's pace (`pace`) ─────────────────> host API: log | exec | attach | portforward
               ──/apis/metrics.k8s.io──────────────────────> question ──> metrics
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.kube import proxy
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, KubeError, Timeout
from bulkhead.kube.keepalive import keep_alive
from bulkhead.kube.narrow import keep_little
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import PODS
from syncer import http1, metrics
from syncer.http1 import BadRequestError, Request
from syncer.kubelet.metricsroutes import Question, question
from syncer.kubelet.pace import PIECE_BYTES, Paces
from syncer.kubelet.routes import NodePage, Route, route
from syncer.kubelet.targets import Target
from syncer.kubelet.turns import Turns
from syncer.logs import about
from syncer.translate.podspec.containers import container_names
from syncer.unread import Unread
from syncer.write import refusals

_log = logging.getLogger(__name__)

STREAMS: Final = 64
CONNECTIONS: Final = 256
_STUCK_SECONDS: Final = 120.0
# Of a Status, by its code.
_REASONS: Final = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_ANSWER_HEADERS: Final = frozenset(
    {"upgrade", "connection", "x-stream-protocol-version", "sec-websocket-accept", "sec-websocket-protocol"}
)


# Answers a question about metrics with a document, or raises BadRequestError.
Answer = Callable[[Question], Awaitable[Obj]]
# A page of a node's metrics, or raises BadRequestError.
Pages = Callable[[NodePage, str], Awaitable[bytes]]
# Finds the target of a request by virtual namespace and name; None where the host has no pod for that virtual UID.
Lookup = Callable[[Key], Target | None]


def tls_context(folder: Path) -> ssl.SSLContext:
    """TLS for the kubelet: its own certificate, and none but the plane's API server as client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(folder / "shim.crt", folder / "shim.key")
    context.load_verify_locations(folder / "shim-client-ca.crt")
    context.load_verify_locations(folder / "shim-proxy-ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


class Kubelet:
    """The server on the kubelet port."""

    def __init__(
        self, host: Client, lookup: Lookup, answer: Answer, pages: Pages, *, paces: Paces, turns: Turns, streams: int = STREAMS
    ) -> None:
        self._host = host
        self._lookup = lookup
        self._answer = answer
        self._pages = pages
        self._paces = paces
        self._turns = turns
        self._limit = streams
        self._streams = 0
        self._unread = Unread()
        self._connections = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, address: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Serve until cancelled."""
        server = await asyncio.start_server(
            self._accept, address, port, ssl=tls, limit=http1.HEAD_LIMIT, ssl_handshake_timeout=10.0 if tls else None
        )
        try:
            async with server:
                await server.serve_forever()
        finally:
            for task in list(self._tasks):
                task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._connections >= CONNECTIONS:
            writer.transport.abort()
            return
        self._connections += 1
        # A session whose API server has vanished would hold its place for good.
        keep_alive(writer.transport)
        keep_little(writer.transport)
        try:
            await self._converse(reader, writer)
        except OSError:
            writer.transport.abort()
        finally:
            self._connections -= 1
            await http1.close(writer)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        verb, status, upgrades = "unknown", 200, False
        try:
            request = await http1.read_request(reader)
            if request is None:
                return
            upgrades = request.wants_upgrade()
            if request.path.startswith("/apis/"):
                verb = "metrics"
                status = await self._measure(request, writer)
                return
            found = route(request)
            verb = found.verb
            if found.verb == "metrics":
                await self._expose(found, writer)
                return
            await self._serve(found, request, reader, writer)
        except BadRequestError as error:
            status = error.status
            await self._refuse(writer, status, str(error), upgrades=upgrades)
        except ApiError as error:
            status = error.status if error.status >= 400 else 502
            await self._refuse(writer, status, refusals.plain(error.message, "the pod"), upgrades=upgrades)
        except KubeError as error:
            status = 504 if isinstance(error, Timeout) else 502
            await self._refuse(writer, status, "host API: not reachable now", upgrades=upgrades)
        finally:
            metrics.KUBELET_REQUESTS.labels(verb, str(status)).inc()

    async def _measure(self, request: Request, writer: asyncio.StreamWriter) -> int:
        """Answer as an extension server does, refusals as Status objects, which clients show to people."""
        status = 200
        try:
            document = await self._answer(question(request))
            text = await self._turns.make(lambda: json.dumps(document))
        except BadRequestError as error:
            status = error.status
            text = json.dumps(_status(status, str(error)))
        await self._send(writer, http1.response(status, text.encode(), "application/json"))
        return status

    async def _expose(self, found: Route, writer: asyncio.StreamWriter) -> None:
        """A page of a node's metrics, as its kubelet would answer."""
        body = await self._pages(found.page, found.node)
        await self._send(writer, http1.response(200, body, metrics.CONTENT_TYPE))

    async def _send(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        """Send metrics, unless too much waits for callers that do not read: it would fill this process's memory."""
        if self._unread.is_full(len(answer)):
            raise BadRequestError(503, "metrics: too many answers are asked for and not read; read them, and ask again")
        await self._unread.send(writer, answer, _STUCK_SECONDS)

    async def _refuse(self, writer: asyncio.StreamWriter, status: int, text: str, *, upgrades: bool) -> None:
        """Refuse a request.

        API servers pass on the text of a refused log with its status. Of a refused upgrade they pass on a Status object to
        clients of SPDY, and its message within an internal error to those of WebSocket.
        """
        answer = (
            http1.response(status, json.dumps(_status(status, text)).encode(), "application/json")
            if upgrades
            else http1.response(status, text.encode())
        )
        writer.write(answer)
        await writer.drain()

    async def _serve(self, found: Route, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if found.verb == "healthz":
            writer.write(http1.response(200, b"ok"))
            await writer.drain()
            return
        target = self._find(found)
        if self._streams >= self._limit:
            # The number is in the text because API servers of 1.36 pass on the text alone.
            words = f"too many sessions (429): {self._limit} of this tenant are open (exec, attach, port-forward, logs)"
            raise BadRequestError(429, f"{words}; end one and try again")
        self._streams += 1
        metrics.KUBELET_STREAMS.set(self._streams)
        try:
            await self._paces.may_open()
            # Its name may be another pod's by now.
            target = self._find(found)
            if found.verb == "log":
                await _unless_gone(reader, self._logs(found, target, writer))
            else:
                await self._upgrade(found, target, request, reader, writer)
        finally:
            self._streams -= 1
            metrics.KUBELET_STREAMS.set(self._streams)

    def _find(self, found: Route) -> Target:
        target = self._lookup(Key(found.namespace, found.pod))
        if target is None or (found.uid and target.virtual["metadata"].get("uid") != found.uid):
            raise BadRequestError(404, f"pod {found.namespace}/{found.pod}: not on a node")
        if found.verb != "portforward" and found.container not in container_names(target.virtual):
            raise BadRequestError(404, f"container {found.container}: not in pod {found.namespace}/{found.pod}")
        return target

    async def _logs(self, found: Route, target: Target, writer: asyncio.StreamWriter) -> None:
        path = PODS.path(target.host.namespace, target.host.name, "log")
        params = dict(found.params) | {"container": found.container}
        may_pass = self._paces.of(found.verb)
        async with self._host.stream(path, params, narrow=True) as stream:
            headers = {"Content-Type": http1.TEXT, "Transfer-Encoding": "chunked", "Connection": "close"}
            writer.write(http1.response_head(200, headers.items()))
            await writer.drain()
            try:
                async for chunk in stream.chunks():
                    for begin in range(0, len(chunk), PIECE_BYTES):
                        piece = chunk[begin : begin + PIECE_BYTES]
                        await may_pass(len(piece))
                        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                        async with asyncio.timeout(_STUCK_SECONDS):
                            await writer.drain()
                writer.write(b"0\r\n\r\n")
                await writer.drain()
            except (KubeError, TimeoutError):
                # The head is out: a cut connection is the only way left to say that the log is not whole.
                writer.transport.abort()

    async def _upgrade(
        self, found: Route, target: Target, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        path = PODS.path(target.host.namespace, target.host.name, found.verb)
        params = list(found.params)
        if found.verb != "portforward":
            params.append(("container", found.container))
        _log.info("kubelet stream opened", extra=about("Pod", Key(found.namespace, found.pod), verb=found.verb))
        connection = await self._host.upgrade(path, params, request.headers.items(), method=request.method, narrow=True)
        answered = ((name, value) for name, value in connection.headers if name.lower() in _ANSWER_HEADERS)
        writer.write(http1.response_head(101, answered))
        await writer.drain()
        far, may_pass = (connection.reader, connection.writer), self._paces.of(found.verb)
        await proxy.splice((reader, writer), far, may_pass=may_pass, piece=PIECE_BYTES)


async def _unless_gone(reader: asyncio.StreamReader, serving: Coroutine[Any, Any, None]) -> None:
    """Serve until it is done or the caller has gone: while a pod says nothing, nothing is written that would fail."""
    served, gone = asyncio.ensure_future(serving), asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((served, gone), return_when=asyncio.FIRST_COMPLETED)
        if served.done():
            served.result()
    finally:
        served.cancel()
        gone.cancel()
        await asyncio.gather(served, gone, return_exceptions=True)


def _status(code: int, message: str) -> Obj:
    """A failure as API servers tell it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, "BadRequest" if code < 500 else "InternalError"),
        "code": code,
    }
