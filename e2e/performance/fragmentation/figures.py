"""The results of a run, in numbers. Pure.

Averages go from the first arrival to the last. After that the run only empties, which does not represent a cluster in use.
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from e2e.performance.fragmentation.timeline import History, Sample
from e2e.performance.fragmentation.trace import Job

KINDS: Final[Mapping[str, Callable[[Job], bool]]] = {
    "whole_node_gangs": lambda job: job.is_whole,
    "other_gangs": lambda job: job.is_gang and not job.is_whole,
    "single_pods": lambda job: not job.is_gang,
}
_WORDS: Final = {
    "whole_node_gangs": "gangs on whole nodes",
    "other_gangs": "other gangs",
    "single_pods": "single pods",
}


@dataclass(frozen=True, slots=True)
class Waits:
    """How long workloads of a kind waited until all their pods had nodes, in seconds; None for workloads that never started."""

    waited: tuple[float | None, ...]

    @property
    def never(self) -> int:
        return sum(1 for item in self.waited if item is None)

    def part(self, share: float) -> float | None:
        """The wait that this part of them did not exceed; None if fewer started."""
        ordered = sorted(item for item in self.waited if item is not None)
        rank = max(0, -int(-share * len(self.waited) // 1) - 1)
        return ordered[rank] if rank < len(ordered) else None


def waits(history: History, kind: Callable[[Job], bool]) -> Waits:
    """The waits of one kind of workloads, in order of arrival."""
    started = history.started
    return Waits(
        tuple(started[job.number] - job.arrives if job.number in started else None for job in history.jobs if kind(job))
    )


def average(history: History, of: Callable[[Sample], float]) -> float:
    """The time-weighted mean over the time of arrivals."""
    begin, end = history.jobs[0].arrives, history.horizon
    total = 0.0
    for sample, until in zip(history.samples, [*(item.at for item in history.samples[1:]), end], strict=True):
        total += of(sample) * max(0.0, min(until, end) - sample.at)
    return total / (end - begin)


def summary(history: History) -> dict[str, Any]:
    """The figures of one run."""
    capacity = history.capacity
    return {
        "used_share": round(average(history, lambda sample: sample.used) / capacity, 4),
        "held_share": round(average(history, lambda sample: sample.held) / capacity, 4),
        "gangs_waiting_with_enough_free": round(average(history, lambda sample: sample.blocked), 3),
        "workloads_waiting": round(average(history, lambda sample: sample.waiting), 3),
        "never_started": len(history.jobs) - len(history.started),
        "all_ended_after_s": history.samples[-1].at if len(history.started) == len(history.jobs) else None,
        "waits": {name: _waits(waits(history, kind)) for name, kind in KINDS.items()},
    }


def _waits(found: Waits) -> dict[str, Any]:
    return {
        "workloads": len(found.waited),
        "never": found.never,
        "p50_s": found.part(0.5),
        "p90_s": found.part(0.9),
        "max_s": found.part(1.0),
    }


def same_decisions(one: History, other: History) -> bool:
    """Whether both runs placed every pod on the same node at the same moment; two runs that placed nothing prove nothing."""
    return bool(one.placed) and one.placed == other.placed


def table(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The figures of all sides side by side, for readers and for the page of measurements; several runs as a range."""
    rows: list[tuple[str, Callable[[Mapping[str, Any]], float | None], Callable[[float | None], str]]] = [
        ("GPUs in use by workloads that run", lambda run: run["used_share"], _percent),
        ("GPUs held by pods", lambda run: run["held_share"], _percent),
        (
            "gangs waiting while enough GPUs were free in sum, mean",
            lambda run: run["gangs_waiting_with_enough_free"],
            _decimal,
        ),
        ("workloads that never started", lambda run: run["never_started"], _number),
        ("everything ended after", lambda run: run["all_ended_after_s"], _hours),
    ]
    for kind in KINDS:
        for part, what in (("p50_s", "half started within"), ("p90_s", "nine of ten within"), ("max_s", "the last after")):
            rows.append((f"{_WORDS[kind]}: {what}", functools.partial(_wait, kind, part), _minutes))
    lines = [[words, *(_range([value(run) for run in item], say) for item in runs.values())] for words, value, say in rows]
    return "\n".join(map(_row, [["", *runs], ["---"] * (len(runs) + 1), *lines]))


def median(runs: Sequence[History]) -> History:
    """The run with the median use."""
    return sorted(runs, key=lambda run: average(run, lambda sample: sample.used))[len(runs) // 2]


def _wait(kind: str, part: str, run: Mapping[str, Any]) -> float | None:
    found: float | None = run["waits"][kind][part]
    return found


def _range(values: Sequence[float | None], say: Callable[[float | None], str]) -> str:
    ordered = sorted(values, key=lambda value: math.inf if value is None else value)
    least, most = say(ordered[0]), say(ordered[-1])
    return least if least == most else f"{least} to {most}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _percent(share: float | None) -> str:
    return f"{share or 0:.0%}"


def _decimal(number: float | None) -> str:
    return f"{number or 0:.1f}"


def _number(number: float | None) -> str:
    return f"{number or 0:g}"


def _hours(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds / 3600:.1f} h"


def _minutes(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds / 60:.1f} min"
