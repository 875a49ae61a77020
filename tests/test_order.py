"""The order in which the files of tests are distributed."""

import re
from pathlib import Path

from tests.kit.order import LONGEST_FIRST, SCHEDULED, WITH_SCHEDULER, file_of, place_of, unit_of

ROOT = Path(__file__).parent.parent


def test_a_long_file_comes_before_one_with_servers_and_that_before_the_rest() -> None:
    long = LONGEST_FIRST[1]
    given = [("tests/syncer/test_a.py::test_x", False), (f"{long}::test_x[a::b]", True), ("tests/cli/test_b.py::test_x", True)]
    ordered = sorted(given, key=lambda each: place_of(each[0], server=each[1]))
    assert [file_of(node) for node, _ in ordered] == [long, "tests/cli/test_b.py", "tests/syncer/test_a.py"]


def test_every_long_file_is_there() -> None:
    assert [file for file in {*LONGEST_FIRST, *WITH_SCHEDULER} - {SCHEDULED} if not (ROOT / file).is_file()] == []


def test_those_that_share_a_server_are_one_unit() -> None:
    asking = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"\b(scheduled_server|ledger_host): [A-Z]", path.read_text())
    }
    assert asking == set(WITH_SCHEDULER)
    assert {unit_of(f"{file}::test_x") for file in asking} == {SCHEDULED}
