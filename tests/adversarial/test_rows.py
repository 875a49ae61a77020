"""Every row of the catalogue has its place, and names only tests and cases that there are."""

from dataclasses import replace
from typing import Final

import pytest

from tests.adversarial import rows
from tests.adversarial.rows import Row

# Reviewed: rows that no test shows. Each says why, and what would show it.
OPEN: Final = frozenset({"C13", "C14"})
# How many rows each part of the catalogue has: A to H, and S of Slurm.
NUMBERS: Final = {"A": 19, "B": 16, "C": 14, "D": 12, "E": 15, "F": 13, "G": 17, "H": 14, "S": 7}


def test_every_row_of_the_catalogue_stands_there_once() -> None:
    wanted = [f"{part}{number}" for part, most in NUMBERS.items() for number in range(1, most + 1)]
    assert len(wanted) == 127
    assert [row.id for row in rows.rows()] == wanted


def test_rows_name_what_there_is_and_none_is_without_a_place() -> None:
    assert rows.mistakes(rows.rows(), OPEN) == []


GOOD: Final = Row("A1", "A", "x", "refused", ("A1-pid",), dict.fromkeys(rows.LEVELS, ()), "")
NOTHING: Final = replace(GOOD, cases=())


def naming(level: str, test: str) -> Row:
    return replace(GOOD, tests=dict(GOOD.tests) | {level: (test,)})


@pytest.mark.parametrize(
    ("row", "mistake"),
    [
        (replace(GOOD, outcome="ignored"), "'ignored' is none of"),
        (replace(GOOD, cases=("A1-nothing",)), "there is no case A1-nothing"),
        (naming("pure", "tests/adversarial/test_rows.py::test_nothing"), "there is no test"),
        (naming("pure", "tests/adversarial/test_nothing.py::test_x"), "there is no test"),
        (naming("pure", "e2e/scenarios/core/test_egress.py::test_everywhere_is_not_the_host"), "is not of level pure"),
        (naming("host", "tests/adversarial/test_rows.py::test_the_page_is_what_would_be_written"), "is not of level host"),
        (NOTHING, "not on the reviewed list"),
        (replace(NOTHING, id="C13"), "does not say why"),
        (replace(GOOD, id="C13", open="why"), "stands on the list of open rows"),
    ],
)
def test_a_row_that_claims_too_much_is_told(row: Row, mistake: str) -> None:
    assert any(mistake in text for text in rows.mistakes([row], OPEN))


@pytest.mark.parametrize("row", [GOOD, replace(NOTHING, id="C13", open="needs a GPU")])
def test_an_honest_row_is_not(row: Row) -> None:
    assert not [text for text in rows.mistakes([row], OPEN) if text.startswith(row.id + ":")]


def test_a_row_that_stands_there_twice_and_a_case_of_no_row_are_told() -> None:
    mistake = rows.mistakes([GOOD, GOOD], OPEN)
    assert "A1: stands there twice" in mistake
    assert "A1-ipc: is a case of no row" in mistake


def test_fields_are_those_that_are_known() -> None:
    given = {"id": "A1", "try": "x", "outcome": "refused", "cases": ["pid"], "open": "why"}
    assert rows.row_of("A", given) == replace(GOOD, open="why")
    with pytest.raises(ValueError, match="A1: no such fields"):
        rows.row_of("A", given | {"refused": True})


def test_the_page_is_what_would_be_written() -> None:
    assert rows.PAGE.read_text(encoding="utf-8") == rows.page()
