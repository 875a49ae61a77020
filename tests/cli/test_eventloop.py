"""What Ctrl-C does to asyncio's own callbacks is not shown; every other mistake of a callback is."""

import asyncio

import pytest

from workstation.cli import eventloop


async def _sets_twice(*, interrupted: bool) -> None:
    """Wait for a future whose callback finds it done."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    future = loop.create_future()
    future.set_result(None)
    loop.call_soon(future.set_result, None)
    if interrupted and task:
        task.cancel()
    await asyncio.sleep(0)


def test_a_callback_that_an_interruption_overtook_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(asyncio.CancelledError):
        eventloop.run(_sets_twice(interrupted=True))
    assert caplog.text == ""


def test_the_same_mistake_without_an_interruption_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    eventloop.run(_sets_twice(interrupted=False))
    assert "InvalidStateError" in caplog.text


def test_any_other_mistake_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> str:
        asyncio.get_running_loop().call_soon(int, "no number")
        await asyncio.sleep(0)
        return "its result"

    assert eventloop.run(work()) == "its result"
    assert "ValueError" in caplog.text
