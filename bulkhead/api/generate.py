"""Everything that is generated from the API types: the CRDs, the chart's copy of them, and the API reference.

    python -m bulkhead.api.generate            write, from the root of the repository
    python -m bulkhead.api.generate --check    fail if a file is not what the types say

Helm takes CRDs from a folder inside the chart only and follows no links out of it, hence the copy.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bulkhead.api import crd
from bulkhead.api.conditions import (
    CohortCondition,
    CohortReason,
    ConditionType,
    Reason,
    RestoreCondition,
    RestoreReason,
    SnapshotCondition,
    SnapshotReason,
)

CRD_FOLDERS = (Path("crds"), Path("charts/bulkhead/crds"))
REFERENCE = Path("docs/api.md")

_INTRODUCTION = """\
<!-- Generated from bulkhead/api by `make crds`. Do not edit. -->
# API reference

For everyone who looks up a field, a condition or a reason.
Group `bulkhead.dev`, version `v1alpha1`. The same texts are shown by `kubectl explain tenant.spec`.
"""
_NEXT = "\nNext: [troubleshooting, by reason](troubleshooting.md) · [versions](versions.md)\n"


def reference() -> str:
    """The API reference: every field with its type, default and bounds, then conditions and reasons."""
    parts = [_INTRODUCTION]
    for definition in crd.CRDS:
        schema = crd.schema_of(definition.model)
        parts.append(f"\n## {definition.model.__name__}\n\n{schema['description']} Short name `{definition.short}`.\n")
        parts.append("\n| field | type | meaning |\n| --- | --- | --- |\n")
        for path, node, required in _fields(schema):
            parts.append(
                f"| `{path}`{' (required)' if required else ''} | {_type(node)} | {_cell(str(node['description']))} |\n"
            )
    explained = (
        ("Conditions of a Tenant", ConditionType),
        ("Reasons", Reason),
        ("Conditions of a Cohort", CohortCondition),
        ("Reasons of a Cohort", CohortReason),
        ("Conditions of a TenantSnapshot", SnapshotCondition),
        ("Reasons of a TenantSnapshot", SnapshotReason),
        ("Conditions of a TenantRestore", RestoreCondition),
        ("Reasons of a TenantRestore", RestoreReason),
    )
    for title, members in explained:
        parts.append(f"\n## {title}\n\n| name | meaning |\n| --- | --- |\n")
        parts += [f"| `{member.value}` | {_cell(member.explanation)} |\n" for member in members]
    return "".join([*parts, _NEXT])


def _fields(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Every field of ours, depth first."""
    required = set(schema.get("required", ()))
    for name, node in schema.get("properties", {}).items():
        if not path and name in {"apiVersion", "kind", "metadata"}:
            continue
        here = f"{path}.{name}" if path else name
        yield here, node, name in required
        yield from _fields(node, here)
        if isinstance(node.get("items"), Mapping):
            yield from _fields(node["items"], f"{here}[]")
        if isinstance(node.get("additionalProperties"), Mapping):
            yield from _fields(node["additionalProperties"], f"{here}.<name>")


def _type(node: Mapping[str, Any]) -> str:
    """Type, choices and default in a few words."""
    name = str(node.get("type", "integer or string"))
    if "enum" in node:
        name = " or ".join(f"`{item}`" for item in node["enum"])
    elif name == "array":
        name = f"list of {node['items'].get('type', 'values')}"
    elif "additionalProperties" in node:
        name = f"map of {node['additionalProperties'].get('type', 'quantity')}"
    if "default" in node and not isinstance(node["default"], dict):
        name += f", default `{node['default']}`"
    return name


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def stale(root: Path) -> list[Path]:
    """Generated files that are missing or differ."""
    found = [folder / name for folder in CRD_FOLDERS for name in crd.stale(root / folder)]
    target = root / REFERENCE
    if not target.is_file() or target.read_text(encoding="utf-8") != reference():
        found.append(REFERENCE)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the generated files; 1 when the check fails."""
    parser = argparse.ArgumentParser(prog="python -m bulkhead.api.generate", description="Write what the API types generate.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a file is not up to date")
    options = parser.parse_args(argv)
    root = Path()
    if options.check:
        found = stale(root)
        for path in found:
            sys.stderr.write(f"{path}: not what bulkhead/api says; run make crds\n")
        return 1 if found else 0
    for folder in CRD_FOLDERS:
        crd.main([str(root / folder)])
    (root / REFERENCE).write_text(reference(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
