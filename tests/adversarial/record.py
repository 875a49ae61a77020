"""A pytest plugin: what a run has shown of each row, as `build/adversarial.json`; `make adversarial` loads it.

    {"A1": {"rules alone": {"inputs": 3, "ignored": 0, "passed": 3, "failed": 0, "decided_by": {...: 3}}, ...}, ...}

An input is one case at one operation, or one set of parameters of a test that a row names. `decided_by` names the
component that refused it. An attack that an API server ignores shows no check at work: it is an input, and has not passed.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.adversarial import rows
from tests.adversarial.cases import IGNORED

FILE: Final = Path("build/adversarial.json")
DECIDED_BY: Final = "decided_by"


@dataclass(frozen=True, slots=True)
class Seen:
    """One test that has run."""

    node: str  # path::name[parameters]
    passed: bool
    decided_by: tuple[object, ...] = ()  # a word for one input; of a test that tries all cases a mapping from case to word


class Recorder:
    """Collects what each process reports."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One report: of the test itself, or of a fixture that failed."""
        if report.when == "call" or report.failed:
            noted = tuple(value for name, value in report.user_properties if name == DECIDED_BY)
            self.seen.append(Seen(report.nodeid, report.passed, noted))

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(json.dumps(summary(self.seen), indent=1) + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Record in the process that receives all reports."""
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.pluginmanager.register(Recorder())


def summary(seen: Iterable[Seen]) -> dict[str, dict[str, Any]]:
    """By row and level, what was shown; a level of which nothing ran is left out."""
    seen = tuple(seen)
    levels = {level: rows.LEVELS[level] for level in rows.HERE_RUN}
    return {
        row.id: {name: found for level, name in levels.items() if (found := _level(row, level, seen))} for row in rows.rows()
    }


def _level(row: rows.Row, level: str, seen: Iterable[Seen]) -> dict[str, Any]:
    inputs = [entry for one in seen for entry in _inputs(row, level, one)]
    if not inputs:
        return {}
    good = Counter(decider for passed, decider in inputs if passed)
    failed = sum(not passed for passed, _ in inputs)
    deciders = Counter(decider for _, decider in inputs if decider)
    counts = {"inputs": len(inputs), IGNORED: good[IGNORED], "passed": good.total() - good[IGNORED], "failed": failed}
    return counts | {DECIDED_BY: dict(sorted(deciders.items()))}


def _inputs(row: rows.Row, level: str, one: Seen) -> Iterator[tuple[bool, str]]:
    """The part of a row that one test has tried, and its decider."""
    test, _, parameters = one.node.partition("[")
    case = parameters.removesuffix("]")
    if level in rows.OF_CASES and test.startswith(rows.OF_CASES[level] + "::"):
        for noted in one.decided_by:
            if isinstance(noted, Mapping):
                yield from ((one.passed, str(noted[name])) for name in row.cases_at(level) if name in noted)
        if case in row.cases_at(level):
            yield one.passed, next((str(noted) for noted in one.decided_by), "")
    elif test in row.tests[level]:
        yield one.passed, ""
