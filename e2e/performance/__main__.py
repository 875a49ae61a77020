"""`python -m e2e.performance`: the provisioning benchmark -> build/results/provision.json."""

import argparse
import sys

from e2e import install
from e2e.machine import Standing, stand
from e2e.performance import judgement, report
from e2e.performance.provision import COUNT, Bench
from e2e.progress import stopwatch


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance", description="Time to Ready, and what idle planes cost.")
    parser.add_argument("--idle-seconds", type=float, default=300.0)
    parser.add_argument("--tenants", type=int, default=COUNT)
    chosen = parser.parse_args()
    note = stopwatch()
    limits = judgement.load()
    host = install.ensure_installed(note)
    stand(Standing.PROBE)
    measured = Bench(host, note, chosen.idle_seconds, chosen.tenants).run()
    return report.conclude("provision", measured, limits)


if __name__ == "__main__":
    sys.exit(main())
