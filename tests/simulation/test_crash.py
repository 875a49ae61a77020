"""The syncer killed before and after every single API call of a story, and started again with empty memory.

A call before which the process dies never happened; a call after which it dies happened, and its answer is lost. Either way
both sides agree 30 s after the last disturbance, nothing is doubled or orphaned, and then a minute passes without a write.
"""

import pytest

from tests.simulation import stories, virtualtime

_SAMPLE = 6


@pytest.fixture(scope="module")
def calls() -> int:
    """How many calls the story takes when nothing goes wrong."""
    played = virtualtime.run(stories.played)
    assert played.restarts == 0
    assert played.calls > 80
    return played.calls


def crash(number: int, when: str) -> None:
    played = virtualtime.run(lambda: stories.played((number, when)))
    assert played.restarts == 1, f"call {number} was never made"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_sample_of_crashes(calls: int, when: str) -> None:
    for number in range(1 + (when == "after"), calls + 1, _SAMPLE):
        crash(number, when)


@pytest.mark.simulation
@pytest.mark.timeout(900)
@pytest.mark.parametrize("when", ["before", "after"])
def test_every_crash(calls: int, when: str) -> None:
    failed: list[str] = []
    for number in range(1, calls + 1):
        try:
            crash(number, when)
        except AssertionError as error:
            failed.append(f"call {number}: {error}")
    assert not failed, "\n".join(failed)


def test_the_same_seed_is_the_same_run() -> None:
    first, second = (virtualtime.run(stories.traced) for _ in range(2))
    assert first == second


def test_another_seed_is_another_run() -> None:
    assert virtualtime.run(stories.traced) != virtualtime.run(lambda: stories.traced(seed=2))
