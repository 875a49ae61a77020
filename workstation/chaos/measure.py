"""Starts the prober, keeps the samples that it prints, and hands it the credentials that a client gets meanwhile."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.untrusted import mapping, text
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from workstation.chaos import prober
from workstation.chaos.judge import Sample

# Ten requests a second to each API.
PERIOD_SECONDS: Final = 0.1
_MAX_SAMPLES: Final = 1_000_000
_LINE_BYTES: Final = 64 * 1024
_END_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.05
# How long after its time the end of a request may be read.
_LATE_SECONDS: Final = 2.0
# How late the prober may use former credentials; they are renewed a minute before their end.
_RENEWAL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Api:
    """An API to measure: whose it is, a client of it, and the ConfigMap to read; `writes` says whether that may be written."""

    subject: str
    client: Client
    namespace: str
    config_map: str
    writes: bool
    # A request that takes longer counts as failed.
    seconds: float = 5.0


class Samples:
    """Everything that the prober has measured so far."""

    def __init__(self) -> None:
        self.found: list[Sample] = []
        # Why there are no more; empty while the prober runs.
        self.broken = ""
        # Requests that have begun and not ended: the moment, and the subject.
        self._open: set[tuple[float, str]] = set()

    def add(self, line: bytes) -> None:
        """Keep one line of the prober; other text is ignored."""
        try:
            found = mapping(json.loads(line))
            at, subject = float(found["at"]), text(found["subject"])
            if "seconds" not in found:
                if len(self._open) < _MAX_SAMPLES:
                    self._open.add((at, subject))
                return
            sample = Sample(at, subject, float(found["seconds"]), text(found["error"]), write=found.get("write") is True)
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        self._open.discard((at, subject))
        if len(self.found) < _MAX_SAMPLES:
            self.found.append(sample)

    async def answered(self, end: float, seconds: float) -> None:
        """Wait until all requests that began by `end` have ended, each of which may take `seconds`.

        A server that hangs at the end of a fault has answered nothing, so no sample shows it before. A request that has not
        ended then has failed.
        """
        deadline = end + seconds + _LATE_SECONDS
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            waiting = sorted(begun for begun in self._open if begun[0] <= end)
            if self.broken or not waiting:
                return
            if now() >= deadline:
                break
        for at, subject in waiting:
            self._open.discard((at, subject))
            self.found.append(Sample(at, subject, now() - at, "it was not answered"))


@contextlib.asynccontextmanager
async def measuring(apis: Sequence[Api], *, period: float = PERIOD_SECONDS) -> AsyncIterator[Samples]:
    """Measure these APIs for the duration of a block: one request each in every `period`, in seconds."""
    samples = Samples()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        prober.__name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LINE_BYTES,
        # Ctrl-C is for the run, which decides when the measuring ends.
        start_new_session=True,
    )
    reading = asyncio.create_task(_read(process, samples))
    try:
        assert process.stdin is not None  # noqa: S101 - it was asked for
        sent = [api.client.config for api in apis]
        process.stdin.write(json.dumps(_order(apis, period)).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await process.stdin.drain()
        renewing = asyncio.create_task(_renew(process.stdin, apis, sent))
        try:
            yield samples
        finally:
            renewing.cancel()
    finally:
        await asyncio.shield(asyncio.ensure_future(_end(process, reading)))


def _order(apis: Sequence[Api], period: float) -> Mapping[str, Any]:
    each = [
        {
            "subject": api.subject,
            "namespace": api.namespace,
            "configMap": api.config_map,
            "writes": api.writes,
            "seconds": api.seconds,
            "config": prober.encode(api.client.config),
        }
        for api in apis
    ]
    return {"period": period, "apis": each}


async def _renew(stdin: asyncio.StreamWriter, apis: Sequence[Api], sent: list[KubeConfig]) -> None:
    """Send the prober each configuration that is another than the one it has."""
    while True:
        await asyncio.sleep(_RENEWAL_SECONDS)
        for place, api in enumerate(apis):
            config = api.client.config
            if config is not sent[place]:
                sent[place] = config
                stdin.write(json.dumps({"place": place, "config": prober.encode(config)}).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await stdin.drain()


async def _read(process: asyncio.subprocess.Process, samples: Samples) -> None:
    assert process.stdout is not None  # noqa: S101 - it was asked for
    while line := await process.stdout.readline():
        samples.add(line)
    samples.broken = "the prober has ended"


async def _end(process: asyncio.subprocess.Process, reading: "asyncio.Task[None]") -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    reading.cancel()
    await asyncio.wait([reading])


def now() -> float:
    """The clock of samples, which all processes of a machine share."""
    return time.monotonic()
