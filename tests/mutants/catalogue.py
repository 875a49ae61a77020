"""The mutants as data: read, and put into a copy of the tree. What runs them is `trial`.

An area is a file. What it says of `suite`, `wider` and `cost` holds for its mutants unless one says otherwise:

    suite   what should turn red, as pytest takes it: files that take seconds
    wider   tried where the suite stays green, so that a survivor is one
    cost    pure | server | simulation: what the suite needs; of a pure one no test that needs a server is run
    keeps   the suite leaves a server as it found it, so that one serves many trials (`warm`)
"""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.kit import yamlfiles

ROOT: Final = Path(__file__).resolve().parents[2]
DATA: Final = Path(__file__).parent / "data"
SEEDED: Final = "tests/simulation/seeded"
SURVIVORS: Final = DATA / "survivors.yaml"
COSTS: Final = ("pure", "server", "simulation")


class DoesNotApplyError(Exception):
    """The text of a mutant does not stand in its file, or more than once: remake it for the present code."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule that is taken out."""

    id: str
    rule: str
    cost: str
    suite: tuple[str, ...]
    wider: tuple[str, ...]
    file: str
    text: str  # empty: `file` is a patch of the whole tree
    instead: str
    keeps: bool = False

    @property
    def area(self) -> str:
        """The area that it is of."""
        return self.id.partition("/")[0]


def mutants() -> list[Mutant]:
    """All of them, those that need the least first."""
    found = [*(each for path in areas() for each in _of_area(path)), *_seeded()]
    return sorted(found, key=lambda each: COSTS.index(each.cost))


def areas() -> list[Path]:
    """The files of the areas."""
    return sorted(path for path in DATA.glob("*.yaml") if path != SURVIVORS)


def survivors() -> dict[str, str]:
    """The mutants that no test sees, each with the reason why that is as it should be."""
    return yamlfiles.load(SURVIVORS) or {}


def put(mutant: Mutant, tree: Path) -> list[Path]:
    """Put a mutant into a copy of the tree; returns the files that it changed, by their place in the tree."""
    if not mutant.text:
        return _patched(mutant, tree)
    path = tree / mutant.file
    path.write_text(changed(mutant, path.read_text()))
    return [Path(mutant.file)]


def changed(mutant: Mutant, text: str) -> str:
    """The file with the mutant in it."""
    if (count := text.count(mutant.text)) != 1:
        raise DoesNotApplyError(f"{mutant.id}: its text stands {count} times in {mutant.file}, not once: {mutant.text!r}")
    return text.replace(mutant.text, mutant.instead)


def _of_area(path: Path) -> Iterator[Mutant]:
    area = yamlfiles.load(path)
    for each in area["mutants"]:
        said: Mapping[str, Any] = area | each
        yield Mutant(
            id=f"{path.stem}/{each['id']}",
            rule=each["rule"],
            cost=said.get("cost", "pure"),
            suite=tuple(said["suite"]),
            wider=tuple(said.get("wider", ())),
            file=each["file"],
            text=each["from"],
            instead=each["to"],
            keeps=said.get("keeps", False),
        )


def _seeded() -> Iterator[Mutant]:
    """The seeded bugs of the simulation, with the hunt as their suite."""
    for path in sorted((ROOT / SEEDED).glob("*.patch")):
        rule = path.read_text().partition("\n")[0].strip()
        file = f"{SEEDED}/{path.name}"
        yield Mutant(f"seeded/{path.stem}", rule, "simulation", (), (), file, "", "")


def _patched(mutant: Mutant, tree: Path) -> list[Path]:
    command = ["git", "apply", "-p1", "-C1", "--recount", str(ROOT / mutant.file)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DoesNotApplyError(f"{mutant.id}: {done.stderr.strip()}")
    lines = (ROOT / mutant.file).read_text().splitlines()
    return [Path(line.removeprefix("+++ b/")) for line in lines if line.startswith("+++ b/")]
