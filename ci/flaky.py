"""What is forgiven of tests that failed and passed alone: pure, over the list of those that are known.

One race costs a line in the list. Three in a run, or a second one of a test that is in the list, are no longer chance.
"""

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import yaml

from ci import strictyaml

COUNTED_IN: Final = "BULKHEAD_FLAKES"  # the variable with the file in which all runs of one gate count their flakes
MOST_FLAKES: Final = 2  # a run, over all of the gate's suites
MOST_FAILURES: Final = 10  # more have one cause, and no time is spent on them


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a run."""

    flaky: tuple[str, ...]
    forgiven: tuple[str, ...]
    red: tuple[str, ...]  # why some are not


def listed(text: str) -> frozenset[str]:
    """The tests that are known to be flaky, from the text of the list."""
    return frozenset(_test(entry["test"]) for entry in strictyaml.load(text, "tests/flaky.yaml") or ())


def judge(passed_alone: Sequence[str], known: Collection[str], *, before: int) -> Judged:
    """Of these tests, which failed at first; `before` are the flakes of the same run that other suites had."""
    flaky = tuple(passed_alone)
    if before + len(flaky) > MOST_FLAKES:
        return Judged(flaky, (), (f"{before + len(flaky)} flaky tests in one run, more than {MOST_FLAKES}: none is forgiven",))
    again = [node for node in flaky if _test(node) in known]
    return Judged(
        flaky,
        tuple(node for node in flaky if node not in again),
        tuple(f"{node} is in the list of flaky tests already: fix it" for node in again),
    )


def line(node: str, day: dt.date) -> str:
    """The line to add to the list."""
    entry = {"date": day, "test": _test(node), "cause": "TODO: what raced"}
    return "- " + yaml.safe_dump(entry, default_flow_style=True, width=10_000, sort_keys=False).strip()


def _test(node: str) -> str:
    """The name of a test without its parameters: the race is in its function."""
    return node.partition("[")[0]
