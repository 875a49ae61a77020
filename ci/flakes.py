"""Plugin of pytest (`-p ci.flakes`): a test that failed runs once more, alone; what passes then is FLAKY and forgiven.

    reports of all processes ──> failed ──> each again in a pytest of its own ──> judged ──> exit status, FLAKY section

Forgiven are failed tests and nothing else. A broken collection, a worker that died, a run that was cut short, an error while
fixtures of a whole session were removed: the run stays red, and nothing runs again. Without the plugin nothing is forgiven.
"""

import datetime as dt
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

from ci import alone, flaky

LIST: Final = "tests/flaky.yaml"
_TAIL: Final = 60  # lines of the second run that are shown
_last = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the judge in the process that sees the whole run: with xdist, the one that starts the workers."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Flakes(config))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Mark the last test of a process, which also removes the fixtures of the session."""
    item.stash[_last] = nextitem is None
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Copy the mark into the report, which reaches the judge."""
    report = yield
    report.__dict__["removes_session"] = report.when == "teardown" and item.stash.get(_last, False)
    return report


class Flakes:
    """The failed tests of one run, and their second results."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.failed: dict[str, list[pytest.TestReport]] = {}
        self.spoiled: list[str] = []  # why nothing is forgiven
        self.again: dict[str, alone.Again] = {}
        self.judged: flaky.Judged | None = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.spoiled.append(f"{report.nodeid} could not be collected")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        self.failed.setdefault(report.nodeid, []).append(report)
        if report.when not in {"setup", "call", "teardown"}:  # how xdist reports the test in which a worker died
            self.spoiled.append(f"its process died in {report.nodeid}")
        elif getattr(report, "removes_session", False):
            self.spoiled.append(f"fixtures of the session could not be removed after {report.nodeid}")

    def pytest_internalerror(self) -> None:
        self.spoiled.append("pytest itself failed")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error:
            self.spoiled.append(f"worker {node.gateway.id} ended: {error}")

    # After all other plugins: fixtures and workers are gone then. The terminal's summary wraps all of them, so it comes later.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED or not self.failed:
            return
        if session.shouldfail or session.shouldstop:
            self.spoiled.append("the run ended before its end")
        if len(self.failed) > flaky.MOST_FAILURES:
            self.spoiled.append(f"{len(self.failed)} tests failed, more than {flaky.MOST_FAILURES}")
        if self.spoiled:
            return
        try:
            self._run_again()
        except KeyboardInterrupt:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            return
        self._judge(session)

    def _run_again(self) -> None:
        xdist = self.config.pluginmanager.hasplugin("xdist")
        for node in self.failed:
            self._terminal.write_line(f"\nruns again, alone: {node}")
            self.again[node] = alone.run(node, self.config.rootpath, xdist=xdist)

    def _judge(self, session: pytest.Session) -> None:
        passed = [node for node, again in self.again.items() if again.passed]
        listing = self.config.rootpath / LIST
        listed = flaky.listed(listing.read_text()) if listing.exists() else frozenset[str]()
        self.judged = flaky.judge(passed, listed, before=_count())
        _note(passed)
        forgiven = set(self.judged.forgiven)
        stats = self._terminal.stats
        for category in ("failed", "error"):
            kept = [report for report in stats.pop(category, []) if report.nodeid not in forgiven]
            if kept:
                stats[category] = kept
        # The closing line counts them under a name of their own; this also makes it forget that something was red.
        self._terminal._add_stats("flaky", [self.failed[node][0] for node in forgiven])  # noqa: SLF001
        if forgiven == set(self.failed):
            session.exitstatus = pytest.ExitCode.OK

    @property
    def _terminal(self) -> Any:
        return self.config.pluginmanager.get_plugin("terminalreporter")

    def pytest_terminal_summary(self) -> None:
        """Print both outputs of each flaky test, and what to do."""
        if self.failed and self.spoiled:
            self._terminal.write_sep("=", "no test ran again")
            for reason in dict.fromkeys(self.spoiled):
                self._terminal.write_line(reason)
        if self.judged is None:
            return
        for node, again in self.again.items():
            if not again.passed:
                self._terminal.write_line(f"FAILED TWICE {node}: also alone")
        for node in self.judged.flaky:
            self._show(node)
        for reason in self.judged.red:
            self._terminal.write_line(f"RED: {reason}")

    def _show(self, node: str) -> None:
        self._terminal.write_sep("=", f"FLAKY {node}", yellow=True, bold=True)
        for report in self.failed[node]:
            self._terminal.write_sep("-", f"in the run it failed ({report.when})")
            report.toterminal(self._terminal._tw)  # noqa: SLF001 -- the reporter itself is not what reports write to
            for title, content in report.sections:
                self._terminal.write_sep("-", title)
                self._terminal.write_line(content.rstrip())
        self._terminal.write_sep("-", "alone it passed")
        self._terminal.write_line("\n".join(self.again[node].output.splitlines()[-_TAIL:]))
        self._terminal.write_line(f"\nadd to {LIST}, with its cause; remove the line when the test is fixed:")
        self._terminal.write_line(flaky.line(node, dt.datetime.now(dt.UTC).date()))


def _count() -> int:
    """Flakes of the gate's earlier runs; each run of pytest beside a gate stands for itself."""
    path = os.environ.get(flaky.COUNTED_IN)
    return len(Path(path).read_text().splitlines()) if path and Path(path).exists() else 0


def _note(nodes: list[str]) -> None:
    if path := os.environ.get(flaky.COUNTED_IN):
        with Path(path).open("a") as lines:
            lines.writelines(f"{node}\n" for node in nodes)
