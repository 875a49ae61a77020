"""Which experiments have been shown on the embedded host, when, and with what: the reviewed file `shown.yaml`.

    build/results/chaos.json ──> python -m e2e.chaos.shown ──> shown.yaml ──> docs/chaos-experiments.md

An experiment is shown by a run in which its fault was proven, its target recovered and no invariant broke. A later run of it
that fails takes the entry away.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.chaos.experiments import EXPERIMENTS
from e2e.chaos.invariants import too_busy
from e2e.machine import RESULTS

FILE: Final = Path(__file__).with_name("shown.yaml")
_HEAD: Final = (
    "# When each chaos experiment was last shown on the embedded host: its fault proven, its target well again, and of\n"
    "# the others how many requests and other work failed, and the slowest p99 with its own baseline.\n"
    "# By `python -m e2e.chaos.shown` from build/results/chaos.json.\n"
)
_NAMES: Final = frozenset(item.name for item in EXPERIMENTS)

Shown = Mapping[str, Mapping[str, Any]]


def read() -> dict[str, dict[str, Any]]:
    """The entries by experiment."""
    return yaml.safe_load(FILE.read_text(encoding="utf-8")) or {}


def unfit(run: Mapping[str, Any]) -> str:
    """Why nothing can be noted from a run; empty if it can."""
    return "; ".join(too_busy({owner: float(p99) / 1000 for owner, p99 in run["baseline_p99_ms"].items()}))


def with_run(shown: Shown, run: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The entries after a run, as its chaos.json has it."""
    found = {name: dict(entry) for name, entry in shown.items()}
    for item in run["experiments"]:
        name = item["experiment"]
        if name not in _NAMES:
            continue
        if not item["passed"] or not item["evidence"]:
            found.pop(name, None)
            continue
        others = item["neighbours"].values()
        slowest = max(others, key=lambda other: other["p99_ms"], default={"baseline_p99_ms": 0.0, "p99_ms": 0.0})
        found[name] = {
            "on": run["started"][:10],
            "tenants": len(run["tenants"]),
            "recovered_s": round(item["recovered_s"], 1),
            "requests": sum(other["requests"] for other in others),
            "failed": sum(other["errors"] + other["failed_work"] for other in others),
            "baseline_ms": round(slowest["baseline_p99_ms"]),
            "worst_ms": round(slowest["p99_ms"]),
        }
    return {item.name: found[item.name] for item in EXPERIMENTS if item.name in found}


def text(shown: Shown) -> str:
    """The file."""
    lines = [
        yaml.safe_dump({name: dict(entry)}, sort_keys=False, default_flow_style=None, width=200)
        for name, entry in shown.items()
    ]
    return _HEAD + ("".join(lines) or "{}\n")


def main() -> int:
    """Note the last run."""
    parser = argparse.ArgumentParser(prog="e2e.chaos.shown", description="Note what the last chaos run has shown.")
    parser.add_argument("run", nargs="?", type=Path, default=RESULTS / "chaos.json", help="its chaos.json")
    run = json.loads(parser.parse_args().run.read_text(encoding="utf-8"))
    if reason := unfit(run):
        print(f"nothing is noted of this run, whose bounds would excuse anything: {reason}", file=sys.stderr)
        return 1
    before = read()
    after = with_run(before, run)
    FILE.write_text(text(after), encoding="utf-8")
    print(f"{len(after)} of {len(EXPERIMENTS)} experiments are shown; {len(before)} were. Next: python -m e2e.chaos.listing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
