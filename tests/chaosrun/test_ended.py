"""A run that ends while its fault is in place. No server."""

import asyncio
import contextlib
from typing import Any, Final, cast

import pytest

from tests.chaosrun.test_hanging import NAME, PLAN, Calm, Server
from workstation.chaos import experiment
from workstation.chaos.experiment import Stage, conduct
from workstation.chaos.experiments import BY_NAME
from workstation.chaos.judge import HOST, Limits, Pods, Proof
from workstation.chaos.measure import Samples

STEPS: Final = ("while it is injected", "while it lasts")


class Webhook(Calm):
    """A fault that is in place from its injection until it is lifted; proven at once, or never."""

    def __init__(self, *, proven: bool) -> None:
        self.there = asyncio.Event()
        self.lifted = 0
        self._proven = proven

    async def inject(self, _: object) -> list[Proof]:
        self.there.set()
        if not self._proven:
            await asyncio.sleep(60)
        return [Proof(True, "shown")]

    async def lift(self, _: object) -> None:
        self.lifted += 1


@pytest.mark.parametrize("step", STEPS)
async def test_a_target_is_freed_at_once_when_its_run_ends(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What undoes a run asks the host for the way to the target, and a run whose host is down has lost its lease."""

    async def pods(*_: object) -> dict[str, Pods]:
        return {HOST: Pods(0, frozenset())}

    fault, server = Webhook(proven=step == STEPS[1]), cast("Any", Server())
    monkeypatch.setitem(cast("Any", experiment.FAULTS), NAME, fault)  # type: ignore[attr-defined]
    monkeypatch.setattr(experiment.observe, "pods", pods)  # type: ignore[attr-defined]
    stage = Stage(server, server, PLAN, "bulkhead-system", Limits(), server, Samples(), lambda _: None)
    task = asyncio.create_task(conduct(stage, BY_NAME[NAME], (0.0, 1.0)))
    await fault.there.wait()
    await asyncio.sleep(0.1)
    assert fault.lifted == 0
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert fault.lifted == 1
