"""What the proxy adds to a request, and what a watch through it costs: a real HAProxy before a real kube-apiserver, no root.

Requests alternate between the direct way and the proxy, so that both see the same machine. Each watch has a connection of its
own, which is the most expensive case: real clients share one among several watches. The requests use the platform's own client,
and the proxy is configured by the platform's own code. This is on purpose: production runs the same code.
"""

import asyncio
import contextlib
import resource
import selectors
import ssl
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from e2e.machine import pss_kib
from frontdoor.haproxy import Limits
from frontdoor.routes import Route
from tests.kit.proxying import Proxy, proxy
from tests.kit.servers import ApiServer

NAME: Final = "kubernetes.default.svc"  # is in the certificate of that server
PROXIES: Final = 2  # as on a host; one could not open that many files everywhere
_SEEN_SECONDS: Final = 120.0
_AT_ONCE: Final = 16
_EVENT: Final = "bench-event"

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Load:
    """The size of the load."""

    requests: int = 2000
    fresh: int = 300
    watches: int = 10_000


async def measure(folder: Path, load: Load, note: Note) -> dict[str, Any]:
    """Both parts, with one server and one proxy."""
    each = load.watches // PROXIES + 1000
    limits = Limits(connections=each, tenant_connections=0, tenant_rate=0, source_connections=0, source_rate=0)
    _allow_files()
    server = ApiServer("bench", folder / "server")
    try:
        server.start()
        await asyncio.to_thread(server.wait)
        async with contextlib.AsyncExitStack() as stack:
            proxies = []
            for number in range(PROXIES):
                place = folder / f"proxy-{number}"
                place.mkdir()
                route = Route("bench", "127.0.0.1", (NAME,), server.port)
                proxies.append(await stack.enter_async_context(proxy(place, [route], limits)))
            proxied = replace(server.admin, server=f"https://127.0.0.1:{proxies[0].port}", tls_server_name=NAME)
            found = {"latency": await latency(server.admin, proxied, load)}
            note(f"a request takes {found['latency']['added_p50_ms']:.2f} ms longer by the proxy")
            if load.watches:
                found["watches"] = await watches(server, proxies, load.watches, note)
            return found
    finally:
        server.stop()


async def latency(direct: KubeConfig, proxied: KubeConfig, load: Load) -> dict[str, Any]:
    """Median in milliseconds, direct and through the proxy, alternating."""
    async with _client(direct) as one, _client(proxied) as other:
        kept = await _turns(load.requests, [lambda: _ask(one), lambda: _ask(other)])
    fresh = await _turns(load.fresh, [lambda: _ask_anew(direct), lambda: _ask_anew(proxied)])
    return {
        "direct_p50_ms": round(kept[0], 3),
        "added_p50_ms": round(kept[1] - kept[0], 3),
        "direct_fresh_p50_ms": round(fresh[0], 3),
        "added_fresh_p50_ms": round(fresh[1] - fresh[0], 3),
    }


async def _turns(number: int, ways: list[Callable[[], Any]]) -> list[float]:
    took: list[list[float]] = [[] for _ in ways]
    for turn in range(number + 20):
        for way, times in zip(ways, took, strict=True):
            begin = time.perf_counter()
            await way()
            if turn >= 20:
                times.append((time.perf_counter() - begin) * 1000)
    return [statistics.median(times) for times in took]


def _client(config: KubeConfig) -> Client:
    return Client(config, user_agent="bench", field_manager="bench")


async def _ask(client: Client) -> None:
    await client.get(kinds.NAMESPACES, "default")


async def _ask_anew(config: KubeConfig) -> None:
    async with _client(config) as client:
        await _ask(client)


async def watches(server: ApiServer, proxies: list[Proxy], number: int, note: Note) -> dict[str, Any]:
    """Open the watches, measure their memory while nothing changes, and send one event to all of them."""
    before = _memory(server, proxies)
    begin = time.monotonic()
    opened = await asyncio.to_thread(_open_all, [item.port for item in proxies], _context(server.admin), number)
    took = time.monotonic() - begin
    note(f"{len(opened)} watches open after {took:.0f} s")
    after = _memory(server, proxies)
    try:
        async with _client(server.admin) as client:
            await client.create(kinds.CONFIG_MAPS, {"metadata": {"name": _EVENT, "namespace": "default"}}, "default")
        begin = time.monotonic()
        seen = await asyncio.to_thread(_seen_by, opened)
        seen_after = time.monotonic() - begin
    finally:
        for item in opened:
            item.close()
    return {
        "open": len(opened),
        "opened_s": round(took, 1),
        "seen": seen,
        "seen_s": round(seen_after, 1),
        **{f"{name}_kib_each": round((after[name] - before[name]) / max(len(opened), 1), 2) for name in after},
    }


def _memory(server: ApiServer, proxies: list[Proxy]) -> dict[str, int]:
    return {"proxy": sum(pss_kib(item.process.pid) for item in proxies), "server": pss_kib(server.pid("kube-apiserver"))}


def _context(config: KubeConfig) -> ssl.SSLContext:
    context = config.ssl_context()
    if context is None:
        raise ValueError("no TLS")
    return context


def _open_all(ports: list[int], context: ssl.SSLContext, number: int) -> list[ssl.SSLSocket]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [item for item in pool.map(lambda at: _open(ports[at % len(ports)], context), range(number)) if item is not None]


def _open(port: int, context: ssl.SSLContext) -> ssl.SSLSocket | None:
    import socket  # noqa: PLC0415

    request = (
        "GET /api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0&timeoutSeconds=3600 HTTP/1.1\r\n"
        f"Host: {NAME}\r\nAccept: application/json\r\n\r\n"
    )
    try:
        made = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 60), server_hostname=NAME)
        made.sendall(request.encode())
        if b" 200 " in made.recv(4096):
            return made
        made.close()
    except OSError:
        return None
    return None


def _seen_by(opened: Iterable[ssl.SSLSocket]) -> int:
    """The number of watches that see the event in time."""
    waiting, seen = selectors.DefaultSelector(), 0
    for item in opened:
        item.setblocking(False)
        waiting.register(item, selectors.EVENT_READ)
    deadline = time.monotonic() + _SEEN_SECONDS
    while waiting.get_map() and time.monotonic() < deadline:
        for key, _ in waiting.select(1.0):
            made = key.fileobj
            if not isinstance(made, ssl.SSLSocket):
                continue
            try:
                data = made.recv(1 << 16)
            except ssl.SSLWantReadError:
                continue
            except OSError:
                data = b""
            if not data or _EVENT.encode() in data:
                seen += bool(data)
                waiting.unregister(made)
    return seen


def _allow_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
