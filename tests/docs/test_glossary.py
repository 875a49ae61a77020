"""The glossary: each noun has one row, is used, and the pages that need it lead to it."""

import re
from collections import Counter
from functools import cache

import pytest

from tests.docs.pages import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
ROW = re.compile(r"^\| (?!noun |---)([^|]+?) \| ([^|]+?) \| ([^|]+?) \|$", re.MULTILINE)
NOUNS = [noun for noun, _, _ in ROW.findall(GLOSSARY.read_text())]
OWN_PAGES = {"docs/glossary.md", "docs/style.md"}


@cache
def corpus() -> str:
    """All code of the product, its chart and its pages but these two, in lower case."""
    programs = ("bulkhead", "controller", "syncer", "frontdoor", "gpumetrics")
    code = (path for top in programs for path in (ROOT / top).rglob("*.py"))
    chart = (ROOT / "charts").rglob("*.yaml")
    pages = (path for path in (ROOT / "docs").rglob("*.md") if str(path.relative_to(ROOT)) not in OWN_PAGES)
    return re.sub(r"\s+", " ", "\n".join(path.read_text() for path in (*code, *chart, *pages))).lower()


def is_used(noun: str) -> bool:
    """As words, or as one word such as `borrowingLimit`."""
    return any(
        re.search(rf"\b{re.escape(form)}(?:s|es)?\b", corpus()) for form in (noun.lower(), noun.lower().replace(" ", ""))
    )


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_of_the_glossary_is_used(noun: str) -> None:
    assert is_used(noun)


def test_a_noun_that_is_not_used_is_found() -> None:
    assert not is_used("flux capacitor")


def test_each_noun_has_one_row_with_all_cells() -> None:
    assert [noun for noun, count in Counter(NOUNS).items() if count > 1] == []
    rows = [
        line for line in GLOSSARY.read_text().splitlines() if line.startswith("| ") and not line.startswith(("| noun", "| ---"))
    ]
    assert len(rows) == len(NOUNS) > 40


def test_the_nouns_of_the_architecture_are_there() -> None:
    assert {"tenant", "plane", "syncer", "ledger", "workload", "gang", "cohort", "flavor", "lease", "gate", "reclaim"} <= set(
        NOUNS
    )


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("docs/style.md", "glossary.md"),
        ("docs/glossary.md", "style.md"),
        ("CONTRIBUTING.md", "docs/style.md"),
        ("CONTRIBUTING.md", "docs/glossary.md"),
    ],
)
def test_a_page_leads_to_the_pages_on_words(page: str, link: str) -> None:
    assert f"]({link})" in (ROOT / page).read_text()
