"""One mutant in a copy of the tree, and what its tests say.

    Bench ── copies the tree once ──> put the mutant in ──> suite ──green──> wider suite ──> take the mutant out
                                                              └──red: killed, by the first test that was red

A test that cannot even be collected has seen nothing: such a mutant is `broken`, not killed.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.mutants.catalogue import ROOT, DoesNotApplyError, Mutant, put
from tests.mutants.warm import FORKING, KEEPING, Warm

KILLED, SURVIVED, LOST, TIMEOUT, BROKEN = "killed", "survived", "does not apply", "timeout", "broken"
# A suite takes seconds; one that has not ended by then hangs, and says nothing.
SECONDS: Final = {"pure": 480.0, "server": 480.0, "simulation": 700.0}
_FAILED: Final = 1  # how pytest and the hunt end
_HUNT: Final = "tests.simulation.hunt"
_RED: Final = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant: the first test that was red, in which suite, after how many seconds."""

    what: str
    by: str
    suite: str
    seconds: float


@dataclass(frozen=True, slots=True)
class _Ended:
    code: int | None  # nothing: it hung
    said: str


class Bench:
    """A copy of the tree in which one mutant at a time is tried."""

    def __init__(self) -> None:
        self.tree = Path(tempfile.mkdtemp(prefix="mutants-"))
        self._warm: dict[str, Warm] = {}
        for file in files():
            (self.tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, self.tree / file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cool()
        shutil.rmtree(self.tree, ignore_errors=True)

    def cool(self) -> None:
        """End all kept processes and servers."""
        for each in self._warm.values():
            each.close()
        self._warm.clear()

    def tries(self, mutant: Mutant, suite: Sequence[str], *, kept: bool = False) -> Outcome:
        """Whether a test of the suite turns red with the mutant in the code; with `kept` on a server of trials before."""
        if not kept and mutant.cost == "pure":
            self._forking()  # before the mutant is there
        started = time.monotonic()
        try:
            changed = put(mutant, self.tree)
        except DoesNotApplyError as error:
            return Outcome(LOST, str(error), "", 0.0)
        try:
            self._forget_compiled(changed)
            return _outcome(self._run(suite, mutant.cost, changed, kept=kept), suite, started)
        finally:
            for file in changed:
                shutil.copy2(ROOT / file, self.tree / file)
            self._forget_compiled(changed)

    def unchanged(self, suite: Sequence[str], cost: str, file: str = "", *, kept: bool = False) -> Outcome:
        """What a suite says without any mutant, with a file that is read afresh: `killed` means that it is red by itself."""
        started = time.monotonic()
        return _outcome(self._run(suite, cost, [Path(file)] if file else [], kept=kept), suite, started)

    def _run(self, suite: Sequence[str], cost: str, changed: Sequence[Path], *, kept: bool) -> _Ended:
        if kept or cost == "pure":
            warm = self._keeping() if kept else self._forking()
            code, red = warm.run(_pytest(suite, cost), SECONDS[cost], changed)
            if code is None:
                self.cool()
            return _Ended(code, f"FAILED {red}" if red else "")
        command = ["pytest", *_pytest(suite, cost)] if suite else [_HUNT]
        with _process([sys.executable, "-m", *command], self.tree, self._environment()) as process:
            try:
                said, _ = process.communicate(timeout=SECONDS[cost])
            except subprocess.TimeoutExpired:
                return _Ended(None, "")
            return _Ended(process.returncode, said)

    def _forking(self) -> Warm:
        return self._warm.get(FORKING) or self._warm.setdefault(FORKING, Warm(FORKING, self.tree, self._environment()))

    def _keeping(self) -> Warm:
        return self._warm.get(KEEPING) or self._warm.setdefault(KEEPING, Warm(KEEPING, self.tree, self._environment()))

    def _environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self.tree), "PYTHONHASHSEED": "0"}

    def _forget_compiled(self, changed: Sequence[Path]) -> None:
        # Python takes a compiled file for fresh by its size and its second.
        for file in changed:
            for compiled in (self.tree / file).parent.glob(f"__pycache__/{file.stem}.*.pyc"):
                compiled.unlink()


def files() -> list[Path]:
    """What a copy of the tree consists of: all that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(path for name in listed.split("\0") if name and (ROOT / (path := Path(name))).is_file())


def named(suite: Sequence[str]) -> str:
    """A suite by its name. The hunt of the simulation stands in no test file: it is the suite of those that name none."""
    return " ".join(suite) or _HUNT


def _pytest(suite: Sequence[str], cost: str) -> list[str]:
    quietly = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
    # What `make test` leaves out as a layer is tried too: a file that a mutant names turns red there or in its layer.
    without = ("host", "simulation", "outage", *(["apiserver"] if cost == "pure" else []))
    return [*quietly, "-m", " and ".join(f"not {each}" for each in without), *suite]


def _outcome(ended: _Ended, suite: Sequence[str], started: float) -> Outcome:
    seconds, name = round(time.monotonic() - started, 1), named(suite)
    if ended.code is None:
        return Outcome(TIMEOUT, "", name, seconds)
    if ended.code == 0:
        return Outcome(SURVIVED, "", name, seconds)
    if ended.code != _FAILED:
        return Outcome(BROKEN, _first_red(ended.said) or f"ended with {ended.code}", name, seconds)
    if not suite:
        return Outcome(KILLED, ended.said.splitlines()[1].partition(": ")[0], name, seconds)
    return Outcome(KILLED, _first_red(ended.said), name, seconds)


def _first_red(said: str) -> str:
    found = _RED.search(said)
    return found.group(1) if found else ""


@contextlib.contextmanager
def _process(command: Sequence[str], folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process that leaves nothing behind, however it ends: what it started goes with it."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
