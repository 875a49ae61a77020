"""One mutant in a copy of the tree: a rule that a test holds is killed, one that none holds survives."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants import trial
from tests.mutants.catalogue import Mutant
from tests.mutants.trial import BROKEN, KILLED, LOST, SURVIVED, TIMEOUT, Bench

pytestmark = pytest.mark.gate
CODE = "def most(given: int) -> int:\n    return min(given, 3)\n\n\ndef least(given: int) -> int:\n    return max(given, 1)\n"
TESTS = "from code_of_it import most\n\n\ndef test_the_most() -> None:\n    assert most(5) == 3\n"
TREE = {
    "code_of_it.py": CODE,
    "tests/test_it.py": TESTS,
    "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['host', 'simulation', 'outage', 'apiserver']\n",
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One for all tests: each trial takes its mutant out again, and a process that forks is slow to start."""
    root = tmp_path_factory.mktemp("tree")
    for name, text in TREE.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "ROOT", root)
        patch.setattr(trial, "files", lambda: [Path(name) for name in TREE])
        with Bench() as made:
            yield made


def mutant(text: str, instead: str, suite: str = "tests/test_it.py") -> Mutant:
    return Mutant("a/one", "a rule", "pure", (suite,), (), "code_of_it.py", text, instead)


def test_a_rule_that_a_test_holds_is_killed_by_that_test(bench: Bench) -> None:
    one = mutant("min(given, 3)", "given")
    found = bench.tries(one, one.suite)
    assert (found.what, found.by) == (KILLED, "tests/test_it.py::test_the_most")
    assert found.seconds > 0


def test_a_rule_that_no_test_holds_survives(bench: Bench) -> None:
    one = mutant("max(given, 1)", "given")
    assert bench.tries(one, one.suite).what == SURVIVED


def test_the_mutant_is_taken_out_again(bench: Bench) -> None:
    one = mutant("min(given, 3)", "given")
    assert [bench.tries(one, one.suite).what, bench.unchanged(one.suite, "pure").what] == [KILLED, SURVIVED]
    assert (bench.tree / "code_of_it.py").read_text() == CODE


def test_code_that_cannot_be_imported_kills_nothing(bench: Bench) -> None:
    one = mutant("def most(given: int) -> int:", "def fewest(given: int) -> int:")
    assert bench.tries(one, one.suite).what == BROKEN


def test_a_suite_that_is_not_there_kills_nothing(bench: Bench) -> None:
    one = mutant("min(given, 3)", "given", "tests/test_that.py")
    assert bench.tries(one, one.suite).what == BROKEN


def test_a_text_that_is_no_longer_there_is_reported(bench: Bench) -> None:
    one = mutant("min(given, 4)", "given")
    found = bench.tries(one, one.suite)
    assert found.what == LOST
    assert "not once" in found.by


def test_what_hangs_is_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trial.SECONDS, "pure", 1.0)
    one = mutant("return min(given, 3)", "while True: pass")
    assert bench.tries(one, one.suite).what == TIMEOUT


def test_a_kept_process_sees_each_mutant_afresh(bench: Bench) -> None:
    red, green = mutant("min(given, 3)", "given"), mutant("max(given, 1)", "given")
    assert [bench.tries(each, each.suite).what for each in (red, green, red, green)] == [KILLED, SURVIVED] * 2


def test_the_copy_goes_with_the_bench(bench: Bench) -> None:
    with Bench() as other:
        assert (other.tree / "code_of_it.py").exists()
    assert not other.tree.exists()
