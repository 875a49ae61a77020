"""Measured values against the reviewed limits. Pure but for reading the limits' file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LIMITS = Path(__file__).with_name("limits.yaml")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One measured value and what was wanted."""

    name: str
    value: float
    aim: float
    limit: float
    at_least: bool = False  # for what should be large

    @property
    def within_limit(self) -> bool:
        return self._as_good_as(self.limit)

    @property
    def word(self) -> str:
        if not self.within_limit:
            return "UNDER THE LIMIT" if self.at_least else "OVER THE LIMIT"
        if self._as_good_as(self.aim):
            return "ok"
        return "under the aim" if self.at_least else "over the aim"

    def _as_good_as(self, wanted: float) -> bool:
        return self.value >= wanted if self.at_least else self.value <= wanted


def load(path: Path = LIMITS) -> dict[str, dict[str, float]]:
    """The limits' file; every entry has an aim and a limit beyond it: larger, or smaller with `at_least`."""
    limits: dict[str, dict[str, float]] = yaml.safe_load(path.read_text())
    for name, entry in limits.items():
        sign = -1 if entry.get("at_least") else 1
        if set(entry) - {"at_least"} != {"aim", "limit"} or sign * entry["limit"] < sign * entry["aim"]:
            raise ValueError(f"{path}: {name}: needs an aim and a limit that is no less than it, has {entry}")
    return limits


def judge(measured: Mapping[str, Any], limits: Mapping[str, Mapping[str, float]]) -> list[Verdict]:
    """One verdict per limit; a value that was not measured is an error and never a pass."""
    return [
        Verdict(name, _value(measured, name), entry["aim"], entry["limit"], bool(entry.get("at_least")))
        for name, entry in limits.items()
    ]


def is_measured(measured: Mapping[str, Any], name: str) -> bool:
    """Whether a run has this value: one that was asked to leave parts out has not all of them."""
    try:
        _value(measured, name)
    except ValueError:
        return False
    return True


def as_text(verdicts: list[Verdict]) -> str:
    wide = max((len(item.name) for item in verdicts), default=0) + 4
    lines = [f"{'MEASURED':<{wide}}{'VALUE':>10}{'AIM':>8}{'LIMIT':>8}  RESULT"]
    lines += [f"{item.name:<{wide}}{item.value:>10.2f}{item.aim:>8g}{item.limit:>8g}  {item.word}" for item in verdicts]
    return "\n".join(lines)


def _value(measured: Mapping[str, Any], name: str) -> float:
    value: Any = measured
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise ValueError(f"{name}: not measured")
        value = value[part]
    return float(value)
