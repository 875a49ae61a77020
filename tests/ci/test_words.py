"""Banned turns of phrase: what is found where, and that the counts on record only fall."""

import subprocess
from pathlib import Path

import pytest

from ci import change, wording, words
from ci.words import Where

ROOT = Path(__file__).parents[2]
RULES = words.parse((ROOT / wording.RULES).read_text())

# For each banned turn a text that has it, and one of the same words that does not.
SAMPLES = {
    "is no X": ("What is no list is refused.", "There is no list, and the list is no longer read."),
    "are none": ("values that are none", "There is none; it is None."),
    "whom": ("whom it trusts", "the users that it trusts"),
    'who as "the one who"': ("A shell for who runs it. Who asks waits.", "Users who ask wait. Who asks?"),
    "whoever": ("Whoever leads", "The leader"),
    "nobody": ("Nobody reads it.", "No client reads it."),
    "somebody": ("for somebody else", "for another tenant"),
    "anybody": ("before anybody asks", "before any client asks"),
    "said": ("nothing is said of it", "it is not reported: afsaid"),
    "he": ("unless he is known to end", "the helper"),
    "any more": ("not there any more", "no longer there"),
    "anew": ("is made anew", "a new one"),
    "in the stead of": ("in its stead", "instead of it"),
    "of before": ("the one of before", "the earlier one"),
    "the like": ("exec and the like", "exec, unlike attach"),
    "come so far": ("did not come so far", "so far none came"),
    "what of": ("what of it is left", "what often is left"),
    "another one's": ("another one's pod", "another tenant's pod"),
    "bears": ("bears the gate", "a bearer token"),
    "hears of": ("hears of it", "shears off"),
    "likes best": ("what it likes best", "the best of all"),
    "sees to it": ("sees to it that", "adds to it"),
    "stranger": ("a stranger copies", "a strange one"),
    "mend": ("mend what it names", "fix the amendment"),
    "looks after": ("is looked after as ever", "it looks, and after that"),
    "unless given": ("none unless given", "none by default, given that"),
    "each as a variable": ("for key, each in pairs:", "for pair in reached:"),
    "who as a name": ("who = 1", "whole = 1"),
    "said as a name": ("said = 1", "unsaid = 1"),
}


def found(text: str, path: str = "docs/page.md") -> list[str]:
    return [finding.turn.name for finding in words.findings(path, text, RULES.turns)]


@pytest.mark.parametrize("turn", RULES.turns, ids=lambda turn: turn.name)
def test_a_turn_is_found_where_it_is_and_nowhere_else(turn: words.Turn) -> None:
    banned, plain = SAMPLES[turn.name]
    path = "bulkhead/a.py" if turn.where is Where.CODE else "docs/page.md"
    assert turn.name in found(banned, path)
    assert turn.name not in found(plain, path)
    assert turn.instead


def test_prose_of_python_is_docstrings_comments_and_literals() -> None:
    source = '"""Nobody.\n\nWhom."""\nsomebody = nobody("somebody")  # anybody\nprint(f"{said} is said")\n'
    got = [(finding.line, finding.turn.name) for finding in words.findings("a.py", source, RULES.turns)]
    assert sorted(got) == [
        (1, "nobody"),
        (3, "whom"),
        (4, "anybody"),
        (4, "somebody"),
        (5, "said"),
    ]


def test_a_quote_inside_a_literal_and_a_hash_inside_one_end_nothing() -> None:
    source = "a = 'it\\'s # said'\nsaid = \"'\"\n"
    assert [(f.line, f.turn.name) for f in words.findings("a.py", source, RULES.turns)] == [(1, "said"), (2, "said as a name")]


def test_a_turn_that_spans_two_lines_is_found_on_the_first() -> None:
    (finding,) = words.findings("a.md", "It is fine.\nWho\nasks waits.", RULES.turns)
    assert (finding.line, finding.text) == (2, "Who")


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("syncer/pods/decide.py", True),
        ("charts/bulkhead/values.schema.json", True),
        ("Makefile", True),
        ("docs/style.md", False),
        ("crds/tenants.yaml", False),
        ("images/a.png", False),
    ],
)
def test_which_files_are_read(path: str, read: bool) -> None:
    assert RULES.reads(path) is read


@pytest.mark.parametrize(
    ("path", "folder"), [("Makefile", "."), ("docs/a.md", "docs"), ("syncer/translate/kinds/pod.py", "syncer/translate")]
)
def test_a_file_counts_under_two_levels_at_most(path: str, folder: str) -> None:
    assert words.folder(path) == folder


def judged(
    text: str, counts: words.Counts, *, new: frozenset[str] = frozenset(), moved: dict[str, str] | None = None
) -> list[str]:
    record = words.Record(frozenset({"nobody", "somebody"}), counts)
    return words.violations(words.findings("docs/a.md", text, RULES.turns), record, RULES.turns, new=new, moved=moved or {})


def test_a_folder_may_have_as_many_as_recorded_and_no_more() -> None:
    assert judged("nobody nobody", {"docs": {"nobody": 2}}) == []
    (line,) = judged("nobody nobody nobody", {"docs": {"nobody": 2}})
    assert line.startswith("docs: 3 times [nobody], at most 2; instead: no one")
    assert judged("somebody", {"docs": {"nobody": 2}}) != []


def test_a_new_file_has_none_whatever_its_folder_has_left() -> None:
    (line,) = judged("nobody", {"docs": {"nobody": 2}}, new=frozenset({"docs/a.md"}))
    assert line.startswith("docs/a.md:1: [nobody]")


def test_a_moved_file_counts_where_it_came_from() -> None:
    recorded = {"tests": {"nobody": 1}}
    assert judged("nobody", recorded) != []
    assert judged("nobody", recorded, moved={"docs/a.md": "tests/a.md"}) == []


def test_rules_that_contradict_themselves_are_refused() -> None:
    entry = "{turn: a, where: prose, has: [a], pattern: '%s', instead: b}"
    with pytest.raises(words.WordsError, match="does not compile"):
        words.parse(f"turns: [{entry % '('}]\nskipped: []")
    with pytest.raises(words.WordsError, match="two entries"):
        words.parse(f"turns: [{entry % 'a'}, {entry % 'b'}]\nskipped: []")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository of one page with the rules of this one, recorded."""
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "words.yaml").write_text((ROOT / wording.RULES).read_text())
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "old.md").write_text("Nobody. Somebody.\n" * 3)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    assert wording.check(tmp_path, update=True) == 0
    commit(tmp_path)
    return tmp_path


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "all: a step")


def test_update_lowers_the_record_and_never_raises_it(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, record = clone / "docs" / "old.md", clone / wording.RECORD
    before = record.read_text()
    page.write_text("Nobody. Somebody.\n" * 4)
    assert wording.check(clone, update=True) == 1
    assert record.read_text() == before
    page.write_text("Nobody.\n")
    assert wording.check(clone, update=False) == 0
    assert "5 banned turns fewer than recorded" in capsys.readouterr().out
    assert wording.check(clone, update=True) == 0
    assert words.read(record.read_text()).counts["docs"] == {"nobody": 1}


def test_a_turn_that_is_new_in_the_rules_is_recorded_once(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules, page = clone / wording.RULES, clone / "docs" / "old.md"
    page.write_text("Nobody. Alas.\n")
    entry = "turns:\n  - {turn: alas, where: prose, has: [alas], pattern: alas, instead: nothing}\n"
    rules.write_text(rules.read_text().replace("turns:\n", entry, 1))
    assert wording.check(clone, update=False) == 1
    assert "[alas] is new" in capsys.readouterr().out
    assert wording.check(clone, update=True) == 0
    assert words.read((clone / wording.RECORD).read_text()).counts["docs"] == {"alas": 1, "nobody": 1}
    page.write_text("Nobody.\n")
    assert wording.check(clone, update=True) == 0
    page.write_text("Alas.\n")
    assert wording.check(clone, update=True) == 1  # once it is gone, it stays gone


def test_a_file_added_since_the_record_is_new_and_a_moved_one_is_not(clone: Path) -> None:
    git(clone, "mv", "docs/old.md", "moved.md")
    assert change.moves(clone, wording.RECORD) == change.Moves((), {"moved.md": "docs/old.md"})
    assert wording.check(clone, update=False) == 0
    (clone / "docs" / "new.md").write_text("Nobody.\n")
    assert wording.check(clone, update=False) == 1
    commit(clone)
    assert wording.check(clone, update=False) == 1


def test_count_and_list_print_what_there_is(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert wording.count(clone) == 0
    assert "nobody                            3         3" in capsys.readouterr().out
    assert wording.show(clone, ["docs"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("docs/old.md:1: [nobody] Nobody. Somebody.")
    assert out.endswith("6 in all\n")
