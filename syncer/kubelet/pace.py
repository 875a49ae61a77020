"""How many bytes a second pass the tenant's kubelet, and how many streams begin: allowances of all streams of a tenant.

A stream asks before each piece and sleeps for as long as it is told. Meanwhile it reads nothing from the host, so TCP makes the
host's API server wait, and that one the node. Nothing is dropped or cut, and nothing piles up here.

    log, log, ...                       ──> logs      4 MiB/s, 16 MiB at once
    exec, attach, portforward, ...      ──> sessions  8 MiB/s, 64 MiB at once, both directions together
    each of them, before it begins      ──> openings  20 a second, 200 at once
"""

from collections.abc import Awaitable, Callable
from typing import Final

from bulkhead.api.syncersettings import LOG_BYTES_PER_SECOND, SESSION_BYTES_PER_SECOND
from bulkhead.work.clock import Clock
from syncer import metrics

# What a stream asks for at once. One that begins waits for a piece of each direction of all others at the most: with as many as
# there may be (`server.STREAMS`) for 2 MiB, which is two seconds at the lowest rate that the settings take. It has to be less
# than `proxy.LINGER_SECONDS`, for which a session goes on whose one end has gone.
PIECE_BYTES: Final = 16 * 1024
# A log as large as kubelets let it become (10 MiB) is read at once, while the allowance is whole.
LOG_BURST: Final = 16 << 20
SESSION_BURST: Final = 64 << 20
# A stream costs a handshake with the host's API server and one of that with the kubelet, and an exec a process of the node's
# runtime, however short it is. With as many as there may be at once, the last one waits for three seconds.
OPENINGS_PER_SECOND: Final = 20.0
OPENING_BURST: Final = 200.0


class Allowance:
    """Bytes that may pass, or streams that may begin: `burst` at once, and `rate` more each second. Time is passed in."""

    def __init__(self, *, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._at = now

    def reserve(self, size: int, now: float) -> float:
        """The seconds to wait before these bytes may pass; they are taken at once, so that the next caller waits longer.

        Callers are served in their order. A caller that has one piece waiting at a time gets as many turns as any other.
        """
        self._refill(now)
        self._left -= size
        return max(0.0, -self._left / self._rate)

    def give_back(self, size: int) -> None:
        """Bytes that were reserved and did not pass: their stream has ended."""
        self._left = min(self._burst, self._left + size)

    def change(self, rate: float, now: float) -> None:
        """Go by another rate from now on."""
        self._refill(now)
        self._rate = rate

    def _refill(self, now: float) -> None:
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now


class Paces:
    """The tenant's allowances."""

    def __init__(self, clock: Clock, *, logs: int = LOG_BYTES_PER_SECOND, sessions: int = SESSION_BYTES_PER_SECOND) -> None:
        """`logs`, `sessions`: bytes a second."""
        now = clock.monotonic()
        self._clock = clock
        self._logs = Allowance(rate=logs, burst=LOG_BURST, now=now)
        self._sessions = Allowance(rate=sessions, burst=SESSION_BURST, now=now)
        self._openings = Allowance(rate=OPENINGS_PER_SECOND, burst=OPENING_BURST, now=now)

    def change(self, *, logs: int, sessions: int) -> None:
        """Go by other rates from now on, in bytes a second; streams that are open go on."""
        now = self._clock.monotonic()
        self._logs.change(logs, now)
        self._sessions.change(sessions, now)

    async def may_open(self) -> None:
        """Wait until one more stream may begin."""
        await self._reserve(self._openings, 1, metrics.KUBELET_THROTTLED.labels("openings").inc)

    def of(self, verb: str) -> Callable[[int], Awaitable[None]]:
        """What a stream awaits before so many of its bytes may pass."""
        allowance, stream = (self._logs, "logs") if verb == "log" else (self._sessions, "sessions")
        passed, throttled = metrics.KUBELET_BYTES.labels(stream), metrics.KUBELET_THROTTLED.labels(stream).inc

        async def may_pass(size: int) -> None:
            await self._reserve(allowance, size, throttled)
            passed.inc(size)

        return may_pass

    async def _reserve(self, allowance: Allowance, size: int, throttled: Callable[[float], None]) -> None:
        wait = allowance.reserve(size, self._clock.monotonic())
        if wait > 0:
            throttled(wait)
            try:
                await self._clock.sleep(wait)
            except BaseException:
                # Streams that are opened and left at once would make those wait that stay.
                allowance.give_back(size)
                raise
