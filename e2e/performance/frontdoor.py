"""`python -m e2e.performance.frontdoor`: the cost of the proxy -> build/results/frontdoor.json.

The proxy runs as a plain process in front of a kube-apiserver in another, so that nothing else of a host changes the figures.
The new name of a running plane and a login are measured on the embedded host. `e2e/scenarios/install` measures the time from
bare nodes to a Ready tenant, as it runs the README's commands. That time is judged here, from its file in build/results.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from e2e import install
from e2e.machine import RESULTS
from e2e.performance import judgement, report
from e2e.performance.frontdoor_address import new_name
from e2e.performance.frontdoor_load import Load, measure
from e2e.performance.frontdoor_login import logins
from e2e.progress import stopwatch

LIMITS = Path(__file__).with_name("limits-frontdoor.yaml")
# Measured by other programs: each writes a JSON object here, and its fields are judged under its name.
ELSEWHERE = ("install",)


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance.frontdoor", description="What connections through the proxy cost.")
    parser.add_argument("--watches", type=int, default=Load().watches, help="open at once; 0 leaves that part out")
    parser.add_argument("--requests", type=int, default=Load().requests, help="requests for each way, direct and by the proxy")
    parser.add_argument("--no-host", action="store_true", help="leave out the parts that need the embedded host")
    parser.add_argument("--no-install", action="store_true", help="leave out the figures that `e2e/scenarios/install` measures")
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
    found |= {} if chosen.no_install else _elsewhere()
    return report.conclude("frontdoor", found, limits, left_out=left_out(chosen))


def _elsewhere() -> dict[str, Any]:
    """The results of other benchmarks."""
    paths = {name: RESULTS / f"frontdoor-{name}.json" for name in ELSEWHERE}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.is_file()}


def left_out(chosen: argparse.Namespace) -> tuple[str, ...]:
    """The parts that the user told this run not to measure."""
    parts = {"watches": not chosen.watches, "login": chosen.no_host, "address": chosen.no_host, "install": chosen.no_install}
    return tuple(name for name, left in parts.items() if left)


if __name__ == "__main__":
    sys.exit(main())
