"""What all scenarios share: they need root and the embedded host, and save the state of the host when a test fails.

Each folder is a suite (`make e2e SUITE=<folder>`) with fixtures of its own, and occupies the machine's only host.
"""

from collections.abc import Generator
from pathlib import Path

import pytest

from e2e import artefacts, machine

HERE = Path(__file__).parent
# How long a test may take, in seconds. The first test of a suite also waits for its host, and for what the suite builds.
SECONDS = {
    "core": 1200,
    "slurm": 1800,
    "nodes": 900,
    "install": 2700,
    "upgrade": 900,
    "devices": 1800,
    "registry": 1200,
    "durable": 900,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of the scenarios, and set their timeouts."""
    for item in items:
        if HERE in item.path.parents:
            suite = item.path.relative_to(HERE).parts[0]
            item.add_marker(pytest.mark.host)
            item.add_marker(pytest.mark.timeout(SECONDS[suite], func_only=True))


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show in a line of `-v` how long the test took."""
    if report.when == "call" and report.passed:
        return "passed", ".", f"PASSED in {report.duration:.0f} s"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Save conditions, events and logs if a test fails."""
    report = yield
    lost = call.excinfo is not None and isinstance(call.excinfo.value, machine.HostDownError)
    if report.failed and call.excinfo is not None and not lost and machine.KUBECONFIG.exists():
        folder = artefacts.collect(f"{item.path.stem}-{item.name}-{report.when}", machine.host_api(), str(call.excinfo.value))
        report.sections.append(("artefacts", str(folder)))
    return report
