"""The order in which the files of tests are distributed."""

import re
from pathlib import Path

from tests.kit.order import LONGEST_FIRST, PAIRED, SCHEDULED, WITH_SCHEDULER, file_of, phase_of, place_of, unit_of

ROOT = Path(__file__).parent.parent


def test_a_long_file_comes_first_then_those_on_the_pair_then_other_servers_then_the_rest() -> None:
    long = LONGEST_FIRST[1]
    paired, served = {"tests/cli/test_p.py", long}, {"tests/cli/test_p.py", "tests/a/test_s.py", long}
    given = ["tests/a/test_s.py::test_x", "tests/a/test_x.py::test_x", f"{long}::test_x[a::b]", "tests/cli/test_p.py::test_x"]
    ordered = [file_of(node) for node in sorted(given, key=lambda node: place_of(node, paired, served))]
    assert ordered == [long, "tests/cli/test_p.py", "tests/a/test_s.py", "tests/a/test_x.py"]
    assert [phase_of(file, paired, served) > PAIRED for file in ordered] == [False, False, True, True]


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
