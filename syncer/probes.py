"""Probes and metrics over plain HTTP: /livez, /readyz, /metrics, and nothing else.

/livez says that the event loop turns: a loop that hangs does not answer, and one that stalled for long says so afterwards.
/readyz says that the caches of both sides are complete and heard from recently.
"""

from collections.abc import Callable
from typing import Final

from bulkhead.work.clock import Clock
from syncer import http1, metrics
from syncer.onerequest import OneRequestServer

BEAT_SECONDS: Final = 1.0
STALL_SECONDS: Final = 10.0


class Heart:
    """Beats once a second; a late beat means that the event loop stalled."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()
        self.longest_stall = 0.0

    async def beat(self) -> None:
        """Run for ever."""
        while True:
            self._last = self._clock.monotonic()
            await self._clock.sleep(BEAT_SECONDS)
            self.longest_stall = max(self.longest_stall, self._clock.monotonic() - self._last - BEAT_SECONDS)

    def alive(self) -> bool:
        """Whether the last beat is recent."""
        return self._clock.monotonic() - self._last < STALL_SECONDS


class Probes:
    """The server on the probe port."""

    def __init__(self, heart: Heart, unready: Callable[[], list[str]]) -> None:
        self._heart = heart
        self._unready = unready
        self.stopping = False

    async def serve(self, host: str, port: int) -> None:
        """Serve until cancelled."""
        await OneRequestServer(self._answer).serve(host, port)

    async def _answer(self, request: http1.Request) -> bytes:
        return self.respond(request.method, request.path)

    def respond(self, method: str, path: str) -> bytes:
        """The answer to one request."""
        if method not in {"GET", "HEAD"}:
            return http1.response(405, b"only GET\n")
        if path == "/livez":
            return http1.response(200, b"ok\n") if self._heart.alive() else http1.response(503, b"event loop stalled\n")
        if path == "/readyz":
            missing = ["stopping"] if self.stopping else self._unready()
            text = "ok\n" if not missing else "not ready: " + ", ".join(missing) + "\n"
            return http1.response(503 if missing else 200, text.encode())
        if path == "/metrics":
            return http1.response(200, metrics.render(), metrics.CONTENT_TYPE)
        return http1.response(404, b"not found\n")
