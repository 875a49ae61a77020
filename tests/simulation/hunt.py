"""Searches for a fault in whatever `syncer` and `bulkhead` it imports: the stories, some crashes, some storms, in that order.

Prints what it found and exits with 1. `python -m tests.simulation.hunt [STORY...]` plays some of the stories alone, and
`--first PLAY` begins with what is known to find a bug. Run by `test_seeded` over copies of the code with a seeded bug in them.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial

import syncer
from tests.simulation import mishaps, stories, storms, virtualtime

_CRASHES = 12
_STORMS = 12
_GATED = 6


def plays(names: list[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is played, cheapest first."""
    for name in names or mishaps.STORIES:
        yield name, partial(mishaps.play, name)
    if names:
        return
    yield "life of a pod", lambda: virtualtime.run(stories.played)
    for number in range(1, 140, _CRASHES):
        yield f"crash after call {number}", partial(virtualtime.run, partial(stories.played, (number, "after")))
    for seed in range(_STORMS):
        yield f"storm {seed}", partial(virtualtime.run, partial(storms.rage, seed))
    for seed in range(_GATED):
        yield f"gated storm {seed}", partial(virtualtime.run, partial(storms.rage, seed, gated=True))


def hunt(names: list[str], first: str = "") -> str:
    """What was found, or an empty text."""
    for what, play in sorted(plays(names), key=lambda one: one[0] != first):
        try:
            play()
        except AssertionError as error:
            return f"{what}: {str(error) or 'assertion failed'}"
    return ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("stories", nargs="*")
    parser.add_argument("--first", default="")
    asked = parser.parse_args()
    found = hunt(asked.stories, asked.first)
    print(f"{syncer.__file__}\n{found[:500] or 'nothing found'}")  # noqa: T201
    sys.exit(1 if found else 0)
