"""A task next to a test ends with the test, and does not fail silently."""

import asyncio

import pytest

from tests.kit.background import background


async def test_it_runs_for_as_long_as_the_block_lasts() -> None:
    steps: list[str] = []

    async def main() -> None:
        steps.append("begins")
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("ends")

    async with background(main()) as task:
        await asyncio.sleep(0)
        assert (steps, task.done()) == (["begins"], False)
    assert steps == ["begins", "ends"]


async def test_what_it_failed_with_is_raised_at_the_end() -> None:
    async def main() -> None:
        raise RuntimeError("by itself")

    with pytest.raises(RuntimeError, match="by itself"):
        async with background(main()):
            await asyncio.sleep(0)
