"""A reader finds their way: from the README to the end of a task in two clicks, from page to page, from a reason to its row."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path

import pytest

from bulkhead.api.conditions import CohortCondition, CohortReason, ConditionType, Reason
from bulkhead.ledger.model import Cause, Why
from syncer.translate import reasons
from syncer.translate.kinds import pod
from syncer.translate.podspec import scheduling, tolerations, users
from tests.docs.pages import ROOT, yaml_blocks
from workstation.cli.main import build_parser

DOCS = sorted((ROOT / "docs").glob("*.md"))
ALL = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
README = ROOT / "README.md"
LINK = re.compile(r"\]\(([^)\s]*)\)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
FENCED = re.compile(r"^( {0,3})```\w*\n.*?^\1```", re.DOTALL | re.MULTILINE)
# The README's tasks, each with what a section needs in its blocks of YAML to be complete.
TASKS = {
    "sign-in-by-oidc-with-images-in-a-private-registry": ("issuers:", "oidc:", "networkPolicy:"),
    "16-gpus-that-borrow": ("cohort:", "borrowingLimit:", "kind: Cohort"),
    "slurm-with-accounting": ("mode: Slurm", "accounting:"),
    "a-tenant-at-a-domain": ("domains:", "allowedTypes:", "exposure: {type: Proxy}"),
    "remove-bulkhead": (),
}
# What the source writes as the reason of an event or a condition, beside the enumerations.
WRITTEN = re.compile(r"""(?:\.warn\(\s*\w+,\s*|announce\([^()]*reason=)"([A-Z]\w+)"|"reason": (?:[\w.]+ or )?"([A-Z]\w+)\"""")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchor_of(title: str) -> str:
    """What a heading is called in links, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    return frozenset(anchor_of(title) for _, title in HEADING.findall(FENCED.sub("", page.read_text())))


def section(page: Path, anchor: str) -> tuple[int, int]:
    """The first line of a section and the line after its last one."""
    text = page.read_text()
    bare = FENCED.sub(lambda match: "\n" * match[0].count("\n"), text)
    found = [
        (len(mark), bare.count("\n", 0, at.start()) + 1, anchor_of(title))
        for at in HEADING.finditer(bare)
        for mark, title in [at.groups()]
    ]
    level, begin = next((level, line) for level, line, name in found if name == anchor)
    end = next((line for depth, line, _ in found if line > begin and depth <= level), text.count("\n") + 2)
    return begin, end


@pytest.mark.parametrize("anchor", TASKS)
def test_two_clicks_lead_from_the_readme_to_the_end_of_a_task(anchor: str) -> None:
    (link,) = [link for link in LINK.findall(README.read_text()) if link.endswith(f"#{anchor}")]
    page = ROOT / link.partition("#")[0]
    begin, end = section(page, anchor)
    lines = page.read_text().splitlines()[begin - 1 : end - 1]
    steps = [int(found[1]) for line in lines if (found := re.match(r"(\d+)\. \*\*", line))]
    parts = [line for line in lines if line.startswith("### ")] or [""]
    assert steps[:3] == [1, 2, 3], "steps are numbered, in order"
    assert steps.count(1) == len(parts)
    assert any(line.strip() == "```sh" for line in lines)
    judged = "\n".join(block.text for block in yaml_blocks() if block.page == name_of(page) and begin <= block.line < end)
    assert [word for word in TASKS[anchor] if word not in judged] == []
    if TASKS[anchor]:
        assert "apiVersion: bulkhead.dev/v1alpha1\nkind: Tenant\n" in judged


@pytest.mark.parametrize("page", DOCS, ids=name_of)
def test_a_page_says_who_it_is_for_and_what_comes_next(page: Path) -> None:
    lines = [line for line in page.read_text().splitlines() if line and not line.startswith("<!--")]
    assert lines[0].startswith("# ")
    assert lines[1].startswith("For "), "the first line below the title says who the page is for: `For platform admins.`"
    assert re.match(r"Next: \[.+\]\(.+\)", lines[-1]), "the last line leads on: `Next: [installing](install.md)`"


def test_the_index_has_every_page() -> None:
    linked = {link.partition("#")[0] for link in LINK.findall((ROOT / "docs" / "README.md").read_text())}
    assert {page.name for page in DOCS} - {"README.md"} <= linked
    assert LINK.findall(README.read_text()).count("docs/README.md") == 1


@pytest.mark.parametrize("folder", ["decisions", "measurements"])
def test_an_index_has_every_file_of_its_folder(folder: str) -> None:
    index = ROOT / "docs" / folder / "README.md"
    files = sorted(path.name for path in index.parent.glob("*.md") if path.name != "README.md")
    assert [name for name in files if f"]({name})" not in index.read_text()] == []


def test_every_number_of_a_decision_stands_in_the_index() -> None:
    index = ROOT / "docs" / "decisions" / "README.md"
    listed = [int(found) for found in re.findall(r"^\| \[?(\d{4})\b", index.read_text(), re.MULTILINE)]
    assert listed == list(range(1, len(listed) + 1))


def wrong_anchors(page: Path) -> Iterator[str]:
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        target, _, anchor = link.partition("#")
        where = (page.parent / target).resolve() if target else page
        if "://" not in link and anchor and where.suffix == ".md" and anchor not in anchors(where):
            yield link


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_a_link_into_a_page_leads_to_a_heading(page: Path) -> None:
    assert list(wrong_anchors(page)) == []


def known_reasons() -> dict[str, str]:
    """Every reason of a condition or an event, and where it comes from."""
    enumerated: list[type[Enum]] = [ConditionType, Reason, CohortCondition, CohortReason, reasons.Reason, Why, Cause]
    found = {str(member.value): kind.__qualname__ for kind in enumerated for member in kind}
    found |= {tolerations.NARROWED: "tolerations", scheduling.MAPPED: "scheduling", users.SHARED: "users", pod.SHORTENED: "pod"}
    for top in ("bulkhead", "controller", "syncer"):
        for path in sorted((ROOT / top).rglob("*.py")):
            found |= dict.fromkeys(
                filter(None, (one or other for one, other in WRITTEN.findall(path.read_text()))), name_of(path)
            )
    return found


def test_every_reason_has_its_row() -> None:
    """What a person reads on an object they find by its word: what it means, and what to do."""
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)
    there = {word for first, _ in rows for word in re.findall(r"`(\w+)`", first)}
    assert {reason: source for reason, source in known_reasons().items() if reason not in there} == {}


def test_the_reasons_of_the_source_are_seen() -> None:
    assert known_reasons().keys() >= {
        "Lost",
        "Misplaced",
        "PlaneQuarantined",
        "GangNotBound",
        "UnknownField",
        "TolerationsNarrowed",
    }


def test_a_push_and_the_chart_that_follows_it_name_one_file() -> None:
    """Old digests under a new chart would be the old images: an upgrade pushes first, and takes what the push wrote."""
    block = next(text for _, text in shell_blocks(ROOT / "docs" / "upgrading.md") if "helm upgrade" in text)
    lines = block.splitlines()
    (push,) = [number for number, line in enumerate(lines) if " images push " in line]
    (upgrade,) = [number for number, line in enumerate(lines) if line.startswith("helm upgrade ")]
    assert push < upgrade
    named = [re.findall(r"--values (\S+)", lines[number]) for number in (push, upgrade)]
    assert named[0] == named[1] == ["images.yaml"]


def test_the_values_file_has_the_name_that_the_page_says_unless_given() -> None:
    options = build_parser(["images", "push"]).parse_args(["images", "push", "registry.example.org/bulkhead"])
    assert f"`{options.values}`" in (ROOT / "docs" / "install.md").read_text()


def shell_blocks(page: Path) -> list[tuple[str, str]]:
    return re.findall(r"^( {0,3})```sh\n(.*?)^\1```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("picture", sorted((ROOT / "docs").rglob("*.svg")), ids=name_of)
def test_a_picture_is_whole_and_fetches_nothing(picture: Path) -> None:
    text = picture.read_text()
    assert ET.fromstring(text).get("viewBox")  # noqa: S314 - our own file
    assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in text
    assert len(text) < 60_000


def test_the_readme_shows_each_picture_of_its_own() -> None:
    shown = set(LINK.findall(README.read_text()))
    assert {"docs/architecture.svg", "docs/pictures/top.svg"} <= shown
