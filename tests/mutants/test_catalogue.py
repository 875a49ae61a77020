"""The mutants as data: each can be put into the code as it is. Where one cannot, remake it for the present code."""

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import catalogue
from tests.mutants.__main__ import main
from tests.mutants.catalogue import ROOT, DoesNotApplyError, Mutant, changed

MUTANTS = catalogue.mutants()


def test_there_are_enough_each_with_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= 250
    assert [name for name, count in Counter(each.id for each in MUTANTS).items() if count > 1] == []


def test_each_stands_once_in_its_file_and_changes_it() -> None:
    remake = []
    for each in MUTANTS:
        if not each.text:
            continue  # a patch: applied by `tests/simulation/test_seeded.py`
        try:
            path = ROOT / each.file
            if changed(each, path.read_text()) == path.read_text():
                remake.append(f"{each.id}: changes nothing")
        except (DoesNotApplyError, FileNotFoundError) as error:
            remake.append(str(error))
    assert remake == []


def test_what_becomes_of_python_is_python() -> None:
    wrong = []
    for each in MUTANTS:
        if each.text and each.file.endswith(".py"):
            try:
                compile(changed(each, (ROOT / each.file).read_text()), each.file, "exec")
            except SyntaxError as error:
                wrong.append(f"{each.id}: {error}")
    assert wrong == []


def test_each_says_which_rule_it_takes_and_where_that_is_tested() -> None:
    assert [each.id for each in MUTANTS if not each.rule] == []
    assert [each.id for each in MUTANTS if each.cost not in catalogue.COSTS] == []
    suites = {part.partition("::")[0] for each in MUTANTS for part in (*each.suite, *each.wider)}
    assert [each for each in sorted(suites) if not (ROOT / each).exists()] == []
    assert [each.id for each in MUTANTS if not each.suite and each.text] == []


def test_a_survivor_that_is_listed_is_a_mutant_and_has_a_reason() -> None:
    known = catalogue.survivors()
    assert known.keys() <= {each.id for each in MUTANTS}
    assert all(known.values())


def test_a_text_that_is_there_twice_or_never_is_said() -> None:
    one = Mutant("area/one", "a rule", "pure", ("tests",), (), "a.py", "b", "c")
    assert changed(one, "abd") == "acd"
    for text in ("abba", "ad"):
        with pytest.raises(DoesNotApplyError, match=r"area/one.*times in a\.py"):
            changed(one, text)


def test_a_mutant_is_put_into_a_copy(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = b\n")
    one = Mutant("area/one", "a rule", "pure", ("tests",), (), "a.py", "x = b", "x = c")
    assert catalogue.put(one, tmp_path) == [Path("a.py")]
    assert (tmp_path / "a.py").read_text() == "x = c\n"


@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        (["--id", "odd-pause"], "unknown: odd-pause; write an id with its area"),
        (["--area", "nowhere"], "unknown: nowhere; write an id with its area"),
        (["--suite", "nowhere"], "these options choose no mutant"),
    ],
)
def test_options_that_choose_no_mutant_are_an_error(
    chosen: list[str], error: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*chosen, "--results", str(tmp_path / "found.json")]) == 2
    assert error in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
