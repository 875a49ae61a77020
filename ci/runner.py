"""Runs suites one after the other on this machine, notes each in the record, and takes the host down where that is needed.

Says at each suite's begin what it is, how long all has taken, and how long it will take.
"""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ci import plan, record, stage
from ci.catalogue import Host, Suite
from ci.record import Result, Run
from ci.table import minutes

DOWN = ("make", "--no-print-directory", "down")
DOWN_SECONDS = 600.0


@dataclass(slots=True)
class Runner:
    """Runs several suites, one after the other."""

    commit: str
    dirty: bool
    path: Path
    environment: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    results: dict[str, Result] = field(default_factory=dict)
    _host: Host = Host.NONE

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def run(self, suite: Suite, *, until: float | None = None) -> Result:
        """Run one; `until` is the second of this run at which it is ended."""
        begin = self.elapsed
        if plan.needs_down(self._host, suite):
            say(f"down, because {suite.name} begins without a host", self.elapsed)
            stage.run(DOWN, seconds=DOWN_SECONDS)
        if suite.needs_root:
            self._host = suite.host
        takes = plan.expected(suite, record.load(self.path))
        say(f"{suite.name}: {suite.title}", self.elapsed, f"; takes about {minutes(takes)}")
        left = None if until is None else max(0.0, until - self.elapsed)
        try:
            ended = stage.run(suite.command, environment=self.environment, seconds=left)
        except stage.Signalled:
            self._note(suite, Result.STOPPED, self.elapsed - begin)
            raise
        self._note(suite, ended.result, ended.seconds)
        print(f"--- {suite.name}: {ended.result} after {minutes(ended.seconds)}", flush=True)
        return ended.result

    def _note(self, suite: Suite, result: Result, seconds: float) -> None:
        self.results[suite.name] = result
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        record.add(self.path, suite.name, Run(result, self.commit, self.dirty, round(seconds, 1), ended))

    def down(self) -> bool:
        """Take the host down, so that nothing is left on this machine."""
        say("down", self.elapsed)
        if stage.run(DOWN, seconds=DOWN_SECONDS, listen=False).result is Result.PASSED:
            return True
        print("make down failed: what it names above is still on this machine", flush=True)
        return False


def say(what: str, elapsed: float, more: str = "") -> None:
    """Print one line before a stage."""
    print(f"\n=== {what} (after {minutes(elapsed)}{more}) ===", flush=True)
