"""`python -m e2e.performance.slurm`: Slurm in a tenant and the same daemons started plainly -> build/results/slurm.json."""

import argparse
import os
import sys
from pathlib import Path

from e2e import install, machine
from e2e.performance import judgement, report
from e2e.performance.slurm_bench import Bench, Plan
from e2e.progress import stopwatch
from e2e.slurm import images

LIMITS = Path(__file__).with_name("limits-slurm.yaml")


def main() -> int:
    plan = Plan()
    parser = argparse.ArgumentParser(prog="e2e.performance.slurm", description="Slurm in a tenant beside plain Slurm.")
    parser.add_argument("--jobs", type=int, default=plan.jobs, help="batch jobs of each side, over all rounds")
    parser.add_argument("--rounds", type=int, default=plan.rounds)
    parser.add_argument("--workers", type=int, default=plan.workers, help="simulated workers")
    parser.add_argument("--queue", type=int, default=plan.queue, help="jobs in the queue")
    parser.add_argument("--skip-install", action="store_true", help="measure the installed Bulkhead as it is")
    chosen = parser.parse_args()
    note = stopwatch()
    limits = judgement.load(LIMITS)
    if not chosen.skip_install:
        images.ensure(note)
        install.ensure_installed(note)
    plan = Plan(jobs=chosen.jobs, rounds=chosen.rounds, workers=chosen.workers, queue=chosen.queue)
    load = os.getloadavg()[0]
    measured = Bench(machine.host_api(), plan, note).run()
    return report.conclude("slurm", measured | {"load_before": round(load, 1)}, limits)


if __name__ == "__main__":
    sys.exit(main())
