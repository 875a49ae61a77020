"""Spans as the body of an OTLP request, by OpenTelemetry's own messages. Only a process that sends spans imports it."""

from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

from bulkhead.tracing.spans import Span, bounded

CONTENT_TYPE: Final = "application/x-protobuf"
_SCOPE: Final = "bulkhead"


def encoded(spans: Iterable[Span], resource: Mapping[str, str], version: str) -> bytes:
    """One request with all spans of one program."""
    scope = ScopeSpans(scope=InstrumentationScope(name=_SCOPE, version=version), spans=[_message(span) for span in spans])
    about = Resource(attributes=_attributes(resource))
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(resource=about, scope_spans=[scope])]).SerializeToString()


def _message(span: Span) -> Message:
    return Message(
        trace_id=span.trace,
        span_id=span.span,
        parent_span_id=span.parent,
        name=span.name,
        kind=Message.SPAN_KIND_INTERNAL,
        start_time_unix_nano=_nanoseconds(span.start),
        end_time_unix_nano=max(_nanoseconds(span.start), _nanoseconds(span.end)),
        attributes=_attributes(span.attributes),
        status=Status(code=Status.STATUS_CODE_ERROR, message=span.failure) if span.failure else None,
    )


def _attributes(attributes: Mapping[str, str | int | bool]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in bounded(attributes).items()]


def _value(value: str | int | bool) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    # A lone surrogate cannot be encoded.
    return AnyValue(string_value=value.encode(errors="replace").decode())


def _nanoseconds(seconds: float) -> int:
    # The field has 64 bits without a sign.
    return min(max(0, round(seconds * 1e9)), (1 << 64) - 1)
