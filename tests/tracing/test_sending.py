"""Spans on their way to a collector: one that answers, and ones that are away, slow or hostile, which cost nothing."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping

import pytest

from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.tracing import sending
from bulkhead.tracing.sending import MAX_BATCH_SPANS, MAX_QUEUED_SPANS, Sender
from bulkhead.tracing.spans import Span, span_of, trace_of
from bulkhead.work.clock import SystemClock
from tests.kit.background import background
from tests.kit.collector import Collector
from tests.kit.hostileserver import Answer, endless, fixed, http, serving, silent, slow
from tests.kit.ports import free_port
from tests.kit.syncerbed import until


def span(number: int = 0, **more: str) -> Span:
    trace = trace_of("test", str(number))
    attributes: Mapping[str, str | int | bool] = {"bulkhead.tenant": "red", "count": number, "whole": True, **more}
    return Span("pod", trace, span_of(trace, "pod"), 1.5, 2.25, attributes=attributes)


class Sending:
    """A sender and what it counted."""

    def __init__(self, url: str) -> None:
        self.counts: Counter[str] = Counter()
        self.sender = Sender(url, {"service.name": "bulkhead-syncer"}, SystemClock(), self._count)

    def _count(self, result: str, number: int) -> None:
        self.counts[result] += number

    async def counted(self, **wanted: int) -> None:
        async def so() -> bool:
            return self.counts == wanted

        await until(so, f"{wanted}, not {self.counts}", 30)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(sending, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(sending, "_PAUSE_SECONDS", (0.01, 0.05))


async def test_spans_arrive_as_they_were_decided() -> None:
    async with Collector.open() as collector:
        world = Sending(collector.url)
        async with background(world.sender.run()):
            world.sender.offer([span(1, weird="\ud800 \x00"), span(2)])
            await world.counted(sent=2)
        first, second = collector.spans
        assert (first.service, first.name, first.start, first.end) == ("bulkhead-syncer", "pod", 1.5, 2.25)
        assert first.trace == trace_of("test", "1")
        assert first.attributes == {"bulkhead.tenant": "red", "count": 1, "whole": True, "weird": "? ?"}
        assert not second.failed


async def test_a_collector_that_comes_back_gets_what_waited() -> None:
    async with Collector.open(status=503) as collector:
        world = Sending(collector.url)
        async with background(world.sender.run()):
            world.sender.offer([span(number) for number in range(MAX_BATCH_SPANS + 1)])

            async def asked() -> bool:
                return collector.requests > 2

            await until(asked, "tried again")
            assert not world.counts
            collector.status = 200
            await world.counted(sent=MAX_BATCH_SPANS + 1)
        assert len({got.trace for got in collector.spans}) == MAX_BATCH_SPANS + 1


async def test_what_a_collector_refuses_is_dropped_and_counted() -> None:
    async with Collector.open(status=400) as collector:
        world = Sending(collector.url)
        async with background(world.sender.run()):
            world.sender.offer([span()])
            await world.counted(dropped=1)
            collector.status = 200
            world.sender.offer([span(1)])
            await world.counted(dropped=1, sent=1)


async def test_what_waits_at_the_end_is_sent() -> None:
    async with Collector.open() as collector:
        world = Sending(collector.url)
        task = asyncio.create_task(world.sender.run())
        await asyncio.sleep(0)
        world.sender.offer([span()])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(collector.spans) == 1


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n"
HOSTILE: dict[str, Answer] = {
    "silent": silent(),
    "half an answer": silent(_HEAD),
    "a byte at a time": slow(_HEAD + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000),
    "an endless body": endless(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n"),
    "endless headers": endless(b"HTTP/1.1 200 OK\r\n", b"x: " + b"y" * 60_000 + b"\r\n"),
    "a body beyond the bound": fixed(http("200 OK", b"x" * 1_000_000)),
    "a redirect": fixed(http("307 Temporary Redirect", b"", "Location: http://127.0.0.1:1/secrets")),
    "garbage": fixed(b"\x00\xff" * 5000),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_collector_costs_a_bounded_queue_and_no_time_of_the_process_that_offers(kind: str) -> None:
    async with serving(HOSTILE[kind]) as config:
        await _costs_nothing(config)


async def test_a_collector_that_is_away_costs_no_more() -> None:
    await _costs_nothing(KubeConfig(server=f"http://127.0.0.1:{free_port()}"))


async def _costs_nothing(config: KubeConfig) -> None:
    world = Sending(config.server)
    many = [span(number) for number in range(100)]
    async with background(world.sender.run()) as task:
        begun = time.process_time()
        for _ in range(MAX_QUEUED_SPANS // 100 + 20):
            world.sender.offer(many)
        took = time.process_time() - begun
        await asyncio.sleep(1.5)  # so that it tries, and tries again
        assert not task.done()
        dropped = (MAX_QUEUED_SPANS // 100 + 20) * 100 - MAX_QUEUED_SPANS
        assert world.counts == {"dropped": dropped}
        assert len(world.sender._queue) == MAX_QUEUED_SPANS
    assert took < 0.5, "the process that offers must not pay for it"
