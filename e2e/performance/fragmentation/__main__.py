"""`python -m e2e.performance.fragmentation`: the fragmentation study -> build/results/fragmentation.json and a plot.

Needs no root and no embedded host: each side in turn has an etcd, a kube-apiserver and a kube-scheduler of its own.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from e2e.machine import RESULTS
from e2e.performance.fragmentation import figures, hosts, plot, trace
from e2e.performance.fragmentation.deciding import Alone
from e2e.performance.fragmentation.moving import Moving
from e2e.performance.fragmentation.timeline import History, play
from tests.kit.servers import ServerOptions, running

PLOT: Final = RESULTS / "fragmentation.svg"
BULKHEAD: Final = "Bulkhead"
MOVING: Final = "Bulkhead, pods moved"
# Name, side, and the scheduler's settings that differ from its defaults.
SIDES: Final[Mapping[str, tuple[type[hosts.Host], Mapping[str, Any]]]] = {
    BULKHEAD: (hosts.Gated, {}),
    "stock scheduler": (hosts.Plain, {}),
    "stock scheduler, packing GPUs": (hosts.Plain, hosts.PACKING),
}


async def _run(name: str, jobs: tuple[trace.Job, ...], nodes: int) -> History:
    kind, profile = SIDES[name]
    begin = shown = time.monotonic()

    def note(now: float, left: int) -> None:
        nonlocal shown
        if time.monotonic() > shown + 10:
            shown = time.monotonic()
            print(f"[{shown - begin:4.0f} s] {name}: {now / 3600:.1f} h, {left} events known", flush=True)

    with tempfile.TemporaryDirectory() as folder, running("host", Path(folder) / "host", ServerOptions()) as server:
        async with hosts.opened(server, kind, nodes, profile) as side:
            history = await play(jobs, side, nodes * trace.PER_NODE, note)
    print(f"[{time.monotonic() - begin:4.0f} s] {name}: {len(history.started)} of {len(jobs)} workloads started", flush=True)
    return history


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance.fragmentation")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--workloads", type=int, default=600)
    parser.add_argument("--load", type=float, default=0.9, help="part of all GPUs that the workloads request while they arrive")
    parser.add_argument("--runs", type=int, default=3, help="of the stock scheduler, which picks among equal nodes by chance")
    chosen = parser.parse_args()
    jobs = trace.make(chosen.seed, nodes=chosen.nodes, jobs=chosen.workloads, load=chosen.load)
    objects = [trace.node(number) for number in range(chosen.nodes)]
    alone = asyncio.run(play(jobs, Alone(objects), chosen.nodes * trace.PER_NODE))
    runs = {
        name: [asyncio.run(_run(name, jobs, chosen.nodes)) for _ in range(1 if name == BULKHEAD else chosen.runs)]
        for name in SIDES
    }
    summaries = {name: [figures.summary(run) for run in each] for name, each in runs.items()}
    moving = Moving(jobs, objects)
    summaries[MOVING] = [figures.summary(moving.run())]
    same = figures.same_decisions(runs[BULKHEAD][0], alone)
    result = {**vars(chosen), "pods": sum(job.pods for job in jobs), "core_alone_decides_the_same": same, "sides": summaries}
    result["moved"] = moving.cost()
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "fragmentation.json").write_text(json.dumps(result, indent=2) + "\n")
    title = f"{chosen.workloads} workloads on {chosen.nodes} nodes with {trace.PER_NODE} GPUs each, seed {chosen.seed}"
    PLOT.write_text(plot.svg({name: figures.median(each) for name, each in runs.items()}, title))
    print(figures.table(summaries))
    print("moved: " + ", ".join(f"{name} {number}" for name, number in moving.cost().items()))
    print(f"the core alone decides {'the same' if same else 'SOMETHING ELSE'}; {RESULTS / 'fragmentation.json'}, {PLOT}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
