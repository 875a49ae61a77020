"""`python -m e2e.performance.ledger_alone`: a process that runs only the ledger, on the cluster of KUBECONFIG.

For benchmarks: all that the process uses is used by the ledger. It ends by a signal. Meanwhile it prints the duration of its
turns, the duration of the turn with the most victims, and the number of writes.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.samples import Sample

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Decisions, Snapshot
from bulkhead.work import jsonlog
from controller.dispatch import metrics
from controller.dispatch.loop import Ledger


@dataclass(slots=True)
class Turn:
    """One turn of the ledger. All times are in seconds."""

    victims: int
    decide_s: float
    decide_cpu_s: float
    # The duration of all turns before this one.
    before_s: float


class Decider:
    """Decides as the ledger does, and records how long each decision took."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    def __call__(self, snapshot: Snapshot, now: float) -> Decisions:
        before = _sum(metrics.turn_seconds)
        wall, cpu = time.monotonic(), time.thread_time()
        decisions = decide(snapshot, now)
        took = time.monotonic() - wall
        self.turns.append(Turn(len(decisions.reclaim), took, time.thread_time() - cpu, before))
        return decisions

    def largest(self) -> dict[str, Any]:
        """The turn with the most victims; empty if no turn evicted anything."""
        at = max(range(len(self.turns)), key=lambda number: self.turns[number].victims, default=None)
        if at is None or not self.turns[at].victims:
            return {}
        turn = self.turns[at]
        after = self.turns[at + 1].before_s if at + 1 < len(self.turns) else _sum(metrics.turn_seconds)
        return {
            "victims": turn.victims,
            "decide_s": round(turn.decide_s, 3),
            "decide_cpu_s": round(turn.decide_cpu_s, 3),
            "turn_s": round(after - turn.before_s, 2),
        }


async def run() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    config = KubeConfig.from_file(os.environ["KUBECONFIG"])
    decider = Decider()
    async with Client(config, user_agent="bulkhead-ledger", field_manager="bulkhead-controller") as client:
        leader = asyncio.create_task(Ledger(client, lambda: True, decide=decider).run())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({leader, stopping}, return_when=asyncio.FIRST_COMPLETED)
        leader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leader
    print(json.dumps({**spent(), "largest_reclaim": decider.largest(), "writes": written()}), flush=True)


def spent() -> dict[str, float]:
    """The number of turns, and their average duration and that of their decisions."""
    found = {}
    for name, histogram in (("turn", metrics.turn_seconds), ("decide", metrics.decide_seconds)):
        values = {sample.name.rsplit("_", 1)[-1]: sample.value for sample in _samples(histogram)}
        found[f"{name}_mean_ms"] = round(1000 * values["sum"] / max(values["count"], 1), 1)
        found["turns"] = values["count"]
    return found


def written() -> dict[str, int]:
    """The number of writes to pods of each kind, including those that the host refused."""
    found: dict[str, int] = {}
    for sample in _samples(metrics.writes):
        if sample.name.endswith("_total"):
            what = sample.labels["what"]
            found[what] = found.get(what, 0) + int(sample.value)
    return found


def _samples(metric: MetricWrapperBase) -> Iterator[Sample]:
    for family in metric.collect():
        yield from family.samples


def _sum(metric: MetricWrapperBase) -> float:
    return next(sample.value for sample in _samples(metric) if sample.name.endswith("_sum"))


if __name__ == "__main__":
    jsonlog.configure("WARNING")
    sys.exit(asyncio.run(run()))
