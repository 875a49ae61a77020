"""OpenTelemetry's own Collector for tests: takes OTLP over HTTP, and writes what came into a file, which is read back here.

    with running(folder) as collector: ...    collector.url; collector.spans; collector.of(trace)

It is had by `python -m workstation.hostcluster.binaries otelcol`. `Got` and `of` are those of the played collector
(`tests/kit/collector.py`), so one test can ask either.
"""

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit import started
from tests.kit.collector import Got, by_name
from tests.kit.ports import free_port
from workstation.hostcluster import binaries


@dataclass
class Otelcol:
    """A running Collector."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "otelcol.log").read_text(errors="replace")

    @property
    def spans(self) -> list[Got]:
        """What it has written so far."""
        path = self.folder / "traces.jsonl"
        text = path.read_text() if path.exists() else ""
        # The last line may not be whole yet.
        return [span for line in text.split("\n")[:-1] for span in written(json.loads(line), line)]

    def of(self, trace: bytes) -> dict[str, Got]:
        """The spans of a trace by name, in the order of their start."""
        return by_name(self.spans, trace)

    def listens(self) -> bool:
        """Whether it takes connections. Raises OSError otherwise."""
        socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
        return True


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Otelcol]:
    """Start it, and wait until it listens."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(json.dumps(_config(port, folder)))
    command = [str(binaries.ensure("otelcol")["otelcol"]), "--config", str(folder / "config.yaml")]
    with (folder / "otelcol.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        collector = Otelcol(port, folder, process)
        started.wait("the Collector", collector.process, folder / "otelcol.log", collector.listens, port=port)
        yield collector
    finally:
        process.terminate()
        process.wait()


def _config(port: int, folder: Path) -> dict[str, Any]:
    return {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "processors": {"batch": {"timeout": "100ms"}},
        "exporters": {"file": {"path": str(folder / "traces.jsonl"), "flush_interval": "100ms"}},
        "service": {
            # Its own figures would take a port of the machine.
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "processors": ["batch"], "exporters": ["file"]}},
        },
    }


def written(request: dict[str, Any], raw: str) -> list[Got]:
    """The spans of one line of the file: OTLP as JSON, with ids in hexadecimal and times as texts."""
    return [
        Got(
            service=_attributes(group["resource"]["attributes"])["service.name"],
            name=span["name"],
            trace=bytes.fromhex(span["traceId"]),
            span=bytes.fromhex(span["spanId"]),
            parent=bytes.fromhex(span.get("parentSpanId", "")),
            start=int(span["startTimeUnixNano"]) / 1e9,
            end=int(span["endTimeUnixNano"]) / 1e9,
            attributes=_attributes(span.get("attributes", [])),
            failed=span.get("status", {}).get("code") == 2,
            raw=raw.encode(),
        )
        for group in request["resourceSpans"]
        for scope in group["scopeSpans"]
        for span in scope["spans"]
    ]


def _attributes(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in pairs}
