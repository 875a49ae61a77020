"""`python -m e2e.performance.frontdoor`: what the way in costs -> build/results/frontdoor.json.

The proxy is measured as a process before a kube-apiserver that is another, so that nothing else of a host moves the figures;
the new name of a plane that runs and a login, on the embedded host. How long bare nodes take to a Ready tenant is measured
where the README's words are run (`e2e/scenarios/install`), and judged here where its file lies in build/results.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from e2e import install
from e2e.machine import RESULTS
from e2e.performance import judgement
from e2e.performance.frontdoor_address import new_name
from e2e.performance.frontdoor_load import Load, measure
from e2e.performance.frontdoor_login import logins
from e2e.progress import stopwatch

LIMITS = Path(__file__).with_name("limits-frontdoor.yaml")
# Measured by others: each leaves a JSON object here, whose fields are judged below its name.
ELSEWHERE = ("install",)


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance.frontdoor", description="What the way in costs.")
    parser.add_argument("--watches", type=int, default=Load().watches, help="open at once; 0 leaves that part out")
    parser.add_argument("--requests", type=int, default=Load().requests, help="straight and by the proxy, each")
    parser.add_argument("--no-host", action="store_true", help="leave out what needs the embedded host")
    chosen = parser.parse_args()
    note = stopwatch()
    limits = judgement.load(LIMITS)
    with tempfile.TemporaryDirectory(prefix="bulkhead-bench-") as folder:
        load = Load(requests=chosen.requests, watches=chosen.watches)
        found: dict[str, Any] = asyncio.run(measure(Path(folder), load, note))
    if not chosen.no_host:
        host = install.ensure_installed(note)
        found["login"] = logins(host, note)
        found["address"] = new_name(host, note)
    found |= _elsewhere()
    return _report(found, limits)


def _elsewhere() -> dict[str, Any]:
    """What other benchmarks have left."""
    paths = {name: RESULTS / f"frontdoor-{name}.json" for name in ELSEWHERE}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.is_file()}


def _report(measured: dict[str, Any], limits: dict[str, dict[str, float]]) -> int:
    wanted = {name: entry for name, entry in limits.items() if judgement.is_measured(measured, name)}
    verdicts = judgement.judge(measured, wanted)
    within = all(item.within_limit for item in verdicts)
    skipped = sorted(limits.keys() - wanted.keys())
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = {**measured, "cores": os.cpu_count(), "limits": limits, "not_measured": skipped, "within_limits": within}
    (RESULTS / "frontdoor.json").write_text(json.dumps(result, indent=2) + "\n")
    print(judgement.as_text(verdicts))
    if skipped:
        print(f"left out in this run: {', '.join(skipped)}")
    print(f"{'within the limits' if within else 'FAILED: over a limit'}; {RESULTS / 'frontdoor.json'}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
