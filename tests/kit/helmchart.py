"""The chart as helm renders it."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from bulkhead.hostcluster import binaries

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "bulkhead"


def helm(*arguments: str) -> str:
    program = binaries.ensure("helm")["helm"]
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def rendered(*arguments: str) -> list[dict[str, Any]]:
    text = helm("template", "bulkhead", str(CHART), "--namespace=bulkhead-system", *arguments)
    return [obj for obj in yaml.safe_load_all(text) if obj]
