"""Lines of requesters: whose turn it is, whatever one of them files, and that no request is lost or worked on twice at once."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.host.lines import MOST_LINES, Lines
from tests.kit.fakeclock import FakeClock


async def next_of(lines: Lines) -> tuple[str, str]:
    async with asyncio.timeout(60):
        return await lines.take()


async def test_requesters_take_turns_whatever_one_of_them_files() -> None:
    lines = Lines(FakeClock())
    for number in range(200):
        assert lines.add("flood", f"f{number}")
    for name in ("a", "b"):
        assert lines.add("ada", name)
    assert lines.add("bob", "c")
    seen = []
    for _ in range(7):
        requester, name = await next_of(lines)
        seen.append(name)
        lines.done(requester, name)
    assert seen == ["f0", "a", "c", "f1", "b", "f2", "f3"]


async def test_of_one_requester_one_request_is_in_work() -> None:
    lines = Lines(FakeClock())
    for name in ("a", "b"):
        lines.add("flood", name)
    assert await next_of(lines) == ("flood", "a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await lines.take()
    lines.add("ada", "c")
    assert await next_of(lines) == ("ada", "c")
    lines.done("flood", "a")
    assert await next_of(lines) == ("flood", "b")


async def test_one_that_waits_for_its_time_holds_up_nothing_of_its_requester() -> None:
    clock = FakeClock()
    lines = Lines(clock)
    for name in ("a", "b"):
        lines.add("ada", name)
    lines.done(*await next_of(lines), 30.0)
    assert await next_of(lines) == ("ada", "b")
    lines.done("ada", "b")
    assert len(lines) == 1
    clock.advance(30)
    lines.add("ada", "a")  # what changed is looked at, and stands in line once
    assert await next_of(lines) == ("ada", "a")
    lines.done("ada", "a")
    assert len(lines) == 0


async def test_every_number_is_bounded() -> None:
    lines = Lines(FakeClock(), most_in_line=3, most=5)
    assert [lines.add("flood", f"f{number}") for number in range(4)] == [True, True, True, False]
    assert lines.add("flood", "f0"), "one that stands there takes no new place"
    assert [lines.add("ada", f"a{number}") for number in range(3)] == [True, True, False]
    assert len(lines) == 5
    lines = Lines(FakeClock())
    assert sum(lines.add(f"r{number}", "x") for number in range(MOST_LINES + 10)) == MOST_LINES
    assert len(lines) == MOST_LINES
    assert len(lines._lines) == MOST_LINES


STEPS = st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.sampled_from([None, None, 0.0, 5.0]))


@settings(deadline=None)
@given(st.lists(STEPS, max_size=40))
async def test_no_request_is_lost_and_none_is_in_two_hands(steps: list[tuple[str, str, float | None]]) -> None:
    clock = FakeClock()
    lines = Lines(clock)
    waiting: set[tuple[str, str]] = set()
    working: dict[str, str] = {}

    async def take() -> None:
        requester, name = await next_of(lines)
        assert requester not in working
        working[requester] = name
        waiting.remove((requester, name))

    for requester, added, again in steps:
        if again is None:
            assert lines.add(requester, added)
            waiting.add((requester, added))
        elif requester in working:
            lines.done(requester, working[requester], again)
            waiting.add((requester, working.pop(requester)))
        elif len(lines._turns) and not working:
            await take()
    assert len(lines) == len(waiting)
    while waiting or working:
        for requester, name in working.items():
            lines.done(requester, name)
        working.clear()
        clock.advance(10)
        lines._turns.promote()
        if waiting:
            await take()
    assert len(lines) == 0
    assert not lines._lines
