"""The end of a benchmark: its figures in build/results, its verdicts on the screen, and its exit status."""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from e2e.machine import RESULTS
from e2e.performance import judgement
from e2e.performance.judgement import Limit


def conclude(name: str, measured: Mapping[str, Any], limits: Mapping[str, Limit], *, left_out: Collection[str] = ()) -> int:
    """Write build/results/<name>.json and print the table. Returns 1 unless every limit was kept, or left out on purpose."""
    verdicts = judgement.judge(measured, limits, left_out)
    complaints = judgement.complaints(verdicts)
    path = write(
        name,
        {
            **measured,
            "cores": os.cpu_count(),
            "load": os.getloadavg(),
            "limits": {name: asdict(limit) for name, limit in limits.items()},
            "left_out": [item.limit.name for item in verdicts if item.value is None and item.is_left_out],
            "not_judged": [item.limit.name for item in verdicts if item.value is not None and not item.is_judged],
            "complaints": complaints,
            "within_limits": not complaints,
        },
    )
    print(judgement.as_text(verdicts))
    for text in complaints:
        print(f"FAILED: {text} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)")
    print(f"{'FAILED' if complaints else 'within the limits'}; {path}")
    return 1 if complaints else 0


def write(name: str, result: Mapping[str, Any]) -> str:
    """Write the figures, whether or not the run succeeds."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    return str(path)
