"""Runs one test in a pytest of its own, with nothing beside it. Judges nothing."""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PATIENCE: Final = 180.0  # for what it removes when all are interrupted


@dataclass(frozen=True, slots=True)
class Again:
    """The second run of a test."""

    passed: bool  # not skipped, not left out: it ran, and passed
    output: str


def run(node: str, root: Path, *, xdist: bool) -> Again:
    """The test of this id, below this folder."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", node, "-p", "no:cacheprovider", f"--junitxml={results}"]
        command += ["-p", "no:tests.slowest.record"]  # it records what the whole run cost, and would start over
        command += ["-n0"] if xdist else []  # whatever else PYTEST_ADDOPTS says
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        with subprocess.Popen(
            command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            try:
                output, _ = process.communicate()
            except KeyboardInterrupt:  # it is of our group, so it was told as well, and tidies up
                process.communicate(timeout=_PATIENCE)
                raise
        return Again(process.returncode == 0 and results.exists() and _passed(results.read_text()), output)


def _passed(results: str) -> bool:
    """Whether one test ran and passed: pytest also exits with 0 when it was skipped."""
    suites = list(ET.fromstring(results).iter("testsuite"))  # noqa: S314 -- pytest wrote it just now
    counts = [sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")]
    return counts == [1, 0, 0, 0]
