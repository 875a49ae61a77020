"""The rows of the catalogue: read from `rows.yaml`, held against the tests that there are, and written as a page.

    rows.yaml ──┬─> what is wrong with it: a test that is not there, a case in no row, a row without a place
                ├─> docs/adversarial.md
                └─> the tests of levels 1 to 3, for `make adversarial`

Tests are found by reading their files, not by running pytest.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.adversarial.cases import CASES, HERE, PODS
from tests.kit import yamlfiles

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = Path(__file__).with_name("rows.yaml")
PAGE: Final = ROOT / "docs" / "adversarial.md"
OUTCOMES: Final = ("refused", "neutralised", "bounded")
# The levels, and what the page calls them.
LEVELS: Final = {
    "pure": "rules alone",
    "servers": "real API servers",
    "policies": "the host's policies",
    "host": "embedded host",
}
HERE_RUN: Final = ("pure", "servers", "policies")
# The tests that try every case; they are of every row that has cases.
OF_CASES: Final = {
    "pure": "tests/syncer/translate/test_adversarial.py",
    "servers": "tests/adversarial/test_mirrored.py",
    "policies": "tests/adversarial/test_host_policies.py",
}
# Cases of rules that the catalogue does not have: gangs, and the gate of the ledger.
OUTSIDE: Final = frozenset({"L1", "L2", "L3", "L4", "L5"})
_FIELDS: Final = frozenset({"id", "try", "outcome", "cases", "open", *LEVELS})


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what is tried, what has to become of it, and where that is shown."""

    id: str
    section: str
    attempt: str
    outcome: str
    cases: tuple[str, ...]
    tests: Mapping[str, tuple[str, ...]]
    open: str

    @property
    def shown(self) -> bool:
        """Whether anything shows it."""
        return bool(self.cases) or any(self.tests.values())

    def cases_at(self, level: str) -> tuple[str, ...]:
        """The cases that a level tries: two API servers have pods of a class that offers nothing of its own."""
        if level == "servers":
            return tuple(case for case in self.cases if case in PODS and "view" not in PODS[case])
        return self.cases if level in OF_CASES else ()


@cache
def rows() -> tuple[Row, ...]:
    """All rows, in the order of the file; raises KeyError and ValueError where one lacks a field or has one too many."""
    return tuple(row_of(section, entry) for section, listed in yamlfiles.load(SOURCE).items() for entry in listed)


def row_of(section: str, given: Mapping[str, Any]) -> Row:
    """A row as its file has it; ValueError and KeyError where it has a field too many or lacks one."""
    if strangers := given.keys() - _FIELDS:
        raise ValueError(f"{given['id']}: no such fields: {sorted(strangers)}")
    cases = tuple(f"{given['id']}-{name}" for name in given.get("cases", ()))
    tests = {level: tuple(given.get(level, ())) for level in LEVELS}
    return Row(given["id"], section, given["try"], given["outcome"], cases, tests, given.get("open", ""))


def mistakes(listed: Iterable[Row], open_rows: frozenset[str]) -> list[str]:
    """What is wrong with rows; `open_rows` are those that may be without any test."""
    listed = tuple(listed)
    found = [f"{row.id}: {text}" for row in listed for text in _mistakes(row, open_rows)]
    ids = [row.id for row in listed]
    found += [f"{name}: stands there twice" for name in sorted({name for name in ids if ids.count(name) > 1})]
    claimed = {case for row in listed for case in row.cases}
    of_rows = {case for case in CASES if case.split("-")[0] not in OUTSIDE}
    return found + [f"{case}: is a case of no row" for case in sorted(of_rows - claimed)]


def _mistakes(row: Row, open_rows: frozenset[str]) -> Iterator[str]:
    if row.outcome not in OUTCOMES:
        yield f"{row.outcome!r} is none of {', '.join(OUTCOMES)}"
    for case in row.cases:
        if case not in CASES:
            yield f"there is no case {case}"
    for level, tests in row.tests.items():
        for test in tests:
            if not exists(test):
                yield f"there is no test {test}"
            if (level == "host") != test.startswith("e2e/"):
                yield f"{test} is not of level {level}"
    if not row.shown and row.id not in open_rows:
        yield "nothing shows it, and it is not on the reviewed list of open rows"
    if not row.shown and not row.open:
        yield "nothing shows it, and it does not say why"
    if row.shown and row.id in open_rows:
        yield "stands on the list of open rows, and something shows it"


def exists(test: str) -> bool:
    """Whether a test `path::name` stands in the tree."""
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and name in _names(path)


@cache
def _names(path: str) -> frozenset[str]:
    nodes = ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    functions = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in functions if name.startswith("test_"))


def tests() -> list[str]:
    """What `make adversarial` runs: the tests of every case, and the others that rows name below the embedded host."""
    named = {test for row in rows() for level in HERE_RUN for test in row.tests[level]}
    whole = {*OF_CASES.values(), "tests/adversarial"}
    return sorted(whole) + sorted(test for test in named if not any(test.startswith(place) for place in whole))


def page() -> str:
    """The page."""
    listed = rows()
    parts = [f"{sum(row.outcome == outcome for row in listed)} {outcome}" for outcome in OUTCOMES]
    head = (
        "# What a hostile tenant tries\n\n"
        "For those who judge how tenants are kept apart, and for contributors.\n"
        "Generated by `python -m tests.adversarial` from `tests/adversarial/rows.yaml`; do not edit.\n\n"
        f"Of {len(listed)} rows {', '.join(parts)}: *refused* means that nothing of it reaches the host and the tenant\n"
        "reads why, *neutralised* that it has no effect, *bounded* that it costs its own tenant alone. A case is one input;\n"
        "each is tried on the rules alone, pods also between two real API servers with the syncer, and all against the host's\n"
        "policies with the syncer's checks out of the way: the second decider does not rely on the first. `make adversarial`\n"
        "runs all but what needs the embedded host, and writes `build/adversarial.json`; an attack that an API server ignores\n"
        "shows no check at work, and counts there neither as passed nor as failed. What no test shows, the last column says.\n"
    )
    sections = "".join(_section(name, listed) for name in dict.fromkeys(row.section for row in listed))
    return head + sections + _benchmark() + (
        "\nNext: [architecture](architecture.md) · [what a tenant may expect](syncer-behaviours.md)\n"
    )  # fmt: skip


def _benchmark() -> str:
    """The section of the multi-tenancy benchmark; test_benchmark.py runs its checks."""
    checks = yamlfiles.load(HERE / "benchmark.yaml")
    lines = [
        f"| {check['id']} | {check['check'].replace('_', ' ')} | {check['inside']} | {_on_host(check)} |" for check in checks
    ]
    return (
        "\n## The multi-tenancy benchmark, twice\n\n"
        "Its checks are for tenants that share one API server. In a plane the tenant is the admin and helps themselves, so\n"
        "each check is made [twice](../tests/adversarial/test_benchmark.py): in the plane, and on what reaches the host, with\n"
        "a class at level `restricted`; level `baseline` lets SETPCAP, root and privilege escalation in, as Pod Security\n"
        "does.\n\n"
        "| id | check | in the plane | on the host |\n| --- | --- | --- | --- |\n" + "\n".join(lines) + "\n"
    )


def _on_host(check: Mapping[str, Any]) -> str:
    what = f"{check['host']}, with an event that names `{check['field']}`" if "field" in check else check["host"]
    return f"**differs**: {what}. {check['deviates']}" if "deviates" in check else what


def _section(name: str, listed: Iterable[Row]) -> str:
    columns = ["", "what a tenant tries", "outcome", *LEVELS.values(), "open"]
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for row in listed:
        if row.section == name:
            shown = [_cell(row, level) for level in LEVELS]
            lines.append(f"| {' | '.join([row.id, row.attempt, row.outcome, *shown, row.open])} |")
    return f"\n## {name}\n\n" + "\n".join(lines) + "\n"


def _cell(row: Row, level: str) -> str:
    number = len(row.cases_at(level))
    files = dict.fromkeys(test.partition("::")[0] for test in row.tests[level])
    if number:
        files.pop(OF_CASES[level], None)
    counted = [f"[{number} case{'s' * (number > 1)}](../{OF_CASES[level]})"] if number else []
    return ", ".join([*counted, *(f"[{Path(path).stem}](../{path})" for path in files)])
