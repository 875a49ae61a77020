"""`python -m e2e.performance.sync`: how fast and how cheap mirroring is -> build/results/sync.json.

For each N: 100 pods at once in each of N host namespaces (native), then 100 pods at once in each of N tenants, by the same
generator, on simulated nodes that run nothing. This happens three times, with one tenant nine times, and the pair with the
median ratio counts. With one tenant also 10 pods/s for a minute both ways, and 1,000 pods. Exactly N planes exist while N
tenants are measured. limits-sync.yaml lists what another tool reached on other machines. Only what was measured side by side is
judged.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from bulkhead.kube.errors import KubeError
from e2e import install
from e2e.machine import Standing, stand
from e2e.performance import judgement, report
from e2e.performance.sync_bench import Bench, Plan
from e2e.performance.sync_setup import Setup
from e2e.progress import stopwatch

LIMITS = Path(__file__).with_name("limits-sync.yaml")


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance.sync", description="Throughput, latency and cost of the mirror.")
    parser.add_argument("--tenants", default="1,5", help="the values of N, comma-separated")
    parser.add_argument("--pods", type=int, default=100, help="pods a tenant")
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="pairs of bursts for each N, more with few tenants; 1 is one; the middle one counts",
    )
    parser.add_argument("--volume", type=int, default=1000, help="pods of the one large tenant; 0 leaves that part out")
    parser.add_argument("--open-loop-seconds", type=int, default=60, help="0 leaves that part out")
    parser.add_argument("--idle-seconds", type=int, default=30)
    parser.add_argument("--prefix", default="sync", help="prefix of the names of tenants and namespaces")
    parser.add_argument("--keep", action="store_true", help="leave the tenants for another run")
    parser.add_argument("--skip-install", action="store_true", help="measure the installed Bulkhead as it is")
    chosen = parser.parse_args()
    note = stopwatch()
    plan = Plan(
        tenants=tuple(int(one) for one in chosen.tenants.split(",")),
        pods=chosen.pods,
        rounds=max(1, chosen.rounds),
        volume=chosen.volume,
        open_loop_seconds=chosen.open_loop_seconds,
        idle_seconds=chosen.idle_seconds,
    )
    limits = judgement.load(LIMITS)
    # If the run is terminated from outside, its nodes, namespaces and tenants are removed all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    if not chosen.skip_install:
        install.ensure_installed(note)
    stand(Standing.PROBE)
    with Setup.prepared(chosen.prefix, max(plan.tenants), plan.most_pods, note, keep=chosen.keep) as setup:
        bench = Bench(setup, plan, note)
        try:
            asyncio.run(bench.run())
        except BaseException as error:
            # The figures so far are kept, whatever ended the run.
            report.write("sync", bench.found | {"broke_off": f"{type(error).__name__}: {error}"})
            raise
    return report.conclude("sync", bench.found, limits, left_out=left_out(plan, limits))


def left_out(plan: Plan, limits: Iterable[str]) -> tuple[str, ...]:
    """The parts that the user told this run not to measure."""
    judged = {name.split(".")[1] for name in limits if name.startswith("tenants.")}
    others = sorted(judged - {str(count) for count in plan.tenants})
    parts = {"open_loop": plan.open_loop_seconds, "volume": plan.volume}
    return (*(f"tenants.{count}" for count in others), *(name for name, much in parts.items() if not much))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KubeError as error:
        sys.exit(f"the benchmark lost an API server: {error}; is the embedded host up (`bulkhead host status`)?")
