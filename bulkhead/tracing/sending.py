"""Sends spans to a collector by OTLP over HTTP, from a bounded queue. Offering a span never waits, and never fails.

    offer ──> room in the queue? ── no ──> dropped, counted
                  │ yes
                  └─> collected for 2 s ──> one request ──┬─ accepted ──> sent, counted
                                                         ├─ refused (4xx) ──> dropped, counted
                                                         └─ silent, late, failed ──> kept, a longer and longer pause

A collector that is away, slow or hostile costs one connection, a bounded answer and the queue's memory. Redirects are not
followed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

import bulkhead
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, KubeError, Throttled, Unavailable
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.tracing.spans import Span
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock

_log = logging.getLogger(__name__)

PATH: Final = "/v1/traces"
# At most 4 KiB each, usually 0.7: some 1.5 MiB of a syncer while its collector is away.
MAX_QUEUED_SPANS: Final = 2048
MAX_BATCH_SPANS: Final = 256
GATHER_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 5.0
_ANSWER_BYTES: Final = 64 * 1024
_PAUSE_SECONDS: Final = (1.0, 60.0)
_LAST_SECONDS: Final = 2.0

# Called with `sent` or `dropped`, and how many.
Count = Callable[[str, int], None]


class Sender:
    """The queue of one process, and what empties it."""

    def __init__(self, collector: str, resource: Mapping[str, str], clock: Clock, count: Count) -> None:
        """`collector`: `http://HOST:PORT`. `resource`: the attributes of the process, `service.name` among them."""
        self._config = KubeConfig(server=collector)
        self._resource = {**resource, "service.version": bulkhead.__version__}
        self._clock = clock
        self._count = count
        self._queue: deque[Span] = deque()
        self._news = asyncio.Event()
        self._backoff = Backoff(*_PAUSE_SECONDS)
        # What was logged last, so that a collector in trouble is one line and not one for each batch.
        self._silent = False
        self._refused = False

    def offer(self, spans: Iterable[Span]) -> None:
        """Queue spans; those for which there is no room are dropped."""
        offered = tuple(spans)
        room = MAX_QUEUED_SPANS - len(self._queue)
        self._queue.extend(offered[:room])
        if len(offered) > room:
            self._count("dropped", len(offered) - room)
        self._news.set()

    async def run(self) -> None:
        """Send until cancelled; what is queued then is sent if the collector answers at once."""
        async with Client(
            self._config,
            user_agent="bulkhead-tracing",
            field_manager="",
            timeout=ANSWER_SECONDS,
            max_body=_ANSWER_BYTES,
            connections=1,
        ) as client:
            try:
                while True:
                    await self._news.wait()
                    await self._clock.sleep(GATHER_SECONDS)
                    await self._empty(client)
            finally:
                await self._last(client)

    async def _empty(self, client: Client) -> None:
        self._news.clear()
        while self._queue:
            try:
                await self._send(client, ANSWER_SECONDS)
            except KubeError as error:
                if not self._silent:
                    _log.warning("traces: the collector does not take spans, trying again: %s", error)
                self._silent = True
                await self._clock.sleep(self._backoff.next())
            else:
                self._silent = False
                self._backoff.reset()

    async def _send(self, client: Client, seconds: float) -> None:
        """Send the first spans of the queue. Raises for a collector that may take them later."""
        from bulkhead.tracing import encoding  # noqa: PLC0415 -- a process that sends nothing does not load it

        batch = list(islice(self._queue, MAX_BATCH_SPANS))
        body = encoding.encoded(batch, self._resource, bulkhead.__version__)
        refused: ApiError | None = None
        try:
            await client.transport.request("POST", PATH, body=body, content_type=encoding.CONTENT_TYPE, timeout=seconds)
        except (Throttled, Unavailable):
            raise
        except ApiError as error:
            if error.status >= 500:
                raise
            refused = error
        for _ in batch:
            self._queue.popleft()
        self._count("dropped" if refused else "sent", len(batch))
        if refused and not self._refused:
            _log.warning("traces: the collector refuses spans, and they are dropped: %s", refused)
        self._refused = refused is not None

    async def _last(self, client: Client) -> None:
        if not self._queue or self._silent:
            return
        try:
            await self._send(client, _LAST_SECONDS)
        except KubeError as error:
            _log.info("traces: %d spans were not sent at the end: %s", len(self._queue), error)
