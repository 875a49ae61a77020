"""`python -m e2e.performance`: the provisioning benchmark -> build/results/provision.json."""

import argparse
import json
import os
import sys

from e2e import install
from e2e.machine import RESULTS, Standing, stand
from e2e.performance import judgement
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
    verdicts = judgement.judge(measured, limits)
    within = all(item.within_limit for item in verdicts)
    result = {**measured, "cores": os.cpu_count(), "limits": limits, "within_limits": within}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "provision.json").write_text(json.dumps(result, indent=2) + "\n")
    print(judgement.as_text(verdicts))
    print(f"{'within the limits' if within else 'FAILED: over a limit'}; {RESULTS / 'provision.json'}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
