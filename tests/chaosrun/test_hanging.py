"""A tenant whose API hangs answers nothing, and no sample shows it while it does. It is found all the same. No API server."""

import asyncio
import json
from typing import Any, Final, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from tests.chaosrun.test_probercredentials import OBJECT
from tests.kit.background import background
from tests.kit.hostileserver import http, serving
from tests.kit.syncerbed import until
from workstation.chaos import experiment, judge, measure
from workstation.chaos.experiment import Stage, conduct
from workstation.chaos.experiments import BY_NAME
from workstation.chaos.judge import HOST, Limits, Pods, Proof, State
from workstation.chaos.measure import Api, Samples, measuring
from workstation.chaos.plan import Facts, Order, plan

SECONDS: Final = 1.0
NAME: Final = "webhook-fails"
PLAN: Final = plan(
    Order((NAME,), tenants=2, fault_seconds=0.6, request_seconds=SECONDS), Facts(("standard",), {}, "i"), "chaos-0a1b2c"
)
NEIGHBOUR: Final = "chaos-0a1b2c-2"


async def test_requests_that_hang_at_the_end_of_a_phase_have_failed() -> None:
    hangs = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: bytes) -> None:
        if hangs.is_set():
            await reader.read()
        writer.write(http("200 OK", OBJECT))

    async with serving(answer) as config:
        client = Client(config, user_agent="t", field_manager="t")
        async with measuring([Api("a", client, "default", "probe", writes=False, seconds=SECONDS)], period=0.05) as samples:

            async def measured() -> bool:
                assert not samples.broken
                return len(samples.found) >= 10

            await until(measured, "samples")
            hangs.set()
            begin = measure.now()
            await asyncio.sleep(SECONDS / 2)
            end = measure.now()
            assert "a" not in judge.figures(samples.found, begin, end)
            await samples.answered(end, SECONDS)
            found = judge.figures(samples.found, begin, end)["a"]
    assert (found.requests >= 5, found.errors) == (True, found.requests)


async def test_what_has_not_ended_after_its_time_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_LATE_SECONDS", 0.1)
    samples, begin = Samples(), measure.now()
    for number in range(3):
        samples.add(json.dumps({"subject": "a", "at": begin + number}).encode())
    samples.add(json.dumps({"subject": "a", "at": begin, "seconds": 0.1, "error": ""}).encode())
    await samples.answered(begin + 1, -1.0)
    assert [(sample.at, bool(sample.error)) for sample in samples.found] == [(begin, False), (begin + 1, True)]


class Calm:
    """A fault that breaks nothing."""

    async def inject(self, _: object) -> list[Proof]:
        return [Proof(True, "shown")]

    async def lift(self, _: object) -> None:
        return

    async def recovered(self, _: object) -> str:
        return ""


class Server:
    """A host, a plane, and the journal: they take everything."""

    async def create(self, *_: object) -> Obj:
        return {}

    async def intend(self, *_: object) -> None:
        return


async def test_a_neighbour_that_hangs_from_the_middle_of_a_fault_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answered often enough before: with what had ended alone, the experiment held."""
    monkeypatch.setitem(cast("Any", experiment.FAULTS), NAME, Calm())
    monkeypatch.setattr(experiment, "_SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(judge, "MIN_REQUESTS", 5)

    async def pods(*_: object) -> dict[str, Pods]:
        return {HOST: Pods(0, frozenset())}

    monkeypatch.setattr(experiment.observe, "pods", pods)
    samples, server = Samples(), cast("Any", Server())
    begin = measure.now()

    def ended(at: float, subject: str, error: str = "") -> None:
        samples.add(json.dumps({"subject": subject, "at": at, "seconds": measure.now() - at, "error": error}).encode())

    async def ask() -> None:
        while True:
            at = measure.now()
            for subject in (HOST, NEIGHBOUR):
                samples.add(json.dumps({"subject": subject, "at": at}).encode())
                if subject == HOST or at < begin + 0.8:
                    ended(at, subject)
                else:
                    asyncio.get_running_loop().call_later(SECONDS, ended, at, subject, "no answer within 1 s")
            await asyncio.sleep(0.02)

    async with background(ask()):
        await asyncio.sleep(0.4)
        baseline = (begin, measure.now())
        stage = Stage(server, server, PLAN, "bulkhead-system", Limits(100, 60), server, samples, lambda _: None)
        verdict = (await conduct(stage, BY_NAME[NAME], baseline)).verdict
    assert verdict.state is State.VIOLATED, verdict
    assert any(text.startswith(f"{NEIGHBOUR}: ") and "no answer within 1 s" in text for text in verdict.violations)
