"""The layers of the tests that need no root: what `make test` leaves out has a suite, and a changed file of one runs it."""

import ast
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from ci import catalogue
from ci.catalogue import Catalogue
from tests.adversarial import rows
from tests.ci.test_catalogue import ROOT, values, variable
from tests.slowest.record import FOLDER

# Whole folders, or tests for root, that have suites with other commands.
OTHERS = {"browser": "console", "host": "core", "outage": "outages", "simulation": "simulation", "ways": "ways"}
NEED = "apiserver"  # says what a test needs, and leaves nothing out


@pytest.fixture(scope="module")
def ours() -> Catalogue:
    return catalogue.load()


def markers() -> dict[str, str]:
    """The registered markers, each with what it is for."""
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    return {name: text for name, _, text in (line.partition(": ") for line in lines)}


def printed(*words: str) -> subprocess.CompletedProcess[str]:
    """What `make` would run."""
    command = ["make", "-n", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def chosen(*words: str) -> set[str]:
    """The markers in the expression by which `make test` chooses its tests."""
    found = re.search(r'-m "([^"]*)"', printed("test", *words).stdout)
    assert found is not None
    return set(re.findall(r"\w+", found[1]))


def marked(layer: str) -> list[Path]:
    """The files with tests of a layer."""
    return [path for path in (ROOT / "tests").rglob("test_*.py") if re.search(rf"\bmark\.{layer}\b", path.read_text())]


def test_every_marker_leaves_tests_out_that_a_suite_runs(ours: Catalogue) -> None:
    layers = variable("LAYERS")
    assert markers().keys() == layers | OTHERS.keys() | {NEED}
    assert values(ours.suites, "LAYER") == layers
    names = {suite.name: suite for suite in ours.suites}
    assert all(names[layer].command == ("make", "test", f"LAYER={layer}") for layer in layers)
    assert {suite.name for suite in ours.suites if suite.for_changes} >= set(OTHERS.values()) | layers
    assert chosen() == {"not", "or"} | layers | OTHERS.keys()
    assert [name for name, text in markers().items() if text.startswith("layer: ")] == sorted(layers)


@pytest.mark.parametrize("layer", sorted(variable("LAYERS")))
def test_a_changed_file_of_a_layer_runs_it(ours: Catalogue, layer: str) -> None:
    files = marked(layer)
    assert files
    for path in files:
        assert layer in ours.touched(str(path.relative_to(ROOT))), f"{path}: its entry in ci/suites.yaml does not name {layer}"
    assert any(layer in names for entry, names in ours.folders.items() if not entry.startswith("tests/"))


def test_several_layers_are_one_run_and_an_unknown_one_is_refused() -> None:
    assert chosen("LAYER=helm stores") == {"helm", "or", "stores"}
    done = printed("test", "LAYER=helm stoers")
    assert done.returncode != 0
    assert "no such layer; there are" in done.stderr


def test_the_record_of_a_layer_leaves_that_of_make_test_alone() -> None:
    def record(*words: str) -> str:
        found = re.search(r"BULKHEAD_TEST_RECORD=(\S+) ", printed("test", *words).stdout)
        assert found is not None
        return found[1]

    assert record() == str(FOLDER)
    assert record("LAYER=stores") == f"{FOLDER}-stores"
    assert record("LAYER=helm stores") == f"{FOLDER}-helm-stores"


@cache
def tree_of(file: Path) -> ast.Module:
    """A file's syntax. Each is parsed once: Python 3.11 fails now and then while other threads run (python/cpython#106905)."""
    return ast.parse(file.read_text())


def layers_of(test: str) -> set[str]:
    """The layers of a test `path::name`, or of all tests of a path."""
    path, _, name = test.partition("::")
    files = [ROOT / path] if path.endswith(".py") else [*(ROOT / path).rglob("test_*.py")]
    found: set[str] = set()
    for file in files:
        tree = tree_of(file)
        wide = [node.value for node in tree.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node.targets)]
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        marks = [*wide, *(mark for node in functions if name in {"", node.name} for mark in node.decorator_list)]
        found |= {part.attr for mark in marks for part in ast.walk(mark) if isinstance(part, ast.Attribute)}
    return found & variable("LAYERS")


def test_what_a_hostile_tenant_tries_is_in_no_layer() -> None:
    assert layers_of("tests/chart/test_in_use.py") == {"helm"}
    assert layers_of("tests/apiserver/test_store.py::test_a_larger_quota_opens_a_full_store") == {"stores"}
    assert {test: found for test in rows.tests() if (found := layers_of(test))} == {}
