"""Runs the tools that a user has: kubectl, helm, ctr and bulkhead. Every call has a deadline; an error contains the output.

Results are plain values; nothing is retried here.
"""

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.poll import PATIENCE
from workstation.hostcluster.binaries import ensure


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return (self.out + self.err).strip()


class CommandError(AssertionError):
    """A command failed; the text has the command and the end of its output."""


@functools.cache
def tool(component: str, name: str) -> str:
    """The path of a pinned binary, from the cache."""
    return str(ensure(component)[name])


def run(
    arguments: Sequence[str],
    *,
    seconds: float = 60.0,
    check: bool = True,
    given: str | None = None,
    environment: dict[str, str] | None = None,
) -> Outcome:
    """Run a command to its end. Raises `CommandError` if it fails (unless `check=False`) or exceeds its deadline."""
    env = {**os.environ, **(environment or {})}
    seconds *= PATIENCE
    try:
        done = subprocess.run(arguments, input=given, capture_output=True, text=True, timeout=seconds, env=env, check=False)
    except subprocess.TimeoutExpired as exc:
        raise CommandError(f"{' '.join(arguments)}: no end within {seconds:.0f} s") from exc
    if check and done.returncode != 0:
        tail = (done.stdout + done.stderr).strip()[-2000:]
        raise CommandError(f"{' '.join(arguments)}: exit code {done.returncode}: {tail}")
    return Outcome(done.returncode, done.stdout, done.stderr)


def kubectl(kubeconfig: Path, *arguments: str, seconds: float = 60.0, check: bool = True, given: str | None = None) -> Outcome:
    command = [tool("kubernetes", "kubectl"), f"--kubeconfig={kubeconfig}", *arguments]
    return run(command, seconds=seconds, check=check, given=given)


def helm(kubeconfig: Path, *arguments: str, seconds: float = 180.0, check: bool = True) -> Outcome:
    return run([tool("helm", "helm"), f"--kubeconfig={kubeconfig}", *arguments], seconds=seconds, check=check)


def bulkhead(
    *arguments: str,
    seconds: float = 120.0,
    check: bool = True,
    kubeconfig: Path | None = None,
    given: str | None = None,
    environment: dict[str, str] | None = None,
) -> Outcome:
    """Run this tree's command line; `environment` is added to that of this process."""
    added = {**(environment or {}), **({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})}
    words = [sys.executable, "-m", "workstation.cli.main", *arguments]
    return run(words, seconds=seconds, check=check, given=given, environment=added)
