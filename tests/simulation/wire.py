"""A transport of `bulkhead.kube` that ends in an `Api`: everything above it is the real client, bytes and errors included.

    request ──> latency ──> crash point "before" ──> fault? ──> the call counts ──> crash point "after" ──> fault? ──> answer
    stream  ──> history of the store, line by line, in odd chunks, as late as the faults have it, until one of them ends it

One `Life` is one process of the syncer: when it is over, its calls neither count nor answer.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Timeout, from_response, unreachable
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import EVENTS, NAMESPACES
from bulkhead.kube.transport import JSON, Transport, mapped
from tests.simulation.api import Answer, Api, Call, Route, route, selected, shown
from tests.simulation.faults import CallFault, Faults, WatchFault
from tests.simulation.store import Commit, kind_of

_READS = frozenset({"GET"})
_BEFORE = {
    CallFault.THROTTLED: (429, "TooManyRequests"),
    CallFault.BROKEN_SERVER: (500, "InternalError"),
    CallFault.AWAY: (503, "ServiceUnavailable"),
}
BOOKMARK_SECONDS = 50.0
_STALL_SECONDS = 8.0
_REPLAYED = 12


@dataclass(slots=True)
class Life:
    """One process of the syncer, from its start to its end."""

    rng: random.Random
    over: Callable[[], None]
    crash_at: tuple[int, str] | None = None
    alive: bool = True
    latency: float = 0.01
    trace: list[str] = field(default_factory=list)

    async def gate(self) -> None:
        """A process that is gone goes no further."""
        if not self.alive:
            await asyncio.get_running_loop().create_future()

    async def pause(self) -> None:
        await asyncio.sleep(self.rng.uniform(0.0005, self.latency))
        await self.gate()

    async def point(self, when: str, number: int) -> None:
        """A point at which the process may be killed."""
        if self.crash_at == (number, when):
            self.alive = False
            self.over()
        await self.gate()


class SimTransport(Transport):
    """Carries the requests of one client to an `Api`, with the latencies, faults and crashes that the test asks for."""

    def __init__(self, api: Api, faults: Faults, life: Life, user: str) -> None:
        super().__init__(KubeConfig(server="https://simulated.invalid"), user_agent=user, timeout=15.0, max_body=1 << 26)
        self._api = api
        self._faults = faults
        self._life = life
        self._user = user

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 -- as in the transport that this stands for
    ) -> bytes:
        limit = self.timeout if timeout is None else timeout
        plain = None if body is None else msgspec.json.decode(body)
        call = Call(method, route(path), params or {}, plain, content_type, accept, self._user)
        await self._life.pause()
        fault = self._faults.for_call(write=method not in _READS)
        await self._fails_before(fault, limit)
        self._life.trace.append(f"{self._api.name} {method} {path}")
        number = len(self._life.trace)
        await self._life.point("before", number)
        answer = self._lists(call)
        await self._life.point("after", number)
        await self._life.pause()
        await self._fails_after(fault, limit)
        if fault is CallFault.GARBLED:
            return answer.body[: len(answer.body) // 2]
        if answer.status >= 400:
            raise from_response(answer.status, answer.body)
        return answer.body

    def _lists(self, call: Call) -> Answer:
        """Lists may be answered by a replica that is behind, or be empty, but for the one that proves the plane's identity."""
        if call.method != "GET" or call.route.name is not None or call.route.r == NAMESPACES:
            return self._api.answer(call)
        if call.route.r.plural in self._faults.empty:
            self._faults.happened["list empty"] += 1
            return Answer(
                200, msgspec.json.encode({"metadata": {"resourceVersion": str(self._api.store.version)}, "items": []})
            )
        if not self._faults.stale:
            return self._api.answer(call)
        self._faults.happened["list stale"] += 1
        version = max(self._api.store.compacted, self._api.store.version - self._faults.stale)
        return self._api.answer(replace(call, params={**call.params, "resourceVersion": str(version)}))

    async def _fails_before(self, fault: CallFault | None, limit: float) -> None:
        if fault is CallFault.REFUSED:
            raise unreachable("simulated: connection refused")
        if fault is CallFault.HANGS:
            await asyncio.sleep(limit)
            await self._life.gate()
            raise Timeout(f"simulated: no answer within {limit:g} s")
        if fault in _BEFORE:
            status, reason = _BEFORE[fault]
            text: Obj = {"kind": "Status", "status": "Failure", "reason": reason, "code": status, "message": "simulated"}
            raise from_response(status, msgspec.json.encode(text), {"Retry-After": "1"} if status == 429 else {})
        if fault is CallFault.SLOW:
            await asyncio.sleep(self._life.rng.uniform(0.5, 5.0))
            await self._life.gate()

    async def _fails_after(self, fault: CallFault | None, limit: float) -> None:
        if fault is CallFault.LOST:
            raise unreachable("simulated: connection reset")
        if fault is CallFault.LATE:
            await asyncio.sleep(limit)
            await self._life.gate()
            raise Timeout(f"simulated: no answer within {limit:g} s")

    @contextlib.asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str] | None = None, *, accept: str = JSON) -> AsyncIterator[Any]:
        await self._life.pause()
        await self._fails_before(self._faults.for_call(write=False), self.timeout)
        watch = Watch(self._api, self._faults, self._life, route(path), params=dict(params or {}), accept=accept)
        try:
            with mapped(f"GET {path}", self.timeout):
                watch.open()
            yield watch
        finally:
            watch.close()


class Watch:
    """One open watch."""

    def __init__(self, api: Api, faults: Faults, life: Life, where: Route, *, params: dict[str, str], accept: str) -> None:
        self._api = api
        self._faults = faults
        self._life = life
        self._where = where
        self._params = params
        self._lean = "PartialObjectMetadata" in accept
        self._cursor = int(params["resourceVersion"])
        self._until = api.now() + float(params.get("timeoutSeconds") or 300)
        self._heard = api.now()
        self._news = asyncio.Event()
        self._chunks: deque[bytes] = deque()
        self._ended = False
        self._broken = False
        self._stalled = 0.0
        self._opened = self._cursor
        self._slow = 0

    def open(self) -> None:
        """Start, or be refused because the version is too old: half of the servers say so in the stream, half by status."""
        self._api.store.listeners.append(self._heard_of)
        self._api.breaks.append(self.break_now)
        if self._cursor < self._api.store.compacted:
            status = _status(410, "Expired", f"too old resource version: {self._cursor} ({self._api.store.compacted})")
            if self._life.rng.random() < 0.5:
                raise from_response(410, msgspec.json.encode(status))
            self._line("ERROR", status)
            self._ended = True

    def close(self) -> None:
        """No more."""
        for listeners, mine in ((self._api.store.listeners, self._heard_of), (self._api.breaks, self.break_now)):
            if mine in listeners:
                listeners.remove(mine)  # type: ignore[arg-type]

    def break_now(self) -> None:
        """The server went away."""
        self._broken = True
        self._news.set()

    def _heard_of(self, commit: Commit) -> None:
        if commit.kind == kind_of(self._where.r):
            self._news.set()

    async def readany(self) -> bytes:
        """The next bytes; empty at the end."""
        while True:
            await self._life.gate()
            if self._chunks:
                if self._slow:
                    # Slowly, so that the past is acted on while it lasts.
                    self._slow -= 1
                    await asyncio.sleep(0.05)
                return self._chunks.popleft()
            if self._broken or self._faults.away:
                raise ConnectionResetError("simulated: connection reset")
            if self._ended or self._api.now() >= self._until:
                return b""
            self._news.clear()
            wait = self._advance()
            if not self._chunks and not self._ended and not self._broken:
                with contextlib.suppress(TimeoutError):
                    # A wait shorter than a float at the present time can express would last no time at all, for ever.
                    async with asyncio.timeout(max(1e-4, wait)):
                        await self._news.wait()

    def _advance(self) -> float:
        """Write what is due; returns seconds until there may be more."""
        now = self._api.now()
        if now < self._stalled:
            return self._stalled - now
        lag = self._faults.lag.get(self._where.r.plural, 0.002)
        for commit in self._api.store.since(self._cursor):
            if commit.time + lag > now:
                return commit.time + lag - now
            event = self._event(commit)
            if event is None:
                self._cursor = commit.version
            elif not self._send(commit, *event):
                return 0.0
        idle = self._heard + BOOKMARK_SECONDS - now
        if idle <= 0 and self._where.r != EVENTS:
            meta = {"resourceVersion": str(max(self._cursor, self._api.store.version))}
            self._line("BOOKMARK", {"kind": self._where.r.kind, "apiVersion": self._where.r.api_version, "metadata": meta})
        return max(0.01, min(idle if idle > 0 else BOOKMARK_SECONDS, self._until - now))

    def _event(self, commit: Commit) -> tuple[str, Obj] | None:
        if commit.kind != kind_of(self._where.r) or (self._where.namespace and commit.key.namespace != self._where.namespace):
            return None
        was = commit.before is not None and selected(commit.before, self._params)
        is_ = commit.after is not None and selected(commit.after, self._params)
        if is_ and commit.after is not None:
            return ("MODIFIED" if was else "ADDED"), commit.after
        if was and commit.before is not None:
            last = commit.final or commit.before
            return "DELETED", last | {"metadata": last["metadata"] | {"resourceVersion": str(commit.version)}}
        return None

    def _send(self, commit: Commit, kind: str, obj: Obj) -> bool:
        """Write one event; False when the watch does not go on from here."""
        fault = self._faults.for_event()
        if fault is WatchFault.STALL:
            self._stalled = self._api.now() + _STALL_SECONDS
            return False
        if fault in (WatchFault.ERROR, WatchFault.GONE):
            code, reason = (410, "Expired") if fault is WatchFault.GONE else (500, "InternalError")
            self._line("ERROR", _status(code, reason, "simulated"))
            self._ended = True
            return False
        self._cursor = commit.version
        if fault is WatchFault.DROP:
            return True
        self._line(kind, obj, cut=fault in (WatchFault.BREAK, WatchFault.CUT))
        if fault is WatchFault.DOUBLE:
            self._line(kind, obj)
        elif fault is WatchFault.REPLAY:
            old = [each.version for each in self._api.store.history if self._event(each) and each.version <= commit.version]
            first = old[-_REPLAYED] if len(old) >= _REPLAYED else self._opened
            # Back, and never forward: this watch must not leave out the events that were compacted meanwhile.
            self._cursor = min(commit.version, max(first, self._api.store.compacted))
            self._slow = 4 * _REPLAYED
        elif fault in (WatchFault.CLOSE, WatchFault.CUT):
            self._ended = True
        elif fault is WatchFault.BREAK:
            self._broken = True
        return not (self._ended or self._broken)

    def _line(self, kind: str, obj: Obj, *, cut: bool = False) -> None:
        body = shown(self._where.r, obj, lean=self._lean) if kind not in {"ERROR", "BOOKMARK"} else obj
        line = msgspec.json.encode({"type": kind, "object": body}) + b"\n"
        if cut:
            line = line[: len(line) // 2]
        at = self._life.rng.randrange(1, len(line))
        self._chunks += (line[:at], line[at:])
        self._heard = self._api.now()


def _status(code: int, reason: str, message: str) -> Obj:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": message}


def client(api: Api, faults: Faults, life: Life, user: str) -> Client:
    """A client of a simulated API server."""
    made = Client(KubeConfig(server="https://simulated.invalid"), user_agent=user, field_manager=user, timeout=15.0)
    made.transport = SimTransport(api, faults, life, user)
    return made
