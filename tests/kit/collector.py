"""A collector of traces for tests: takes OTLP over HTTP as a real one does, and decodes requests by OpenTelemetry's messages.

async with Collector.open() as collector: ...    collector.url; collector.spans, as they came; collector.of(trace)
"""

import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from tests.kit.ports import free_port


@dataclass(frozen=True)
class Got:
    """A span as it came."""

    service: str
    name: str
    trace: bytes
    span: bytes
    parent: bytes
    start: float
    end: float
    attributes: dict[str, Any]
    failed: bool
    raw: bytes


@dataclass
class Collector:
    """What came, and how it is answered."""

    port: int = field(default_factory=free_port)
    spans: list[Got] = field(default_factory=list)
    requests: int = 0
    status: int = 200

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, **more: Any) -> AsyncIterator[Self]:
        collector = cls(**more)
        app = web.Application(client_max_size=16 << 20)
        app.router.add_post("/v1/traces", collector._take)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", collector.port).start()
        try:
            yield collector
        finally:
            await runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of(self, trace: bytes) -> dict[str, Got]:
        """The spans of a trace by name, in the order of their start."""
        return by_name(self.spans, trace)

    async def _take(self, request: web.Request) -> web.Response:
        self.requests += 1
        body = await request.read()
        if self.status != 200:
            return web.Response(status=self.status)
        assert request.content_type == "application/x-protobuf"
        self.spans += decoded(body)
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf", status=200
        )


def by_name(spans: Iterable[Got], trace: bytes) -> dict[str, Got]:
    """The spans of a trace by name, in the order of their start."""
    found = sorted((span for span in spans if span.trace == trace), key=lambda span: (span.start, span.end))
    return {span.name: span for span in found}


def decoded(body: bytes) -> list[Got]:
    """The spans of a request."""
    message = ExportTraceServiceRequest.FromString(body)
    return [
        Got(
            service=_attributes(group.resource.attributes)["service.name"],
            name=span.name,
            trace=span.trace_id,
            span=span.span_id,
            parent=span.parent_span_id,
            start=span.start_time_unix_nano / 1e9,
            end=span.end_time_unix_nano / 1e9,
            attributes=_attributes(span.attributes),
            failed=span.status.code == span.status.STATUS_CODE_ERROR,
            raw=span.SerializeToString(),
        )
        for group in message.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
