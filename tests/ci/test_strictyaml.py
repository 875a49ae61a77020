"""Reviewed YAML: a key that stands twice is refused by each of its readers, and stands in no tracked file."""

from pathlib import Path

import pytest

from ci import catalogue, change, flaky, strictyaml, words
from ci.strictyaml import DuplicateKeyError
from tests.kit import yamlfiles

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml: key 'a' stands on line 1 and again on line 3; merge the two, or rename one"),
        ("list:\n  - {a: 1, 'a': 2}\n", "key 'a' stands on line 2 and again on line 2"),
        ("x: &x {k: 1, k: 2}\ny: *x\n", "key 'k' stands on line 1"),
        ("{? [deep] : {k: 1, k: 2}}", "key 'k' stands on line 1"),
    ],
)
def test_a_key_that_stands_twice_is_named_with_both_lines(text: str, message: str) -> None:
    with pytest.raises(DuplicateKeyError) as caught:
        strictyaml.load(text, "f.yaml")
    assert message in str(caught.value)


def test_one_key_in_two_mappings_stands_once_in_each() -> None:
    text = "base: &base {k: 1, l: 2}\none: {<<: *base, k: 3}\ntwo: {<<: *base}\n1: a\n'1': b\n"
    base = {"k": 1, "l": 2}
    assert strictyaml.load(text, "") == {"base": base, "one": {"k": 3, "l": 2}, "two": base, 1: "a", "1": "b"}


def test_a_later_document_is_looked_at_too() -> None:
    assert strictyaml.documents("---\na: 1\n---\n---\na: 2\n", "") == [{"a": 1}, {"a": 2}]
    with pytest.raises(DuplicateKeyError, match="line 3"):
        strictyaml.documents("a: 1\n---\n{a: 1, a: 2}\n", "")


def test_every_reader_of_the_gate_refuses_it(tmp_path: Path) -> None:
    suite = "{title: t, command: make check, minutes: 1}"
    with pytest.raises(DuplicateKeyError, match=r"ci/suites.yaml: key 'check'"):
        catalogue.parse(f"suites:\n  check: {suite}\n  check: {suite}\nfolders: {{}}\n")
    with pytest.raises(DuplicateKeyError, match=r"ci/words.yaml: key 'turns'"):
        words.parse("turns: []\nskipped: []\nturns: []\n")
    with pytest.raises(DuplicateKeyError, match=r"ci/words-counts.yaml: key 'docs'"):
        words.read("turns: []\ncounts: {docs: {}, docs: {}}\n")
    with pytest.raises(DuplicateKeyError, match=r"tests/flaky.yaml: key 'test'"):
        flaky.listed("- {test: a, test: b}\n")
    (tmp_path / "data.yaml").write_text("a: 1\na: 2\n")
    with pytest.raises(DuplicateKeyError, match=r"data.yaml: key 'a'"):
        yamlfiles.load(tmp_path / "data.yaml")


def test_no_tracked_file_has_a_key_twice() -> None:
    """Also of those that other readers take: limits of benchmarks, words of chaos experiments, the chart's values."""
    paths = [path for path in change.tracked(ROOT) if path.endswith((".yaml", ".yml")) and "/templates/" not in path]
    assert "ci/suites.yaml" in paths
    for path in paths:
        if (ROOT / path).is_file():  # a link of an image may lead out of the tree
            strictyaml.documents((ROOT / path).read_text(), path)
