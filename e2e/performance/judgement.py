"""Measured values compared with the reviewed limits. Pure, except for reading the file of limits.

    limits.yaml ──> Limit ──┐
                            ├──> Verdict ──> passes
    what a run measured ────┘

A missing figure never passes: its limit fails and is named, unless the user told the run to leave that part out. A limit must
be able to fail: it is at most three times the worst recorded figure, or its figure is a ratio to a control that the same run
measures. A limit with neither is reported, but not judged.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LIMITS = Path(__file__).with_name("limits.yaml")
# A limit is at most this many times the worst figure of quiet runs.
MOST_TIMES = 3.0
_KEYS = {"aim", "limit", "at_least", "control", "recorded"}
_NONE = "none"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The worst figure of a number of runs on a quiet machine."""

    worst: float
    runs: int


@dataclass(frozen=True, slots=True)
class Limit:
    """One entry of a file of limits."""

    name: str
    aim: float
    limit: float
    at_least: bool = False  # the limit is a minimum
    control: str = ""  # the control that the same run measures, if the figure is a ratio to it
    recorded: Recorded | None = None

    @property
    def is_judged(self) -> bool:
        """Whether a recorded figure or a control proves that this limit can fail."""
        return bool(self.control) or self.recorded is not None

    @property
    def can_fail(self) -> bool:
        """Whether the limit keeps the rule about recorded figures, if there is one."""
        if self.recorded is None:
            return True
        worst = self.recorded.worst
        return self.limit >= worst / MOST_TIMES if self.at_least else self.limit <= worst * MOST_TIMES

    def holds(self, value: float, wanted: float) -> bool:
        return value >= wanted if self.at_least else value <= wanted


@dataclass(frozen=True, slots=True)
class Verdict:
    """One limit, and the value that a run measured for it; None if the run did not measure it."""

    limit: Limit
    value: float | None
    is_left_out: bool = False  # the run was told not to measure it

    @property
    def fails(self) -> bool:
        if self.value is None:
            return not self.is_left_out
        return self.limit.is_judged and not self.limit.holds(self.value, self.limit.limit)

    @property
    def is_judged(self) -> bool:
        return self.value is not None and self.limit.is_judged

    @property
    def word(self) -> str:
        below = "under" if self.limit.at_least else "over"
        if self.value is None:
            return "left out" if self.is_left_out else "NOT MEASURED"
        if not self.limit.is_judged:
            return "no recorded figure: not judged"
        if self.fails:
            return f"{below.upper()} THE LIMIT"
        return "ok" if self.limit.holds(self.value, self.limit.aim) else f"{below} the aim"


def load(path: Path = LIMITS) -> dict[str, Limit]:
    """The limits of one benchmark, by the path of the figure that they limit. A file that breaks the rules is refused."""
    document = yaml.safe_load(path.read_text())
    if set(document) != {"measured_by", "limits"}:
        raise ValueError(f"{path}: needs measured_by and limits, has {sorted(document)}")
    return {name: _entry(path, name, entry) for name, entry in document["limits"].items()}


def judge(measured: Mapping[str, Any], limits: Mapping[str, Limit], left_out: Collection[str] = ()) -> list[Verdict]:
    """One verdict for each limit. `left_out` has the figures, or their prefixes, that the user told the run not to measure."""
    return [
        Verdict(limit, _value(measured, name), any(f"{name}.".startswith(f"{part}.") for part in left_out))
        for name, limit in limits.items()
    ]


def passes(verdicts: Collection[Verdict]) -> bool:
    """Whether a run kept its limits; a run without any judged limit did not."""
    return any(item.is_judged for item in verdicts) and not any(item.fails for item in verdicts)


def complaints(verdicts: Collection[Verdict]) -> list[str]:
    """Why a run does not pass, as sentences; empty if it passes."""
    missing = [item.limit.name for item in verdicts if item.fails and item.value is None]
    beyond = [
        f"{item.limit.name} {item.value:g} ({item.limit.limit:g})" for item in verdicts if item.fails and item.value is not None
    ]
    found = [f"not measured: {', '.join(missing)}"] if missing else []
    found += [f"beyond the limit: {', '.join(beyond)}"] if beyond else []
    return found or ([] if passes(verdicts) else ["no limit was judged"])


def as_text(verdicts: Iterable[Verdict]) -> str:
    shown = list(verdicts)
    wide = max((len(item.limit.name) for item in shown), default=0) + 4
    lines = [f"{'MEASURED':<{wide}}{'VALUE':>10}{'AIM':>8}{'LIMIT':>8}  RESULT"]
    for item in shown:
        value = "-" if item.value is None else f"{item.value:.2f}"
        lines.append(f"{item.limit.name:<{wide}}{value:>10}{item.limit.aim:>8g}{item.limit.limit:>8g}  {item.word}")
    return "\n".join(lines)


def _entry(path: Path, name: str, entry: Mapping[str, Any]) -> Limit:
    sign = -1 if entry.get("at_least") else 1
    if not {"aim", "limit"} <= set(entry) <= _KEYS or sign * entry["limit"] < sign * entry["aim"]:
        raise ValueError(f"{path}: {name}: needs an aim, and a limit that is not better than the aim; has {entry}")
    given = entry.get("recorded")
    if given != _NONE and not (isinstance(given, Mapping) and set(given) == {"worst", "runs"}) and "control" not in entry:
        raise ValueError(f"{path}: {name}: needs `recorded: {{worst: …, runs: …}}`, `recorded: none` or a control, has {entry}")
    recorded = Recorded(float(given["worst"]), int(given["runs"])) if isinstance(given, Mapping) else None
    limit = Limit(name, entry["aim"], entry["limit"], bool(entry.get("at_least")), str(entry.get("control", "")), recorded)
    if not limit.can_fail:
        raise ValueError(
            f"{path}: {name}: the limit {limit.limit:g} is more than {MOST_TIMES:g} times beyond the worst recorded"
        )
    return limit


def _value(measured: Mapping[str, Any], name: str) -> float | None:
    value: Any = measured
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return None if value is None else float(value)
