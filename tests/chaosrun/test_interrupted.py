"""A second Ctrl-C, while a run undoes itself: the user reads how the rest is undone."""

import asyncio
from typing import Any

import pytest

from workstation.cli.chaos import running
from workstation.cli.failures import CliError, Exit

REQUEST: Any = type("Request", (), {"junit": None, "confirmed": True})()


@pytest.mark.parametrize("begun", [True, False])
def test_what_is_left_of_a_run_is_told_only_if_it_had_begun(monkeypatch: pytest.MonkeyPatch, begun: bool) -> None:
    async def interrupted(_request: Any, begins: Any) -> None:
        if begun:
            begins("the plan")
        raise asyncio.CancelledError

    monkeypatch.setattr(running, "_run", interrupted)
    with pytest.raises(CliError if begun else KeyboardInterrupt) as raised:
        running.run(REQUEST)
    if isinstance(raised.value, CliError):
        assert (raised.value.code, raised.value.next_step) == (Exit.INTERRUPTED, "undo what it has left: bulkhead chaos stop")
