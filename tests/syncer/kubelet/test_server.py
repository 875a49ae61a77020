"""The tenant's kubelet over real TLS: which clients it admits, what it passes on, and what it never passes on."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Key
from bulkhead.work.clock import SystemClock
from syncer.http1 import BadRequestError
from syncer.kubelet.exposition import Page
from syncer.kubelet.metricsroutes import Question
from syncer.kubelet.pace import Paces
from syncer.kubelet.server import Kubelet, tls_context
from syncer.kubelet.targets import Target
from syncer.kubelet.turns import Turns
from syncer.unread import UNREAD_BYTES
from tests.kit.pki import Authority
from tests.kit.syncerbed import until

VIRTUAL: Obj = {
    "metadata": {"namespace": "ns", "name": "web", "uid": "u-1"},
    "spec": {"containers": [{"name": "main"}], "initContainers": [{"name": "init"}]},
}
LOG_OF_WEB = "GET /containerLogs/ns/web/main HTTP/1.1\r\nHost: x\r\n\r\n"
WEBSOCKET = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n"


@dataclass
class Upstream:
    """The host's API server, as far as the kubelet goes: notes requests, answers logs, echoes upgrades, refuses the rest."""

    port: int = 0
    requests: list[str] = field(default_factory=list)
    open: int = 0  # logs of a pod that says no more

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests.append(head)
        if "follow=true" in head.split("\r\n")[0]:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
            self.open += 1
            await reader.read()  # the pod says no more; until the kubelet wants no more
            self.open -= 1
        elif "/log?" in head.split("\r\n")[0] and "previous" not in head:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nline1\nline2\n")
        elif "upgrade: websocket" in head.lower():
            writer.write(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Secret: host\r\n\r\n"
            )
            await writer.drain()
            while chunk := await reader.read(1024):
                writer.write(chunk.upper())
                await writer.drain()
        else:
            body = b'{"kind":"Status","status":"Failure","message":"pods \\"web-' + b"a" * 32 + b'\\" is gone","code":404}'
            writer.write(
                b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )
        await writer.drain()
        writer.close()


@dataclass
class Bench:
    port: int
    kubelet: Kubelet
    upstream: Upstream
    tls: ssl.SSLContext
    stranger: ssl.SSLContext
    proxy: ssl.SSLContext

    async def ask(self, head: str, *, tls: ssl.SSLContext | None = None) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls or self.tls)
        writer.write(head.encode())
        await writer.drain()
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        return answer


def client_context(authority: Authority, server: Authority, folder: Path, name: str) -> ssl.SSLContext:
    cert, key = authority.issue(name)
    (folder / f"{name}.pem").write_bytes(cert + key)
    context = ssl.create_default_context(cadata=server.pem.decode())
    context.load_cert_chain(folder / f"{name}.pem")
    return context


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    serving, kubelet, front_proxy, other = (Authority(name) for name in ("serving", "kubelet", "front-proxy", "other"))
    cert, key = serving.issue("shim", addresses=("127.0.0.1",))
    (tmp_path / "shim.crt").write_bytes(cert)
    (tmp_path / "shim.key").write_bytes(key)
    (tmp_path / "shim-client-ca.crt").write_bytes(kubelet.pem)
    (tmp_path / "shim-proxy-ca.crt").write_bytes(front_proxy.pem)
    host_cert, host_key = serving.issue("host", addresses=("127.0.0.1",))
    (tmp_path / "host.pem").write_bytes(host_cert + host_key)
    host_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    host_tls.load_cert_chain(tmp_path / "host.pem")
    upstream = Upstream()
    server = await asyncio.start_server(upstream.answer, "127.0.0.1", 0, ssl=host_tls)
    upstream.port = server.sockets[0].getsockname()[1]
    config = KubeConfig(server=f"https://127.0.0.1:{upstream.port}", ca=serving.pem, token="host-token")

    def lookup(key: Key) -> Target | None:
        return Target(VIRTUAL, Key("work", "web-host")) if key == Key("ns", "web") else None

    async def answer(asked: Question) -> Obj:
        if asked.name:
            raise BadRequestError(404, f"{asked.name} not found")
        return {"kind": "PodMetricsList", "items": []}

    async with Client(config, user_agent="kubelet", field_manager="kubelet") as client:

        async def pages(about: Page, node: str) -> bytes:
            if node == "large":
                return b"x" * (UNREAD_BYTES - 4096)
            return f"page {about} of {node}\n".encode()

        tested = Kubelet(client, lookup, answer, pages, paces=Paces(SystemClock()), turns=Turns(SystemClock()), streams=2)
        listener = await asyncio.start_server(tested._accept, "127.0.0.1", 0, ssl=tls_context(tmp_path), limit=65536)
        port = listener.sockets[0].getsockname()[1]
        good = client_context(kubelet, serving, tmp_path, "apiserver")
        bad = client_context(other, serving, tmp_path, "stranger")
        proxy = client_context(front_proxy, serving, tmp_path, "front-proxy-client")
        try:
            yield Bench(port, tested, upstream, good, bad, proxy)
        finally:
            listener.close()
            server.close()


async def test_item_85_logs_come_from_the_host_pod_with_our_credentials(bench: Bench) -> None:
    head = "GET /containerLogs/ns/web/main?follow=false&tailLines=5 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer tenant\r\n\r\n"
    answer = await bench.ask(head)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"line1\nline2\n" in answer
    assert answer.endswith(b"0\r\n\r\n")
    asked = bench.upstream.requests[0]
    assert asked.startswith("GET /api/v1/namespaces/work/pods/web-host/log?")
    assert "container=main" in asked
    assert "Bearer host-token" in asked
    assert "tenant" not in asked


async def test_item_85_exec_is_spliced_and_its_names_are_rewritten(bench: Bench) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.port, ssl=bench.tls)
    target = "/exec/ns/web/u-1/main?command=sh&command=-c&input=1&output=1&tty=0"
    writer.write(f"POST {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer tenant\r\n{WEBSOCKET}\r\n".encode())
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"HELLO"
    writer.close()
    assert head.startswith(b"HTTP/1.1 101")
    assert b"X-Secret" not in head
    asked = bench.upstream.requests[0]
    query = asked.split(" ")[1]
    assert query.startswith("/api/v1/namespaces/work/pods/web-host/exec?")
    for part in ("command=sh&command=-c", "stdin=true", "stdout=true", "stderr=false", "tty=false", "container=main"):
        assert part in query
    assert "Bearer tenant" not in asked


async def test_no_header_of_a_trace_reaches_the_host(bench: Bench) -> None:
    """With them a tenant would choose the ids and the sampling of what the host's API server traces, or join others' traces."""
    theirs = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01", "tracestate": "vendor=eve", "baggage": "tenant=eve", "b3": "eve"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in theirs.items())
    await bench.ask(f"GET /containerLogs/ns/web/main HTTP/1.1\r\nHost: x\r\n{lines}\r\n")
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.port, ssl=bench.tls)
    protocol = "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n"
    writer.write(f"GET /exec/ns/web/main?command=sh HTTP/1.1\r\nHost: x\r\n{lines}{protocol}{WEBSOCKET}\r\n".encode())
    async with asyncio.timeout(60):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    writer.close()
    log, session = (request.lower() for request in bench.upstream.requests)
    assert "sec-websocket-protocol: v5.channel.k8s.io" in session, "the control: what negotiates the upgrade passes"
    for name, value in theirs.items():
        assert name not in log + session
        assert value not in log + session


async def test_a_terminal_has_no_stream_for_errors(bench: Bench) -> None:
    """`kubectl run -it` whose input is not a terminal requests both; a kubelet answers that both cannot be."""
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.port, ssl=bench.tls)
    target = "/attach/ns/web/u-1/main?input=1&output=1&error=1&tty=1"
    writer.write(f"POST {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer tenant\r\n{WEBSOCKET}\r\n".encode())
    async with asyncio.timeout(60):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    writer.close()
    query = bench.upstream.requests[0].split(" ")[1]
    assert {"stderr=false", "tty=true"} <= set(query.split("?")[1].split("&"))


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/containerLogs/ns/other/main", 404),
        ("/containerLogs/ns/web/sidecar", 404),
        ("/containerLogs/ns/web/main/extra", 404),
        ("/containerLogs/ns/web/..%2fx", 400),
        ("/exec/ns/web/other-uid/main?command=sh", 404),
        ("/pods", 404),
        ("/runningpods", 404),
        ("/metrics/cadvisor", 400),
        ("/metrics/gpus", 400),
        ("/metrics/gpus/n1", 404),
        ("/metrics/cadvisor/", 404),
        ("/metrics/cadvisor/more", 404),
        ("/metrics/slis", 404),
        ("/metrics?node=other", 404),
        ("/stats/summary", 404),
        ("/configz", 404),
        ("/run/ns/web/main", 404),
        ("/healthz", 200),
    ],
)
async def test_item_86_only_listed_paths_exist(bench: Bench, target: str, status: int) -> None:
    extra = WEBSOCKET if target.startswith("/exec") else ""
    answer = await bench.ask(f"GET {target} HTTP/1.1\r\nHost: x\r\n{extra}\r\n")
    assert int(answer.split(b" ")[1]) == status
    assert bench.upstream.requests == []


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("/api/v1/nodes/n1/proxy/metrics/cadvisor", "page cadvisor of n1"),
        ("/api/v1/nodes/n1:10250/proxy/metrics/cadvisor", "page cadvisor of n1"),
        ("/api/v1/nodes/https:n1:/proxy/metrics/cadvisor", "page cadvisor of n1"),
        ("/api/v1/nodes/../proxy/metrics/cadvisor", "400"),
        ("/api/v1/nodes//proxy/metrics/cadvisor", "400"),
        ("/api/v1/namespaces/a/pods/n1/proxy/metrics/cadvisor", "400"),
    ],
)
async def test_item_100_the_node_is_the_one_that_the_api_servers_proxy_names(bench: Bench, uri: str, told: str) -> None:
    answer = await bench.ask(f"GET /metrics/cadvisor HTTP/1.1\r\nHost: x\r\nX-Forwarded-Uri: {uri}\r\n\r\n")
    assert told in answer.decode()
    twice = f"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Forwarded-Uri: {uri}\r\nX-Forwarded-Uri: {uri}\r\n\r\n"
    assert b" 400 " in (await bench.ask(twice)).splitlines()[0]
    assert bench.upstream.requests == []


async def test_item_83_85_a_refusal_of_the_host_names_nothing_of_it(bench: Bench) -> None:
    spdy = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    answer = await bench.ask(f"POST /portForward/ns/web HTTP/1.1\r\nHost: x\r\n{spdy}\r\n")
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"a" * 32 not in answer


async def test_item_86_an_unknown_client_does_not_get_in(bench: Bench) -> None:
    answer = b""
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        answer = await bench.ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", tls=bench.stranger)
    assert answer == b""
    assert bench.upstream.requests == []


async def test_item_86_a_client_without_a_certificate_does_not_get_in(bench: Bench) -> None:
    without = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    without.check_hostname, without.verify_mode = False, ssl.CERT_NONE
    answer = b""
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        answer = await bench.ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", tls=without)
    assert answer == b""
    assert bench.upstream.requests == []


async def test_item_87_metrics_are_told_to_the_api_server_as_an_extension_server_does(bench: Bench) -> None:
    """It passes on the user that it acts for, with a header for each group, and shows refusals to people."""
    caller = "X-Remote-User: alice\r\nX-Remote-Group: a\r\nX-Remote-Group: system:authenticated\r\n"
    path = "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"
    found = await bench.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n{caller}\r\n", tls=bench.proxy)
    assert found.startswith(b"HTTP/1.1 200 OK")
    assert b"Content-Type: application/json" in found
    assert b'"PodMetricsList"' in found
    refused = await bench.ask(f"GET {path}/web HTTP/1.1\r\nHost: x\r\n{caller}\r\n", tls=bench.proxy)
    assert refused.startswith(b"HTTP/1.1 404")
    assert b'"kind": "Status"' in refused
    assert b'"reason": "NotFound"' in refused
    assert (await bench.ask("GET /apis/apps/v1 HTTP/1.1\r\nHost: x\r\n\r\n", tls=bench.proxy)).startswith(b"HTTP/1.1 404")
    assert bench.upstream.requests == []


async def test_streams_are_capped(bench: Bench) -> None:
    head = f"GET /exec/ns/web/main?command=sh HTTP/1.1\r\nHost: x\r\n{WEBSOCKET}\r\n"
    held = []
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.port, ssl=bench.tls)
        writer.write(head.encode())
        await reader.readuntil(b"\r\n\r\n")
        held.append(writer)
    refused = await bench.ask(head)
    assert refused.startswith(b"HTTP/1.1 429")
    # What API servers pass on of a refused upgrade.
    status = json.loads(refused.partition(b"\r\n\r\n")[2])
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 429, "TooManyRequests")
    assert "too many sessions (429): 2 of this tenant are open" in status["message"]
    # And of a refused log.
    log = await bench.ask("GET /containerLogs/ns/web/main HTTP/1.1\r\nHost: x\r\n\r\n")
    assert log.startswith(b"HTTP/1.1 429")
    assert log.partition(b"\r\n\r\n")[2].startswith(b"too many sessions (429): 2 of this tenant")
    for writer in held:
        writer.close()


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - what is waited for is the state of the server under test
            await asyncio.sleep(0.01)


async def test_a_session_waits_for_its_turn_and_is_for_the_pod_that_is_there_then(bench: Bench) -> None:
    """Meanwhile the pod may be replaced by another of its name, and the host's name of both is the same."""
    held, here = asyncio.Event(), [True]

    async def turn() -> None:
        await held.wait()

    bench.kubelet._paces.may_open = turn  # type: ignore[method-assign]
    found = bench.kubelet._lookup
    bench.kubelet._lookup = lambda key: found(key) if here[0] else Target(VIRTUAL | {"metadata": {"uid": "u-2"}}, Key("w", "h"))
    head = f"GET /exec/ns/web/u-1/main?command=sh HTTP/1.1\r\nHost: x\r\n{WEBSOCKET}\r\n"
    asking = [asyncio.create_task(bench.ask(head)), asyncio.create_task(bench.ask(LOG_OF_WEB))]

    async def both_wait() -> bool:
        return bench.kubelet._streams == len(asking)

    await until(both_wait, "both streams to wait for their turn")
    assert bench.upstream.requests == [], "neither has begun"
    here[0] = False
    held.set()
    session, _ = await asyncio.gather(*asking)
    assert b" 404 " in session.splitlines()[0], "it named the pod by its UID"
    assert [request.split(" ")[1].split("?")[0] for request in bench.upstream.requests] == ["/api/v1/namespaces/w/pods/h/log"]


async def test_a_followed_log_of_a_silent_pod_gives_its_place_back_when_its_reader_has_gone(bench: Bench) -> None:
    for _ in range(5):  # of two places
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.port, ssl=bench.tls)
        writer.write(b"GET /containerLogs/ns/web/main?follow=true HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(60):
            assert (await reader.readuntil(b"first")).startswith(b"HTTP/1.1 200")
        writer.close()
        await eventually(lambda: not bench.kubelet._streams and not bench.upstream.open)


async def test_a_log_that_the_host_refuses_is_refused_though_its_reader_waits(bench: Bench) -> None:
    answer = await bench.ask("GET /containerLogs/ns/web/init?previous=true HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404")


async def test_metrics_that_are_asked_for_and_not_read_fill_no_memory(bench: Bench) -> None:
    def asking(node: str) -> str:
        return f"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Forwarded-Uri: /api/v1/nodes/{node}/proxy/metrics\r\n\r\n"

    _, idle = await asyncio.open_connection("127.0.0.1", bench.port, ssl=bench.tls)
    idle.write(asking("large").encode())
    await eventually(lambda: bench.kubelet._unread.waiting > 0)
    refused = [await bench.ask(asking("large")) for _ in range(3)]
    assert all(answer.startswith(b"HTTP/1.1 503") and b"not read" in answer for answer in refused)
    assert bench.kubelet._unread.waiting < 2 * UNREAD_BYTES
    assert (await bench.ask(asking("n1"))).startswith(b"HTTP/1.1 200"), "a small one still fits"
    idle.transport.abort()
    await eventually(lambda: bench.kubelet._unread.waiting == 0)
    assert len(await bench.ask(asking("large"))) > UNREAD_BYTES - 4096
