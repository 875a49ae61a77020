"""What was found of each mutant, kept as it comes: a run that is interrupted goes on where it was.

What is kept holds for one state of the tree. With another one, all is found again: a result of other code proves nothing.
"""

import hashlib
import json
import statistics
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tests.mutants.catalogue import ROOT, Mutant
from tests.mutants.trial import KILLED, SURVIVED, Outcome, files, named

RESULTS: Final = ROOT / "build/results/mutants.json"
# The mutants themselves, and the parts of the tree that are never run.
_OUTSIDE: Final = ("tests/mutants/", "docs/", ".ci/")


class Record:
    """The results of one state of the tree: of the mutants, and of suites without any."""

    def __init__(self, path: Path = RESULTS, *, again: bool = False) -> None:
        self._path = path
        self._state = state()
        kept: Mapping[str, Any] = json.loads(path.read_text()) if path.exists() and not again else {}
        fresh = kept.get("state") == self._state
        self.found = {key: Outcome(**each) for key, each in kept.get("mutants", {}).items()} if fresh else {}
        self.unchanged = {key: Outcome(**each) for key, each in kept.get("unchanged", {}).items()} if fresh else {}
        self._said: dict[str, str] = dict(kept.get("said", {})) if fresh else {}

    def known(self, mutant: Mutant, *, narrow: bool = False) -> bool:
        """Whether this mutant was tried, as it is now, with an answer: of a survivor by its wider suite, unless `narrow`."""
        there = self.found.get(mutant.id)
        if there is None or self._said.get(mutant.id) != _digest(mutant):
            return False
        enough = named(mutant.suite if narrow or not mutant.wider else mutant.wider)
        return there.what == KILLED or (there.what == SURVIVED and there.suite in {enough, named(mutant.wider or mutant.suite)})

    def add(self, mutant: Mutant, outcome: Outcome) -> None:
        """Keep what was found of a mutant."""
        self.found[mutant.id] = outcome
        self._said[mutant.id] = _digest(mutant)
        self._write()

    def add_unchanged(self, suite: str, outcome: Outcome) -> None:
        """Keep what a suite says without any mutant."""
        self.unchanged[suite] = outcome
        self._write()

    def _write(self) -> None:
        kept = {
            "state": self._state,
            "mutants": {key: asdict(each) for key, each in sorted(self.found.items())},
            "unchanged": {key: asdict(each) for key, each in sorted(self.unchanged.items())},
            "said": self._said,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        written = self._path.with_suffix(".new")
        written.write_text(json.dumps(kept, indent=1))
        written.replace(self._path)


def state() -> str:
    """A digest of all that a trial runs."""
    found = hashlib.sha256()
    for file in files():
        if not str(file).startswith(_OUTSIDE):
            found.update(f"{file}\0".encode() + hashlib.sha256((ROOT / file).read_bytes()).digest())
    return found.hexdigest()[:16]


def compact(found: Mapping[str, Outcome]) -> str:
    """Results as they are kept in the tree: a line for a mutant."""
    lines = [
        f"{json.dumps(key)}: {json.dumps([each.what, each.by, each.suite, each.seconds])}"
        for key, each in sorted(found.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def compacted(text: str) -> dict[str, Outcome]:
    """What `compact` wrote."""
    return {key: Outcome(*each) for key, each in json.loads(text).items()}


def lost(before: Mapping[str, Outcome], now: Mapping[str, Outcome]) -> list[str]:
    """The mutants that a test saw before and that none sees now; one that was not tried now is not seen."""
    return sorted(key for key, each in before.items() if each.what == KILLED and (key not in now or now[key].what != KILLED))


def table(found: Mapping[str, Outcome], mutants: Sequence[Mutant]) -> str:
    """A line for an area: mutants, killed, survived, what came to nothing, median and worst seconds to red."""
    rows: dict[str, list[Outcome]] = defaultdict(list)
    for mutant in mutants:
        if mutant.id in found:
            rows[mutant.area].append(found[mutant.id])
    lines = [f"{'area':<14}{'mutants':>8}{'killed':>8}{'survived':>9}{'other':>6}{'median s':>9}{'worst s':>9}"]
    for area, outcomes in [*sorted(rows.items()), ("all", [each for row in rows.values() for each in row])]:
        red = [each.seconds for each in outcomes if each.what == KILLED]
        green = sum(each.what == SURVIVED for each in outcomes)
        median, worst = (f"{statistics.median(red):.1f}", f"{max(red):.1f}") if red else ("", "")
        other = len(outcomes) - len(red) - green
        lines.append(f"{area:<14}{len(outcomes):>8}{len(red):>8}{green:>9}{other:>6}{median:>9}{worst:>9}")
    return "\n".join(lines)


def unexpected(found: Mapping[str, Outcome], mutants: Sequence[Mutant], expected: Collection[str]) -> list[str]:
    """What a run must not end with: a survivor that is not listed, and what told nothing."""
    return [
        f"{found[each.id].what}: {each.id}: {each.rule} ({each.file}) {found[each.id].by}".rstrip()
        for each in mutants
        if each.id in found and found[each.id].what != KILLED and each.id not in expected
    ]


def _digest(mutant: Mutant) -> str:
    return hashlib.sha256(f"{mutant.file}\0{mutant.text}\0{mutant.instead}".encode()).hexdigest()[:16]
