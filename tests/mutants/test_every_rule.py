"""Every rule of containment has a mutant: each validation of the host's policies, and each refusal of the translator.

    validations: in charts/bulkhead/templates/admission*.yaml ──┐
    raise Untranslatable in syncer/translate/ ──────────────────┴─> at least one mutant changes these lines

What RBAC and network policies give is held against reviewed files (tests/adversarial/rights.yaml, the goldens of planes), which
any change turns red.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.mutants import catalogue
from tests.mutants.catalogue import ROOT

Span = tuple[int, int]
MUTANTS: Final = catalogue.mutants()
LEAST_VALIDATIONS: Final = 120
LEAST_REFUSALS: Final = 120
_REFUSES: Final = "Untranslatable"


def changed_by_mutants(path: Path, text: str) -> list[Span]:
    """Where mutants change a file."""
    name = str(path.relative_to(ROOT))
    found = ((text.find(mutant.text), len(mutant.text)) for mutant in MUTANTS if mutant.file == name and mutant.text)
    return [(start, start + length) for start, length in found if start >= 0]


def untouched(path: Path, rules: list[Span]) -> list[str]:
    """The rules of a file that no mutant changes, as `file:line: its first words`."""
    text = path.read_text(encoding="utf-8")
    changed = changed_by_mutants(path, text)
    return [
        f"{path.relative_to(ROOT)}:{text[:start].count(chr(10)) + 1}: {' '.join(text[start:end].split())[:100]}"
        for start, end in rules
        if not any(first < end and last > start for first, last in changed)
    ]


def validations(text: str) -> Iterator[Span]:
    """Each item of each `validations:` of a template."""
    for block in re.finditer(r"^( *)validations:\n", text, re.MULTILINE):
        position, start = block.end(), -1
        for line in text[position:].splitlines(keepends=True):
            outside = line.strip() and not line.lstrip().startswith(("{{", "#")) and _depth(line) <= len(block.group(1))
            if start >= 0 and (outside or line.lstrip().startswith("- expression:")):
                yield start, position
                start = -1
            if outside:
                break
            if line.lstrip().startswith("- expression:"):
                start = position
            position += len(line)
        else:
            if start >= 0:
                yield start, position


def refusals(text: str) -> Iterator[Span]:
    """Each statement that refuses, with the `if` around it where there is one."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(text)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _REFUSES:
            around: ast.AST = node
            while around in parents and not isinstance(around, ast.If | ast.stmt):
                around = parents[around]
            above = parents[around]
            first = above if isinstance(above, ast.If) else around
            assert isinstance(first, ast.stmt)
            yield starts[first.lineno - 1], starts[node.end_lineno or node.lineno]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def test_every_validation_of_a_policy_has_a_mutant() -> None:
    files = sorted((ROOT / "charts" / "bulkhead" / "templates").glob("admission*.yaml"))
    found = {path: list(validations(path.read_text(encoding="utf-8"))) for path in files}
    assert sum(map(len, found.values())) >= LEAST_VALIDATIONS
    assert [rule for path, rules in found.items() for rule in untouched(path, rules)] == []


def test_every_refusal_of_the_translator_has_a_mutant() -> None:
    files = sorted((ROOT / "syncer" / "translate").rglob("*.py"))
    found = {path: list(refusals(path.read_text(encoding="utf-8"))) for path in files}
    assert sum(map(len, found.values())) >= LEAST_REFUSALS
    assert [rule for path, rules in found.items() for rule in untouched(path, rules)] == []


def test_a_rule_without_a_mutant_is_found() -> None:
    template = "  validations:\n    - expression: a\n      message: b\n    - expression: c\n  matchConditions: []\n"
    assert [template[start:end] for start, end in validations(template)] == [
        "    - expression: a\n      message: b\n", "    - expression: c\n",
    ]  # fmt: skip
    code = "def f(a):\n    if a:\n        raise Untranslatable(1)\n    return Untranslatable(2)\n"
    assert [code[start:end] for start, end in sorted(refusals(code))] == [
        "    if a:\n        raise Untranslatable(1)\n", "    return Untranslatable(2)\n",
    ]  # fmt: skip
    assert untouched(ROOT / "tests" / "mutants" / "__init__.py", [(0, 1)])
