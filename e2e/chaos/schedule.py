"""The order in which experiments run, and on which tenants. Pure: all chance comes from the seed, so a run can be repeated.

`ordered` shuffles what was asked for; `draws` picks at random for as long as the caller takes.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from e2e.chaos.experiments import Experiment
from e2e.chaos.population import Kind, Member

LONGEST_MIX: Final = 24 * 3600.0
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Turn:
    """One experiment of a run and its target. The name is unique within the run."""

    experiment: Experiment
    member: Member


def duration(text: str) -> float:
    """Seconds from `90s`, `20m` or `1h`. Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d+)([smh])", text)
    seconds = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < seconds <= LONGEST_MIX:
        raise ValueError(f"MIX must be a time such as 20m or 1h, at most {LONGEST_MIX / 3600:.0f}h, not {text!r}")
    return float(seconds)


def wanted_kind(experiment: Experiment) -> Kind:
    """Which tenants an experiment is for; plain ones unless it says that it needs others."""
    kinds: dict[str, Kind] = {"slurm": "slurm", "members": "members"}
    return kinds.get(experiment.needs, "plain")


def fitting(experiment: Experiment, members: Sequence[Member]) -> tuple[Member, ...]:
    """The tenants that an experiment may have as its target, in their order."""
    return tuple(member for member in members if member.kind == wanted_kind(experiment))


def ordered(experiments: Sequence[Experiment], members: Sequence[Member], seed: int | None) -> tuple[Turn, ...]:
    """All experiments once, each on the first tenant that fits; shuffled if there is a seed.

    Raises ValueError for an experiment that no tenant of this run fits.
    """
    misfits = sorted(item.name for item in experiments if not fitting(item, members))
    if misfits:
        raise ValueError(f"no tenant of this run fits {', '.join(misfits)}; use more TENANTS (10 have every kind)")
    turns = [Turn(item, fitting(item, members)[0]) for item in experiments]
    if seed is not None:
        random.Random(seed).shuffle(turns)  # noqa: S311 -- an order that can be repeated, not a secret
    return _numbered(turns)


def check(experiments: Sequence[Experiment], members: Sequence[Member]) -> None:
    """Raises ValueError if there is nothing to draw."""
    if not any(fitting(item, members) for item in experiments):
        raise ValueError("no tenant of this run fits any of the experiments; use more TENANTS")


def draws(experiments: Sequence[Experiment], members: Sequence[Member], seed: int) -> Iterator[Turn]:
    """Experiments at random without end, each on a random tenant that fits. None comes twice in a row if there are several."""
    check(experiments, members)
    usable = [item for item in experiments if fitting(item, members)]
    chance = random.Random(seed)  # noqa: S311 -- a choice that can be repeated, not a secret
    counts: dict[str, int] = {}
    last = ""
    while True:
        item = chance.choice([item for item in usable if item.name != last or len(usable) == 1])
        member = chance.choice(fitting(item, members))
        last = item.name
        counts[item.name] = counts.get(item.name, 0) + 1
        yield Turn(_renamed(item, counts[item.name]), member)


def _numbered(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    counts: dict[str, int] = {}
    found = []
    for turn in turns:
        name = turn.experiment.name
        counts[name] = counts.get(name, 0) + 1
        found.append(replace(turn, experiment=_renamed(turn.experiment, counts[name])))
    return tuple(found)


def _renamed(experiment: Experiment, number: int) -> Experiment:
    return experiment if number == 1 else replace(experiment, name=f"{experiment.name}#{number}")
