"""The order in which the files of tests are distributed."""

import itertools
import re
from pathlib import Path

import pytest

from tests.kit.order import (
    CONTROLLED,
    GUARDED,
    LONE,
    LONGEST_FIRST,
    MORTAL,
    PAIRED,
    POLICED,
    QUIET,
    SCHEDULED,
    TRANSLATED,
    UNITS,
    file_of,
    phase_of,
    place_of,
    unit_of,
)

ROOT = Path(__file__).parent.parent


def test_a_long_file_comes_first_then_those_on_the_pair_then_other_servers_then_the_rest() -> None:
    long = LONGEST_FIRST[1]
    paired, served = {"tests/cli/test_p.py", long}, {"tests/cli/test_p.py", "tests/a/test_s.py", long}
    given = ["tests/a/test_s.py::test_x", "tests/a/test_x.py::test_x", f"{long}::test_x[a::b]", "tests/cli/test_p.py::test_x"]
    ordered = [file_of(node) for node in sorted(given, key=lambda node: place_of(node, paired, served))]
    assert ordered == [long, "tests/cli/test_p.py", "tests/a/test_s.py", "tests/a/test_x.py"]
    assert [phase_of(file, paired, served) > PAIRED for file in ordered] == [False, False, True, True]


def test_every_long_file_is_there() -> None:
    files = {*LONGEST_FIRST, *(file for unit in UNITS.values() for file in unit)} - UNITS.keys()
    assert [file for file in files if not (ROOT / file).is_file()] == []


# For each unit: the folder, what a test of it asks for, and what a file has that makes a server of its own instead.
SHARED = {
    SCHEDULED: ("tests", r"\b(scheduled_server|ledger_host): [A-Z]", ""),
    POLICED: ("tests/chart", r"\b(policed|admin|syncer): [A-Z]", r"def (policed|admin)\("),
    CONTROLLED: ("tests/chart/controller", "", ""),
    MORTAL: ("tests/kube", r"\bown_server: [A-Z]", ""),
    QUIET: ("tests/controller/host", r"\bquiet_server: [A-Z]", ""),
    GUARDED: ("tests/chart", r"\bguarded_server: [A-Z]", ""),
    LONE: ("tests/apiserver", r"\blone_server: [A-Z]", ""),
    TRANSLATED: ("tests", r"\btranslated_server: [A-Z]", ""),
}


@pytest.mark.parametrize("unit", SHARED)
def test_those_that_share_a_server_are_one_unit(unit: str) -> None:
    folder, asks, instead = SHARED[unit]
    paths = (ROOT / folder).rglob("test_*.py") if folder == "tests" else (ROOT / folder).glob("test_*.py")
    asking = {
        str(path.relative_to(ROOT))
        for path in paths
        if re.search(asks, text := path.read_text()) and not (instead and re.search(instead, text))
    }
    assert asking == UNITS[unit]
    assert {unit_of(f"{file}::test_x") for file in asking} == {unit}


def test_files_of_a_unit_stand_together() -> None:
    files = [*sorted(UNITS[POLICED]), "tests/chart/test_priority.py", *sorted(UNITS[CONTROLLED])]
    served = {unit_of(file) for file in files}
    nodes = [f"{file}::test_{number}" for number in range(2) for file in files]
    units = [unit_of(node) for node in sorted(nodes, key=lambda node: place_of(node, (), served))]
    assert len([unit for unit, _ in itertools.groupby(units)]) == len(served)
