"""OpenTelemetry's own Collector takes what the sender sends, and reads in it what was meant."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.tracing import podway, sending
from bulkhead.tracing.podway import PodNames, PodTimes
from bulkhead.tracing.sending import Sender
from bulkhead.work.clock import SystemClock
from tests.kit.background import background
from tests.kit.ports import free_port
from tests.kit.syncerbed import until
from workstation.hostcluster import binaries

HOW_TO_BUILD = "python -m workstation.hostcluster.binaries otelcol"
pytestmark = pytest.mark.skipif(not binaries.is_there("otelcol"), reason=f"the Collector is not built here: {HOW_TO_BUILD}")


class RealCollector:
    """The process, and the log in which it writes each span in full."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.log = folder / "log"
        self.config = folder / "config.yaml"
        receiver = {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{self.port}"}}}}
        service = {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["debug"]}},
        }
        exporter = {"debug": {"verbosity": "detailed"}}
        self.config.write_text(json.dumps({"receivers": receiver, "exporters": exporter, "service": service}))

    def written(self) -> str:
        return self.log.read_text(errors="replace")

    def spans(self) -> list[dict[str, str]]:
        """Each span's fields by their titles in the log, and its attributes by their keys."""
        found = []
        for part in re.split(r"Span #\d+", self.written())[1:]:
            fields = dict(re.findall(r"^ +([A-Z][A-Za-z ]+?) +: ?(\S*)$", part, re.MULTILINE))
            found.append(fields | dict(re.findall(r"-> (\S+): Str\((.*)\)", part)))
        return found


@pytest.fixture
async def collector(tmp_path: Path) -> AsyncIterator[RealCollector]:
    made = RealCollector(tmp_path)
    with made.log.open("wb") as log:
        program = binaries.ensure("otelcol")["otelcol"]
        process = await asyncio.create_subprocess_exec(program, f"--config={made.config}", stdout=log, stderr=log)
    try:

        async def ready() -> bool:
            assert process.returncode is None, made.written()
            return "Everything is ready" in made.written()

        await until(ready, "the Collector listens")
        yield made
    finally:
        process.terminate()
        await process.wait()


async def test_the_collector_of_opentelemetry_reads_a_pods_way(
    collector: RealCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "GATHER_SECONDS", 0.05)
    names = PodNames("red", "team", "train-0", "uid-1", node="gpu-1")
    times = PodTimes(created=1e9, mirrored=1e9 + 1, scheduled=1e9 + 2, started=1e9 + 3, seen=1e9 + 0.25)
    spans = podway.arrived(names, times, "Running", 1e9 + 4.5)
    counts: dict[str, int] = {}
    url = f"http://127.0.0.1:{collector.port}"
    sender = Sender(url, {"service.name": "bulkhead-syncer"}, SystemClock(), counts.__setitem__)
    async with background(sender.run()):
        sender.offer(spans)

        async def sent() -> bool:
            return counts == {"sent": len(spans)}

        await until(sent, f"the Collector takes them: {counts}")

        async def shown() -> bool:
            return len(collector.spans()) == len(spans)

        await until(shown, "all spans in its log")
    read = collector.spans()
    assert [span["Name"] for span in read] == [span.name for span in spans]
    assert {span["Trace ID"] for span in read} == {spans[0].trace.hex()}
    assert [span["ID"] for span in read] == [span.span.hex() for span in spans]
    assert [span["Parent ID"] for span in read] == [span.parent.hex() for span in spans]
    assert "service.name: Str(bulkhead-syncer)" in collector.written()
    assert (read[0]["k8s.pod.name"], read[0]["k8s.node.name"], read[0]["bulkhead.tenant"]) == ("train-0", "gpu-1", "red")
    assert "2001-09-09 01:46:44.5 +0000 UTC" in collector.written(), "1e9 + 4.5 seconds since 1970"
