"""What is kept of mutants that were tried, and what a run fails for."""

from pathlib import Path

import pytest

from tests.mutants import record
from tests.mutants.catalogue import Mutant
from tests.mutants.record import Record, compact, compacted, lost, table, unexpected
from tests.mutants.trial import KILLED, SURVIVED, TIMEOUT, Outcome

ONE = Mutant("a/one", "a rule", "pure", ("tests/x.py",), (), "a.py", "b", "c")
TWO = Mutant("a/two", "another", "pure", ("tests/x.py",), (), "a.py", "d", "e")
RED = Outcome(KILLED, "tests/x.py::test_it", "tests/x.py", 1.5)
GREEN = Outcome(SURVIVED, "", "tests/x.py", 2.0)


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "state", lambda: "this")


def test_what_was_found_is_there_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "mutants.json"
    kept = Record(path)
    kept.add(ONE, RED)
    kept.add_unchanged("tests/x.py", GREEN)
    again = Record(path)
    assert again.known(ONE)
    assert not again.known(TWO)
    assert (again.found, again.unchanged) == ({"a/one": RED}, {"tests/x.py": GREEN})


def test_what_was_found_of_other_code_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mutants.json"
    Record(path).add(ONE, RED)
    monkeypatch.setattr(record, "state", lambda: "another")
    assert Record(path).found == {}


def test_a_mutant_that_was_changed_since_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "mutants.json"
    Record(path).add(ONE, RED)
    assert not Record(path).known(Mutant("a/one", "a rule", "pure", ("tests/x.py",), (), "a.py", "b", "f"))


def test_what_came_to_nothing_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "mutants.json"
    Record(path).add(ONE, Outcome(TIMEOUT, "", "tests/x.py", 240.0))
    assert not Record(path).known(ONE)


def test_a_survivor_of_its_suite_is_tried_with_the_wider_one(tmp_path: Path) -> None:
    wide = Mutant("a/one", "a rule", "pure", ("tests/x.py",), ("tests",), "a.py", "b", "c")
    kept = Record(tmp_path / "mutants.json")
    kept.add(wide, GREEN)
    assert kept.known(wide, narrow=True)
    assert not kept.known(wide)
    kept.add(wide, Outcome(SURVIVED, "", "tests", 9.0))
    assert kept.known(wide)
    kept.add(wide, RED)
    assert kept.known(wide)


def test_all_is_forgotten_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "mutants.json"
    Record(path).add(ONE, RED)
    assert not Record(path, again=True).known(ONE)


def test_what_was_red_before_and_is_not_now_is_lost() -> None:
    before = {"a/one": RED, "a/two": RED, "a/three": GREEN}
    assert lost(before, {"a/one": RED, "a/two": GREEN}) == ["a/two"]
    assert lost(before, {"a/one": RED}) == ["a/two"]
    assert lost(before, {"a/one": RED, "a/two": RED, "a/three": GREEN}) == []


def test_results_are_kept_in_the_tree_a_line_each() -> None:
    found = {"a/two": GREEN, "a/one": RED}
    assert compacted(compact(found)) == found
    assert len(compact(found).splitlines()) == len(found) + 2


def test_a_survivor_fails_a_run_unless_it_is_listed() -> None:
    found = {"a/one": GREEN, "a/two": RED}
    assert unexpected(found, [ONE, TWO], ()) == ["survived: a/one: a rule (a.py)"]
    assert unexpected(found, [ONE, TWO], {"a/one"}) == []


def test_the_table_has_a_line_for_each_area() -> None:
    lines = table({"a/one": RED, "a/two": GREEN}, [ONE, TWO]).splitlines()
    assert lines[1].split() == ["a", "2", "1", "1", "0", "1.5", "1.5"]
    assert lines[2].split()[0] == "all"
