"""A tenant that asks for metrics in a loop keeps its own syncer from its work for a fifth of the time at the most."""

import asyncio

import pytest

from syncer.http1 import BadRequestError
from syncer.kubelet.lastpages import KEPT_BYTES, KEPT_SECONDS, LastPages
from syncer.kubelet.routes import NodePage
from syncer.kubelet.turns import REST, Turns
from tests.kit.fakeclock import FakeClock


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_what_takes_long_is_followed_by_four_times_as_long_without_any() -> None:
    clock = FakeClock()
    turns, made = Turns(clock), list[float]()

    def slow() -> float:
        made.append(clock.monotonic())
        clock.advance(0.1)
        return 0.0

    tasks = [asyncio.create_task(turns.make(slow)) for _ in range(20)]
    await settled()
    assert len(made) == 1
    for number in range(2, 21):
        clock.advance(0.1 * REST * 0.9)
        await settled()
        assert len(made) == number - 1
        clock.advance(0.1 * REST * 0.1 + 0.001)
        await settled()
        assert len(made) == number
    await asyncio.gather(*tasks)


async def test_what_fails_counts_too_and_one_that_left_holds_no_turn() -> None:
    clock = FakeClock()
    turns = Turns(clock)

    def failing() -> None:
        clock.advance(1.0)
        raise BadRequestError(503, "away")

    with pytest.raises(BadRequestError, match="away"):
        await turns.make(failing)
    left, stays = asyncio.create_task(turns.make(lambda: 1)), asyncio.create_task(turns.make(lambda: 2))
    await settled()
    left.cancel()
    await settled()
    assert not stays.done()
    clock.advance(REST)
    assert await stays == 2


async def test_a_caller_whose_turn_does_not_come_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncer.kubelet.turns._WAIT_SECONDS", 0.01)
    clock = FakeClock()
    turns = Turns(clock)
    await turns.make(lambda: clock.advance(5.0))
    with pytest.raises(BadRequestError, match="ask less often") as refused:
        await turns.make(lambda: None)
    assert refused.value.status == 503


class Pages:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.made: list[tuple[NodePage, str]] = []
        self.size, self.error, self.at_work, self.most = 10, "", 0, 0
        self.last = LastPages(self.make, self.clock)

    async def make(self, about: NodePage, node: str) -> bytes:
        self.made.append((about, node))
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        await settled()
        self.at_work -= 1
        if self.error:
            raise BadRequestError(503, self.error)
        return node.encode().ljust(self.size, b"x")


async def test_many_that_ask_for_a_page_get_one_text_for_five_seconds() -> None:
    pages = Pages()
    texts = await asyncio.gather(*(pages.last.page("cadvisor", node) for node in ("n1", "n2") * 50))
    assert set(texts) == {b"n1xxxxxxxx", b"n2xxxxxxxx"}
    assert sorted(pages.made) == [("cadvisor", "n1"), ("cadvisor", "n2")]
    assert pages.most == 1
    await pages.last.page("resource", "n1")
    assert len(pages.made) == 3
    pages.clock.advance(KEPT_SECONDS)
    await pages.last.page("cadvisor", "n1")
    assert len(pages.made) == 4


async def test_a_refusal_is_not_kept() -> None:
    pages = Pages()
    pages.error = "away"
    with pytest.raises(BadRequestError, match="away"):
        await pages.last.page("gpus", "n1")
    pages.error = ""
    assert await pages.last.page("gpus", "n1") == b"n1xxxxxxxx"


async def test_what_is_kept_is_bounded_in_bytes() -> None:
    pages = Pages()
    pages.size = KEPT_BYTES // 4
    for number in range(50):
        await pages.last.page("", f"n{number}")
    assert pages.last._bytes <= KEPT_BYTES + pages.size
    assert sum(len(text) for _, text in pages.last._kept.values()) == pages.last._bytes
    assert len(pages.last._kept) <= 5
