"""What a worker of xdist tells the process that started it: each test's end, and all that is not as it should be.

By default it reports three times for each test, and each report costs as much CPU as a small test does. That a fixture was
set up or removed is of interest only if it was not, or if pytest shall say how long it took.
"""

from typing import Any

import pytest


def report_less(config: pytest.Config) -> None:
    """In a worker: leave out what passed before and after a test, and the keywords of a test that passed."""
    if not hasattr(config, "workerinput") or config.getoption("durations", None) is not None:
        return
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugin.sendevent = _Lean(plugin.sendevent)


class _Lean:
    """Sends events on, but for those reports."""

    def __init__(self, send: Any) -> None:
        self._send = send

    def __call__(self, name: str, **event: Any) -> None:
        if name == "testreport" and event["data"]["outcome"] == "passed":
            if event["data"]["when"] != "call":
                return
            event["data"]["keywords"] = {}
        self._send(name, **event)
