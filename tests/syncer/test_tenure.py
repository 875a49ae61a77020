"""Work waits while the host gives no answer about the own pod, or answers that it ends; and for no other reason."""

import asyncio

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Forbidden, KubeError, NotFound, NotServed, Throttled, Timeout, Unauthorized, Unavailable
from syncer import metrics
from syncer.tenure import ASK_SECONDS, SILENCE_SECONDS, Tenure
from tests.kit.fakeclock import FakeClock

POD = {"metadata": {"name": "syncer-a", "uid": "u1"}}


class Host:
    """Answers with a pod, or with an error."""

    def __init__(self) -> None:
        self.answer: Obj | KubeError = POD
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()

    async def get(self, _kind: object, name: str, namespace: str) -> Obj:
        assert (name, namespace) == ("syncer-a", "bh-red")
        self.asked += 1
        await self.open.wait()
        if isinstance(self.answer, KubeError):
            raise self.answer
        return self.answer


class Bench:
    """A tenure, the host's answers, and the clock."""

    def __init__(self, pod: str = "syncer-a", clock: FakeClock | None = None) -> None:
        self.clock, self.host = clock or FakeClock(), Host()
        self.tenure = Tenure(self.host, "bh-red", pod, self.clock)  # type: ignore[arg-type]
        self._task = asyncio.create_task(self.tenure.run())

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def pass_by(self, seconds: float) -> None:
        """Let time pass in steps of a second, and everything that is due happen."""
        await self.settle()
        for _ in range(int(seconds)):
            self.clock.advance(1)
            await self.settle()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_work_goes_on_while_the_host_knows_the_pod() -> None:
    bench = Bench()
    await bench.pass_by(10 * SILENCE_SECONDS)
    assert bench.tenure.suspended() == ""
    # One small read each ten seconds, whatever happens.
    assert bench.host.asked <= 10 * SILENCE_SECONDS / ASK_SECONDS + 1
    await bench.stop()


@pytest.mark.parametrize(
    "silent",
    [
        Unavailable(0, "Unreachable", "no route"),
        Unavailable(503, "ServiceUnavailable", "not now"),
        Unauthorized(401, "Unauthorized", "Unauthorized"),
        Throttled(429, "TooManyRequests", "later"),
        NotServed(404, "", "HTTP 404"),
        Timeout("15 s"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_without_a_word_of_the_host_work_waits_before_a_successor_can_run(silent: KubeError) -> None:
    bench = Bench()
    await bench.pass_by(SILENCE_SECONDS)
    bench.host.answer = silent
    await bench.pass_by(SILENCE_SECONDS - ASK_SECONDS)
    assert bench.tenure.suspended() == ""  # a moment without an API stops nothing
    await bench.pass_by(ASK_SECONDS + 1)
    assert "45 s" in bench.tenure.suspended()
    # Kubernetes notices the silence of a node after 50 s (40 s before 1.32); its successor starts 30 s later.
    assert SILENCE_SECONDS + 1 < 40 + 30

    waiting = asyncio.create_task(bench.tenure.granted())
    await bench.pass_by(2 * SILENCE_SECONDS)
    assert not waiting.done()
    assert metrics.REGISTRY.get_sample_value("bulkhead_syncer_suspended") == 1
    bench.host.answer = POD
    bench.tenure.ask_now()
    await bench.pass_by(1)
    assert waiting.done()
    assert metrics.REGISTRY.get_sample_value("bulkhead_syncer_suspended") == 0
    await bench.stop()


@pytest.mark.parametrize(
    "over",
    [
        {"metadata": POD["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": POD["metadata"] | {"uid": "u2"}},
        NotFound(404, "NotFound", "gone"),
    ],
    ids=["marked", "replaced", "gone"],
)
async def test_a_pod_that_ends_works_no_more(over: Obj | KubeError) -> None:
    bench = Bench()
    await bench.pass_by(1)
    bench.host.answer = over
    await bench.pass_by(ASK_SECONDS)
    assert "syncer-a of this syncer" in bench.tenure.suspended()
    # Nor once the host is silent, as it is to the token of a pod that is gone.
    bench.host.answer = Unauthorized(401, "Unauthorized", "Unauthorized")
    await bench.pass_by(ASK_SECONDS)
    assert "syncer-a of this syncer" in bench.tenure.suspended()
    await bench.stop()


async def test_a_refusal_by_a_server_that_knows_the_syncer_stops_nothing() -> None:
    bench = Bench()
    bench.host.answer = Forbidden(403, "Forbidden", "may not read pods")
    await bench.pass_by(10 * SILENCE_SECONDS)
    assert bench.tenure.suspended() == ""
    await bench.stop()


async def test_a_process_that_stood_still_asks_before_it_works() -> None:
    bench = Bench()
    await bench.pass_by(1)
    bench.clock.advance(SILENCE_SECONDS + 1)
    assert bench.tenure.suspended()
    await bench.settle()
    assert bench.tenure.suspended() == ""
    await bench.stop()


class SleepyClock(FakeClock):
    """The clock of a machine that was suspended for a while, in which its monotonic time stood still."""

    suspended = 0.0

    def elapsed(self) -> float:
        return super().elapsed() + self.suspended


async def test_a_process_whose_machine_was_suspended_asks_before_it_works() -> None:
    clock = SleepyClock()
    bench = Bench(clock=clock)
    await bench.pass_by(1)
    clock.suspended = SILENCE_SECONDS + 1
    assert bench.tenure.suspended()
    await bench.pass_by(ASK_SECONDS)
    assert bench.tenure.suspended() == ""
    await bench.stop()


async def test_an_answer_counts_from_when_it_was_asked_for() -> None:
    bench = Bench()
    await bench.pass_by(1)
    bench.host.open.clear()
    await bench.pass_by(ASK_SECONDS)
    bench.clock.advance(SILENCE_SECONDS + 1)
    bench.host.open.set()
    await bench.settle()
    assert bench.tenure.suspended()
    await bench.pass_by(ASK_SECONDS)
    assert bench.tenure.suspended() == ""
    await bench.stop()


async def test_outside_of_a_pod_work_never_waits() -> None:
    tenure = Tenure(Host(), "bh-red", "", clock := FakeClock())  # type: ignore[arg-type]
    clock.advance(10 * SILENCE_SECONDS)
    assert not tenure.applies
    await tenure.granted()
