"""How each suite ended when it last ran on this machine: result, commit, duration. Decides nothing.

Kept beside the cached binaries (`~/.cache/bulkhead/suites.json`), so that it outlives clones and `make clean`. What is lost
with it is an order and a guess at times, never a result: the gate believes only what it has run itself.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class Result(StrEnum):
    """How a suite ended."""

    PASSED = "passed"
    FAILED = "failed"
    STOPPED = "stopped"  # by the gate, whose time was over, or by a signal: it says nothing


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a suite."""

    result: Result
    commit: str
    changed: bool  # the tree had changes that were not committed
    seconds: float
    ended: str  # UTC, as ISO 8601: sorts as text


@dataclass(frozen=True, slots=True)
class Past:
    """The record of a suite."""

    last: Run
    passed: Run | None = None  # the last that passed

    def then(self, run: Run) -> "Past":
        """The record with a newer run."""
        return Past(run, run if run.result is Result.PASSED else self.passed)

    @property
    def finished(self) -> str:
        """When the suite last had a result."""
        if self.last.result is not Result.STOPPED:
            return self.last.ended
        return self.passed.ended if self.passed is not None else ""


Record = Mapping[str, Past]


def default_path() -> Path:
    """Where this machine's record is."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bulkhead" / "suites.json"


def load(path: Path) -> dict[str, Past]:
    """The record; an unreadable file counts as an empty one."""
    try:
        return {name: Past(_run(runs["last"]), _run(runs["passed"]) if runs["passed"] else None) for name, runs in _read(path)}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def add(path: Path, name: str, run: Run) -> dict[str, Past]:
    """Note one run; the record as it is then. Two that write at once both count."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        record = load(path)
        record[name] = record[name].then(run) if name in record else Past(run, run if run.result is Result.PASSED else None)
        written = path.with_suffix(".new")
        written.write_text(json.dumps({name: asdict(past) for name, past in record.items()}, indent=2) + "\n")
        written.replace(path)
    return record


def _read(path: Path) -> list[tuple[str, dict[str, dict[str, object]]]]:
    return list(dict(json.loads(path.read_text())).items())


def _run(given: dict[str, object]) -> Run:
    return Run(
        Result(str(given["result"])),
        str(given["commit"]),
        bool(given["changed"]),
        float(str(given["seconds"])),
        str(given["ended"]),
    )
