"""Golden files of rendered objects: one file is complete, and its variants only have the differences from it.

    goldens.check(GOLDEN / "standard.yaml", goldens.whole(standard))
    goldens.check(GOLDEN / "restricted.diff", goldens.differences(standard, restricted))

A file of differences first lists the objects that are added, removed or moved, by kind, namespace and name. Then it has a
unified diff of the YAML of each object that differs; an object that exists on only one side is there line by line. Together
with the complete file it determines the variant, so the comparison is as strict as with two complete files. `UPDATE_GOLDEN=1`
writes the files.
"""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from bulkhead.api.objects import Obj

_WIDTH = 120


class _Readable(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):
    """Texts of several lines, such as files in ConfigMaps, are block scalars, so that people can review them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Readable.add_representer(str, _text)


def whole(objects: Sequence[Obj]) -> str:
    """All objects as one YAML file."""
    return yaml.dump_all(objects, Dumper=_Readable, sort_keys=True, width=_WIDTH)


def differences(base: Sequence[Obj], variant: Sequence[Obj]) -> str:
    """The differences between two lists of objects; empty if there are none."""
    before, after = _by_name(base), _by_name(variant)
    lines = _diff("objects", list(before), list(after))
    for name in dict.fromkeys([*after, *before]):
        lines += _diff(name, before.get(name, []), after.get(name, []))
    return "".join(f"{line}\n" for line in lines)


def check(path: Path, text: str) -> None:
    """Check that the file has this text; with UPDATE_GOLDEN, write it."""
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    wrong = _diff(f"{path.name} differs; review the difference, then set UPDATE_GOLDEN=1", _lines(path), text.splitlines())
    assert not wrong, "\n".join(wrong)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _by_name(objects: Sequence[Obj]) -> dict[str, list[str]]:
    named = {_name(obj): whole([obj]).splitlines() for obj in objects}
    assert len(named) == len(objects), "two objects have the same kind, namespace and name"
    return named


def _name(obj: Obj) -> str:
    meta = obj["metadata"]
    return "/".join(filter(None, (obj["kind"], meta.get("namespace"), meta["name"])))


def _diff(title: str, before: list[str], after: list[str]) -> list[str]:
    lines = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    return [f"=== {title}", *lines] if lines else []
