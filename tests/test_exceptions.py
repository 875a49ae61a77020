"""An exception is known by its name, in logs and in `except`: no two of the product share a name."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("bulkhead", "controller", "syncer")


def test_no_two_exceptions_share_a_name() -> None:
    bases: dict[str, list[tuple[str, list[str]]]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    parents = [base.attr if isinstance(base, ast.Attribute) else ast.unparse(base) for base in node.bases]
                    bases[node.name].append((str(path.relative_to(ROOT)), parents))
    known = {"Exception", "BaseException", "ValueError", "RuntimeError", "KeyError", "OSError", "LookupError", "TypeError"}
    grown = True
    while grown:
        more = {name for name, found in bases.items() if any(set(parents) & known for _, parents in found)} - known
        known |= more
        grown = bool(more)
    shared = {name: [where for where, _ in found] for name, found in bases.items() if name in known and len(found) > 1}
    assert shared == {}
