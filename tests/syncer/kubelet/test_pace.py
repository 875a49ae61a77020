"""How many bytes pass in which time, with time passed in."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.syncersettings import LOG_BYTES_PER_SECOND
from bulkhead.kube.proxy import LINGER_SECONDS
from syncer import metrics
from syncer.kubelet import pace, server
from syncer.kubelet.pace import LOG_BURST, PIECE_BYTES, Allowance, Paces
from syncer.settings import Settings
from tests.kit.fakeclock import FakeClock
from tests.kit.syncersettings import settings_for

MIB = 1 << 20


def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    allowance = Allowance(rate=4 * MIB, burst=16 * MIB, now=0)
    assert allowance.reserve(16 * MIB, 0) == 0
    assert allowance.reserve(2 * MIB, 0) == 0.5
    assert allowance.reserve(2 * MIB, 0) == 1.0, "after the one before"
    assert allowance.reserve(MIB, 1) == 0.25
    assert allowance.reserve(16 * MIB, 1000) == 0, "whole again, and not more than that"
    assert allowance.reserve(MIB, 1000) == 0.25


def test_another_rate_counts_from_then_on() -> None:
    allowance = Allowance(rate=MIB, burst=MIB, now=0)
    assert allowance.reserve(3 * MIB, 0) == 2
    allowance.change(4 * MIB, 1)
    assert allowance.reserve(MIB, 1) == 0.5


@given(st.lists(st.tuples(st.integers(1, PIECE_BYTES), st.floats(0, 2)), max_size=80), st.integers(1, 64) | st.just(1024))
def test_never_more_than_the_burst_and_the_rate_have_passed(asked: list[tuple[int, float]], kib: int) -> None:
    allowance = Allowance(rate=kib * 1024, burst=PIECE_BYTES, now=0)
    now, passes = 0.0, []
    for size, pause in asked:
        now += pause
        passes.append((now + allowance.reserve(size, now), size))
    for number, (end, _) in enumerate(passes):
        passed = sum(size for at, size in passes[: number + 1] if at <= end)
        assert passed <= PIECE_BYTES + end * kib * 1024 + 1
    assert [at for at, _ in passes] == sorted(at for at, _ in passes), "each waits for those before it"


async def test_streams_that_are_left_while_they_wait_make_no_other_wait() -> None:
    clock = FakeClock()
    may_pass = Paces(clock).of("log")
    await may_pass(LOG_BURST)
    for _ in range(1000):
        left = asyncio.create_task(may_pass(PIECE_BYTES))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
    stays = asyncio.create_task(may_pass(PIECE_BYTES))
    await asyncio.sleep(0)
    assert not stays.done(), "the burst is used up"
    clock.advance(PIECE_BYTES / LOG_BYTES_PER_SECOND + 0.001)
    for _ in range(8):
        await asyncio.sleep(0)
    assert stays.done()
    await stays


@pytest.mark.parametrize("pieces", [1, 2])
async def test_a_short_log_beside_as_many_floods_as_there_may_be_waits_less_than_a_second(pieces: int) -> None:
    clock = FakeClock()
    paces = Paces(clock)
    ended: list[float] = []

    async def flood() -> None:
        may_pass = paces.of("log")
        while True:
            await may_pass(PIECE_BYTES)
            await asyncio.sleep(0)

    async def short() -> None:
        may_pass = paces.of("log")
        for _ in range(pieces):
            await may_pass(PIECE_BYTES)
        ended.append(clock.monotonic())

    async def rest() -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    # The floods have used up what may pass at once, and wait.
    paces._logs.reserve(LOG_BURST, clock.monotonic())
    floods = [asyncio.create_task(flood()) for _ in range(server.STREAMS - 1)]
    await rest()
    assert clock.sleepers == len(floods)
    began = clock.monotonic()
    task = asyncio.create_task(short())
    while not ended:
        await rest()
        clock.advance(PIECE_BYTES / LOG_BYTES_PER_SECOND)
    for other in (task, *floods):
        other.cancel()
    assert ended[0] - began < 0.3 * pieces


async def test_logs_and_sessions_have_allowances_of_their_own_and_are_counted() -> None:
    clock = FakeClock()
    paces = Paces(clock)
    passed, throttled = (metric.labels("logs")._value for metric in (metrics.KUBELET_BYTES, metrics.KUBELET_THROTTLED))
    before = passed.get(), throttled.get()
    await paces.of("log")(LOG_BURST)
    late = asyncio.ensure_future(paces.of("log")(LOG_BYTES_PER_SECOND))
    await asyncio.sleep(0)
    for verb in ("exec", "attach", "portforward"):
        await paces.of(verb)(PIECE_BYTES)
    assert not late.done()
    assert throttled.get() - before[1] == 1.0
    clock.advance(1.0)
    await late
    assert passed.get() - before[0] == LOG_BURST + LOG_BYTES_PER_SECOND


def test_the_lowest_rate_lets_a_session_whose_end_has_gone_end_whole() -> None:
    """It waits for a piece of both directions of every stream."""
    least = 1 << 20
    assert settings_for("a", sessionBytesPerSecond=least).session_bytes_per_second == least
    with pytest.raises(Exception, match="sessionBytesPerSecond"):
        settings_for("a", sessionBytesPerSecond=least - 1)
    assert 2 * server.STREAMS * pace.PIECE_BYTES / least < LINGER_SECONDS
    assert {"log_bytes_per_second", "session_bytes_per_second"} <= set(Settings.__struct_fields__)


async def test_streams_begin_no_faster_than_the_host_should_pay_for() -> None:
    """Each costs handshakes and perhaps a process on a node, however short it is; those that are left at once cost no turn."""
    clock = FakeClock()
    paces = Paces(clock)
    for _ in range(round(pace.OPENING_BURST)):
        await paces.may_open()
    waiting = [asyncio.create_task(paces.may_open()) for _ in range(server.STREAMS)]
    await asyncio.sleep(0)
    for left in waiting[::2]:
        left.cancel()
    await asyncio.gather(*waiting[::2], return_exceptions=True)
    stay, begun = waiting[1::2], []
    for _ in range(round(server.STREAMS / pace.OPENINGS_PER_SECOND * 10) + 1):
        clock.advance(0.1)
        for _ in range(8):
            await asyncio.sleep(0)
        begun.append(sum(task.done() for task in stay))
    assert all(now - before <= pace.OPENINGS_PER_SECOND / 10 for before, now in itertools.pairwise(begun))
    assert begun[-1] == len(stay), "with as many as there may be, the last one waits for three seconds"
    assert clock.monotonic() > 3
    late = asyncio.create_task(paces.may_open())
    await asyncio.sleep(0)
    assert late.done(), "the one that left gave its turn back"
