"""Virtual time: which workloads arrive and end when, and what is seen at each moment once nothing moves any longer.

    arrivals, ends ──> Side.begin / Side.end ──> Side.settle: pods that were placed ──> whole workloads start, and end later

A side is one way to place pods. This module does not know which.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from e2e.performance.fragmentation.trace import Job


class Side(Protocol):
    """One way to place pods."""

    async def begin(self, job: Job, now: float) -> None:
        """The pods of a workload are created."""

    async def end(self, job: Job) -> None:
        """The pods of a workload are deleted, and their room is free."""

    async def settle(self, now: float) -> Mapping[str, str]:
        """The node of each pod that was placed since the last call, once no other pod will be placed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The state from one moment to the next."""

    at: float
    # GPUs that pods hold, and the part of them that belongs to running workloads.
    held: int
    used: int
    # Waiting workloads, the gangs among them, and the gangs for which enough GPUs are free in total.
    waiting: int
    gangs: int
    blocked: int


@dataclass(slots=True)
class History:
    """One run."""

    jobs: Sequence[Job]
    capacity: int
    samples: list[Sample] = field(default_factory=list)
    started: dict[int, float] = field(default_factory=dict)
    # Each pod with its node, in order of time and then of names.
    placed: list[tuple[float, str, str]] = field(default_factory=list)

    @property
    def horizon(self) -> float:
        """When the last workload arrived."""
        return max(job.arrives for job in self.jobs)


async def play(
    jobs: Sequence[Job], side: Side, capacity: int, note: Callable[[float, int], None] = lambda _now, _left: None
) -> History:
    """Run a trace until nothing more happens."""
    history = History(jobs, capacity)
    by_pod = {name: job for job in jobs for name in job.names}
    events = [(job.arrives, 1, job.number) for job in jobs]
    heapq.heapify(events)
    there: dict[int, int] = {}  # number of placed pods, by workload that has come and not gone
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, comes, number = heapq.heappop(events)
            if comes:
                there[number] = 0
                await side.begin(jobs[number], now)
            else:
                del there[number]
                await side.end(jobs[number])
        for name, node in sorted((await side.settle(now)).items()):
            job = by_pod[name]
            there[job.number] += 1
            history.placed.append((now, name, node))
            if there[job.number] == job.pods:
                history.started[job.number] = now
                heapq.heappush(events, (now + job.lasts, 0, job.number))
        history.samples.append(sample(now, there, history))
        note(now, len(events))
    return history


def sample(now: float, there: Mapping[int, int], history: History) -> Sample:
    """The state now; `there` has the number of placed pods, by workload that has come and not gone."""
    jobs = history.jobs
    held = sum(jobs[number].gpus * pods for number, pods in there.items())
    waiting = [jobs[number] for number, pods in there.items() if pods < jobs[number].pods]
    gangs = [job for job in waiting if job.is_gang]
    free = history.capacity - held
    return Sample(
        at=now,
        held=held,
        used=held - sum(job.gpus * there[job.number] for job in waiting),
        waiting=len(waiting),
        gangs=len(gangs),
        blocked=sum(1 for job in gangs if (job.pods - there[job.number]) * job.gpus <= free),
    )
