"""The CIS benchmark's controls as data: each held against the flags of rendered planes, and all of them as a table.

    cis.yaml ──> Control ──┬─> does a plane have it? ──> deviations, each of which needs a reason
                           └─> a row of docs/security.md

The benchmark's own programs expect one control plane on a node, with its files at a node's paths. A plane is a pod, and a node
may hold many. So the same questions are put to what the controller renders.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from bulkhead.api.objects import Obj
from tests.kit import yamlfiles

ROOT: Final = Path(__file__).resolve().parents[3]
SOURCE: Final = Path(__file__).with_name("cis.yaml")
PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
BEGIN: Final = "<!-- The controls: written by tests/controller/plane/test_cis.py from cis.yaml; do not edit. -->"
END: Final = "<!-- End of the controls. -->"
_FIELDS: Final = frozenset({"id", "program", "asks", "wants", "shows", "has", "held", "why", "note"})
_OPERATIONS: Final = frozenset({"has", "hasNot", "atLeast", "within"})

Flags: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Control:
    """One control: what the benchmark asks of a program's flags, and why planes differ where they do."""

    id: str
    program: str
    asks: str
    wants: Mapping[str, Any]
    shows: tuple[str, ...]
    has: str
    held: str
    why: str
    note: str

    def is_met(self, flags: Flags) -> bool:
        """Whether a program with these flags has what is asked; one that no flag shows counts as met."""
        return all(fits(flags.get(name, ""), wanted) for name, wanted in self.wants.items())

    def row(self, flags: Flags, *, differs: bool) -> str:
        """The control's row of the table, with the flags of a standard plane."""
        shown = self.has or "<br>".join(_shown(name, flags) for name in self.shows)
        reason = " ".join(filter(None, (self.why, self.note)))
        return f"| {self.id} | {self.asks} | {shown} | {'**differs.** ' if differs else ''}{reason} |"


@cache
def controls() -> tuple[Control, ...]:
    """All controls, in the order of the file; raises KeyError and ValueError where one lacks a field or has one too many."""
    return tuple(control_of(entry) for entry in yamlfiles.load(SOURCE))


def control_of(given: Mapping[str, Any]) -> Control:
    """A control as its file has it."""
    if strangers := given.keys() - _FIELDS:
        raise ValueError(f"{given['id']}: no such fields: {sorted(strangers)}")
    if given["program"] not in PROGRAMS:
        raise ValueError(f"{given['id']}: program must be one of {', '.join(PROGRAMS)}, not {given['program']!r}")
    wants = given.get("wants", {})
    if not wants and not given.get("held"):
        raise ValueError(f"{given['id']}: needs `wants` or `held`")
    texts = {name: given.get(name, "") for name in ("has", "held", "why", "note")}
    return Control(str(given["id"]), given["program"], given["asks"], wants, tuple(given.get("shows", wants)), **texts)


def fits(value: str, wanted: Any) -> bool:
    """Whether a flag's value, empty if it is not set, is as wanted; raises ValueError for an unknown operation."""
    if isinstance(wanted, str):
        return bool(value) == (wanted == "set") if wanted in {"set", "unset"} else value == wanted
    if len(wanted) != 1 or not wanted.keys() <= _OPERATIONS:
        raise ValueError(f"must be one of {', '.join(sorted(_OPERATIONS))}, not {wanted}")
    ((operation, operand),) = wanted.items()
    items = value.split(",") if value else []
    if operation == "atLeast":
        return value.isdigit() and int(value) >= operand
    if operation == "within":
        return bool(items) and set(items) <= set(operand)
    return (operand in items) == (operation == "has")


def flags_of(rendered: list[Obj], program: str) -> Flags:
    """A program's flags in the rendered plane; empty for a program that the plane does not have."""
    container = next((found for found in containers(rendered) if found["name"] == program), None)
    words = () if container is None else container["command"][1:]
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def containers(rendered: list[Obj]) -> Iterator[Obj]:
    """The containers of the plane's StatefulSet."""
    for obj in rendered:
        if obj["kind"] == "StatefulSet":
            yield from obj["spec"]["template"]["spec"]["containers"]


def deviating(planes: Mapping[str, list[Obj]]) -> dict[Control, list[str]]:
    """The controls that some planes do not meet, each with the names of those planes."""
    found = {
        control: [name for name, rendered in planes.items() if not control.is_met(flags_of(rendered, control.program))]
        for control in controls()
    }
    return {control: names for control, names in found.items() if names}


def differs(control: Control, deviations: Mapping[Control, list[str]]) -> bool:
    """Whether a plane does otherwise than the benchmark asks: by its flags, or by what is written where no flag shows it."""
    return control in deviations or (not control.wants and bool(control.why))


def table(planes: Mapping[str, list[Obj]]) -> str:
    """The controls by program, for the page; flags are those of the plane `standard`."""
    deviations = deviating(planes)
    lines: list[str] = []
    for program in PROGRAMS:
        lines += [
            "",
            f"### {program}",
            "| | asked | a plane has | why it differs, and what else to know |",
            "| --- | --- | --- | --- |",
        ]
        flags = flags_of(planes["standard"], program)
        of_program = (control for control in controls() if control.program == program)
        lines += [control.row(flags, differs=differs(control, deviations)) for control in of_program]
    return "\n".join([BEGIN, *lines, "", END])


def exists(test: str) -> bool:
    """Whether a file of tests, or a test `path::name`, stands in the tree."""
    path, _, name = test.partition("::")
    if not (ROOT / path).is_file():
        return False
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    defined = (node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return not name or name in defined


def _shown(name: str, flags: Flags) -> str:
    if name not in flags:
        return f"no `{name}`"
    return f"`{name}={flags[name].replace(',', ', ')}`"
