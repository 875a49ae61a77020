"""The map from folders to suites, and what it says that tree, Makefile and pages do not."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from ci import catalogue, change
from ci.catalogue import Catalogue, CatalogueError, Suite

ROOT = Path(__file__).parents[2]
SUITES = """
suites:
  check: {title: t, command: make check, minutes: 1, fixed: true}
  small: {title: t, command: make small, minutes: 1, fixed: true, part of: whole}
  whole: {title: t, command: make whole, minutes: 9}
  bench: {title: t, command: make bench, minutes: 9, quiet: true}
  slurm: {title: t, command: make e2e SUITE=slurm, minutes: 9, host: shared}
folders:
"""
MAP = """
  ".": [whole]
  README.md: [slurm]
  docs/**: []
  syncer: [whole]
  syncer/pods/**: [whole, slurm]
"""


def test_the_map_of_this_tree_names_every_folder_and_nothing_else() -> None:
    assert catalogue.load().contradictions(change.tracked(ROOT)) == []


@pytest.mark.parametrize(
    ("path", "touched"),
    [
        ("Makefile", ("whole",)),
        ("README.md", ("slurm",)),
        ("docs/decisions/0001.md", ()),
        ("syncer/work.py", ("whole",)),
        ("syncer/pods/deep/decide.py", ("whole", "slurm")),
        ("gone/since/then.py", ()),
    ],
)
def test_the_nearest_entry_counts(path: str, touched: tuple[str, ...]) -> None:
    assert catalogue.parse(SUITES + MAP).touched(path) == touched


def test_a_folder_in_no_entry_is_named_once_and_an_entry_for_nothing_too() -> None:
    files = ["Makefile", "README.md", "syncer/work.py", "syncer/pods/a.py", "syncer/new/a.py", "syncer/new/b.py"]
    first, second = catalogue.parse(SUITES + MAP).contradictions(files)
    assert first.startswith("folder syncer/new: stands in no entry")
    assert second.startswith("entry docs/**")


@pytest.mark.parametrize("folders", ["  docs/**: [slrum]\n", "  docs/**: [check]\n", "  docs/**: [bench]\n"])
def test_a_name_that_the_map_cannot_choose_is_refused(folders: str) -> None:
    with pytest.raises(CatalogueError, match=r"slrum|check|bench"):
        catalogue.parse(SUITES + folders)


def test_a_whole_run_shows_nothing_twice() -> None:
    assert [suite.name for suite in catalogue.parse(SUITES + MAP).whole] == ["check", "whole", "bench", "slurm"]


def variable(name: str) -> set[str]:
    """The words of one of the Makefile's variables."""
    found = re.search(rf"^{name} := (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert found is not None
    return set(found[1].split())


def values(suites: tuple[Suite, ...], name: str) -> set[str]:
    """What the suites' commands give for a variable."""
    return {word.partition("=")[2] for suite in suites for word in suite.command if word.startswith(f"{name}=")}


@pytest.fixture(scope="module")
def ours() -> Catalogue:
    return catalogue.load()


def test_every_scenario_has_a_suite_and_a_target(ours: Catalogue) -> None:
    folders = {path.parent.name for path in (ROOT / "e2e/scenarios").glob("*/__init__.py")}
    assert variable("SUITES") == folders
    assert values(ours.suites, "SUITE") | {"core"} == folders


def test_every_benchmark_and_all_specs_have_a_suite(ours: Catalogue) -> None:
    assert values(ours.suites, "NAME") == variable("BENCHES")
    assert values(ours.suites, "SPECS") | {"parallel"} == variable("ALL_SPECS")


@pytest.mark.parametrize("suite", catalogue.load().suites, ids=lambda suite: suite.name)
def test_every_command_is_one_that_make_knows(suite: Suite) -> None:
    program, *words = suite.command
    assert program == "make"
    done = subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "wrong",
    ["e2e SUITE=cores", "e2e PART=gpu", "e2e SUITE=slurm PART=gpus", "bench NAME=leger", "bench", "conformance SPECS=some"],
)
def test_another_name_is_refused_before_anything_runs(wrong: str) -> None:
    done = subprocess.run(["make", "-n", *wrong.split()], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert re.search("no such|there are|has parts", done.stderr)


def test_help_fits_a_screen() -> None:
    done = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert len(done.stdout.splitlines()) <= 24
    assert [line for line in done.stdout.splitlines() if len(line) > 128] == []


def test_the_fixed_part_takes_half_an_hour(ours: Catalogue) -> None:
    assert sum(suite.minutes for suite in ours.fixed) <= 30


def test_a_flaky_test_stands_in_the_list_with_its_day_and_cause() -> None:
    for entry in yaml.safe_load((ROOT / "tests/flaky.yaml").read_text()) or ():
        assert set(entry) == {"date", "test", "cause"}
        path, _, name = entry["test"].partition("::")
        assert f"def {name.rpartition('::')[2]}(" in (ROOT / path).read_text(), f"{entry['test']} is gone: take the line out"
        assert "TODO" not in entry["cause"]
