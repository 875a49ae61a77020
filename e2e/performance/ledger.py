"""`python -m e2e.performance.ledger`: what the ledger does in a second, and what it costs -> build/results/ledger.json.

The API server, the scheduler and kwok are processes of this benchmark, so it needs neither root nor the embedded host. The core
by itself is measured last, when none of them runs.
"""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from e2e.performance import judgement, ledger_core, report
from e2e.performance.ledger_bench import Shape, measure
from e2e.progress import stopwatch

LIMITS = Path(__file__).with_name("limits-ledger.yaml")


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance.ledger", description="What the ledger does, and what it costs.")
    parser.add_argument("--pods", type=int, default=Shape().pods, help="the highest number of pods at a time")
    parser.add_argument("--nodes", type=int, default=Shape().nodes, help="simulated ones, with 8 GPUs each")
    parser.add_argument("--singles", type=int, default=Shape().singles, help="pods that are admitted one by one")
    parser.add_argument("--gang", type=int, default=Shape().gang, help="pods of the one gang")
    parser.add_argument("--victims", type=int, default=Shape().victims, help="pods of one GPU that are evicted at once")
    parser.add_argument("--only-victims", action="store_true", help="run only the part with these")
    parser.add_argument("--no-core", action="store_true", help="leave out the core alone")
    chosen = parser.parse_args()
    shape = replace(
        Shape(),
        pods=chosen.pods,
        nodes=chosen.nodes,
        singles=chosen.singles,
        gang=chosen.gang,
        victims=chosen.victims,
        only_victims=chosen.only_victims,
    )
    note = stopwatch()
    limits = judgement.load(LIMITS)
    with tempfile.TemporaryDirectory(prefix="bulkhead-bench-") as folder:
        found = asyncio.run(measure(Path(folder), shape, note))
    if not chosen.no_core and not chosen.only_victims:
        found |= ledger_core.measure()
        note(f"the core alone admits {found['core_gangs_per_s']} gangs a second")
    left_out = ["core_gangs_per_s"] if chosen.no_core else []
    if chosen.only_victims:
        left_out = [name for name in limits if not name.startswith("victims.")]
    return report.conclude("ledger", found, limits, left_out=left_out)


if __name__ == "__main__":
    sys.exit(main())
