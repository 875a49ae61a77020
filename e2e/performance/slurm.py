"""`python -m e2e.performance.slurm`: Slurm in a tenant beside the same daemons started plainly -> build/results/slurm.json."""

import argparse
import json
import os
import sys
from pathlib import Path

from e2e import install, machine
from e2e.machine import RESULTS
from e2e.performance import judgement
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
    parser.add_argument("--skip-install", action="store_true", help="measure what is installed")
    chosen = parser.parse_args()
    note = stopwatch()
    limits = judgement.load(LIMITS)
    if not chosen.skip_install:
        images.ensure(note)
        install.ensure_installed(note)
    plan = Plan(jobs=chosen.jobs, rounds=chosen.rounds, workers=chosen.workers, queue=chosen.queue)
    load = os.getloadavg()[0]
    measured = Bench(machine.host_api(), plan, note).run()
    verdicts = judgement.judge(measured, limits)
    within = all(item.within_limit for item in verdicts)
    result = {**measured, "cores": os.cpu_count(), "load_before": round(load, 1), "limits": limits, "within_limits": within}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "slurm.json").write_text(json.dumps(result, indent=2) + "\n")
    print(judgement.as_text(verdicts))
    print(f"{'within the limits' if within else 'FAILED: beyond a limit'}; {RESULTS / 'slurm.json'}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
