"""Traces in OpenTelemetry's format, off by default (docs/traces.md): what a span is, and how spans leave the process.

    spans, podway (pure) ──> sending (a bounded queue, one connection) ──> encoding (OpenTelemetry's protobuf) ──> collector

`encoding` is the only module that imports OpenTelemetry, and only a process that sends spans imports `encoding`.
"""
