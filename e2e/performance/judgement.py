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

    @property
    def within_limit(self) -> bool:
        return self.value <= self.limit

    @property
    def word(self) -> str:
        if not self.within_limit:
            return "OVER THE LIMIT"
        return "ok" if self.value <= self.aim else "over the aim"


def load(path: Path = LIMITS) -> dict[str, dict[str, float]]:
    """The limits' file; every entry has an aim and a limit, and the limit is no less than the aim."""
    limits: dict[str, dict[str, float]] = yaml.safe_load(path.read_text())
    for name, entry in limits.items():
        if set(entry) != {"aim", "limit"} or entry["limit"] < entry["aim"]:
            raise ValueError(f"{path}: {name}: needs an aim and a limit that is no less than it, has {entry}")
    return limits


def judge(measured: Mapping[str, Any], limits: Mapping[str, Mapping[str, float]]) -> list[Verdict]:
    """One verdict per limit; a value that was not measured is an error and never a pass."""
    return [Verdict(name, _value(measured, name), entry["aim"], entry["limit"]) for name, entry in limits.items()]


def as_text(verdicts: list[Verdict]) -> str:
    lines = [f"{'MEASURED':<28}{'VALUE':>10}{'AIM':>8}{'LIMIT':>8}  RESULT"]
    lines += [f"{item.name:<28}{item.value:>10.2f}{item.aim:>8g}{item.limit:>8g}  {item.word}" for item in verdicts]
    return "\n".join(lines)


def _value(measured: Mapping[str, Any], name: str) -> float:
    value: Any = measured
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise ValueError(f"{name}: not measured")
        value = value[part]
    return float(value)
