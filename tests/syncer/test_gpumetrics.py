"""How often the program that scrapes GPUs is asked, however often a tenant asks, and what is shown while it does not answer."""

import asyncio
from typing import cast

import pytest

from bulkhead.gpus import fields
from bulkhead.gpus.exposition import Sample, render
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from syncer.gpumetrics import GpuMetrics
from syncer.http1 import BadRequestError
from syncer.kubelet.turns import Turns
from syncer.translate.gpusamples import UID, Mirrored
from tests.kit.fakeclock import FakeClock

OWN = {fields.NAMESPACE: "work", fields.POD: "web-host", fields.HOSTNAME: "n1", UID: "u", "gpu": "0"}


class Source:
    def __init__(self) -> None:
        self.asked = 0
        self.error: KubeError | None = None

    async def get_raw(self, path: str, *, timeout: float) -> bytes:  # noqa: ASYNC109 -- as the client's
        self.asked += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return render([Sample(fields.UTILISATION, OWN, 55)], fields.ABOUT)


class Bench:
    def __init__(self) -> None:
        self.source, self.clock = Source(), FakeClock()
        pod = Mirrored("u", "team", "web", "n1", frozenset({"main"}))
        self.gpus = GpuMetrics(cast("Client", None), "work", self.clock, find={"web-host": pod}.get, turns=Turns(self.clock))
        self.gpus._source = cast("Client", self.source)


async def test_many_pages_ask_once_and_show_own_names() -> None:
    bench = Bench()
    pages = [await bench.gpus.page(node) for node in ("n1", "n2") * 20]
    assert bench.source.asked == 1
    assert b'pod="web"' in pages[0]
    assert b"web-host" not in pages[0]
    assert pages[1] == b""


async def test_a_source_that_does_not_answer_is_asked_as_seldom_and_nothing_old_is_shown() -> None:
    bench = Bench()
    await bench.gpus.page("n1")
    bench.clock.advance(5)
    bench.source.error = KubeError("away")
    for _ in range(20):
        with pytest.raises(BadRequestError, match="cannot be read now"):
            await bench.gpus.page("n1")
    assert bench.source.asked == 2
    bench.source.error = None
    bench.clock.advance(5)
    assert b'pod="web"' in await bench.gpus.page("n1")


async def test_one_that_gives_up_meanwhile_does_not_let_the_source_be_asked_again() -> None:
    bench = Bench()
    left = asyncio.create_task(bench.gpus.page("n1"))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    for _ in range(3):
        with pytest.raises(BadRequestError, match="try again"):
            await bench.gpus.page("n1")
    assert bench.source.asked == 1
    bench.clock.advance(5)
    assert b'pod="web"' in await bench.gpus.page("n1")
