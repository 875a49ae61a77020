"""Debian's promtool, which judges rules and fires alerts as a Prometheus does.

The package is unpacked into the cache and not installed: that would start a Prometheus on the machine.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

_FOLDER: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bulkhead" / "tests" / "prometheus"
_SECONDS: Final = 120


def promtool() -> Path:
    """The program. Skips the test, with the reason, if it is neither installed nor in the package registry."""
    if installed := shutil.which("promtool"):
        return Path(installed)
    found = _FOLDER / "usr" / "bin" / "promtool"
    if found.is_file():
        return found
    _FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER.parent) as folder:
        try:
            subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, timeout=_SECONDS, check=True)
            (package,) = Path(folder).glob("prometheus_*.deb")
            whole = Path(folder) / "whole"
            subprocess.run(["dpkg-deb", "-x", str(package), str(whole)], capture_output=True, timeout=_SECONDS, check=True)
            shutil.rmtree(_FOLDER, ignore_errors=True)
            whole.replace(_FOLDER)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            pytest.skip(f"no promtool on PATH, and Debian's package prometheus cannot be had: {str(error)[:200]}")
    return found


def run(*arguments: str) -> tuple[int, str]:
    """Run it; its exit code and all that it printed."""
    done = subprocess.run(
        [str(promtool()), *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout + done.stderr
