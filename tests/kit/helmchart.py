"""The chart as helm renders it; the same arguments are rendered once in each process."""

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.kit import yamlfiles
from workstation.hostcluster import binaries

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "bulkhead"


def helm(*arguments: str) -> str:
    program = binaries.ensure("helm")["helm"]
    # By default it asks an API server five times a second at most once a hundred requests are made, and waits in between.
    eager = os.environ | {"HELM_QPS": "1000", "HELM_BURST_LIMIT": "1000", "GOGC": "400"}
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=60, env=eager, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def rendered(*arguments: str) -> list[dict[str, Any]]:
    """The chart's objects, as a new copy for each call, so that a test may change them."""
    objects: list[dict[str, Any]] = json.loads(_rendered(arguments))
    return objects


@functools.cache
def _rendered(arguments: tuple[str, ...]) -> str:
    text = helm("template", "bulkhead", str(CHART), "--namespace=bulkhead-system", *arguments)
    return json.dumps(yamlfiles.documents(text))
