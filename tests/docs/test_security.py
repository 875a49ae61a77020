"""The page of security names every row of the catalogue that no test shows: what is open is not promised."""

import re

from tests.adversarial import rows
from tests.docs.pages import ROOT
from tests.docs.test_reader import section

PAGE = ROOT / "docs" / "security.md"


def test_what_no_test_shows_stands_among_what_is_not_promised() -> None:
    begin, end = section(PAGE, "what-is-not-promised")
    told = "\n".join(PAGE.read_text(encoding="utf-8").splitlines()[begin - 1 : end - 1])
    named = set(re.findall(r"\[([A-Z]\d+)\]\(adversarial\.md#", told))
    assert {row.id for row in rows.rows() if not row.shown} == named


def test_every_level_names_a_test() -> None:
    begin, end = section(PAGE, "what-is-promised-level-by-level")
    lines = PAGE.read_text(encoding="utf-8").splitlines()[begin - 1 : end - 1]
    levels = [line.split(" | ") for line in lines if line.startswith("| ")][2:]
    assert len(levels) >= 9
    assert [level[0] for level in levels if not re.search(r"\.\./(tests|e2e)/\S+\.py\)", level[-1])] == []
