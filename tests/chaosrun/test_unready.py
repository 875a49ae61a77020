"""A run whose tenants cannot become Ready: it ends at once and says why, instead of waiting for five minutes. No server."""

import asyncio
from typing import Any, cast

import pytest

from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.kube.objects import ObjList
from tests.chaosrun.test_hanging import NEIGHBOUR, PLAN
from workstation.chaos import run
from workstation.chaos.judge import Limits
from workstation.chaos.run import Ground, Stopped

TARGET = PLAN.target
REFUSED = "64 GPUs are more than the class allows"


def tenant(name: str, reason: Reason | None, message: str = "", generation: int = 1, **metadata: object) -> Obj:
    """A Tenant of generation 2, or of 1, and what the controller says of that of generation 1."""
    ready = {"type": "Ready", "status": str(reason == Reason.READY), "reason": reason, "message": message}
    conditions = [] if reason is None else [ready | {"observedGeneration": 1}]
    return {"metadata": {"name": name, "generation": generation} | metadata, "status": {"conditions": conditions}}


class Host:
    """A host that lists one state of the run's tenants after the other, and then the last one for ever."""

    def __init__(self, *states: tuple[Obj, ...]) -> None:
        self._states = list(states)

    async def list(self, *_: object, **__: object) -> ObjList:
        return ObjList(list(self._states[0] if len(self._states) == 1 else self._states.pop(0)), "1")


READY = tenant(TARGET, Reason.READY), tenant(NEIGHBOUR, Reason.READY)
WAITS = tenant(TARGET, None), tenant(NEIGHBOUR, Reason.POD_NOT_STARTING, "no node")


async def ready(monkeypatch: pytest.MonkeyPatch, *states: tuple[Obj, ...]) -> set[str]:
    monkeypatch.setattr(run, "_POLL_SECONDS", 0.0)
    ground = Ground(cast("Any", Host(*states)), cast("Any", None), "bulkhead-system", lambda _: None)
    async with asyncio.timeout(5):
        return set(await run._Running(ground, PLAN, Limits(), cast("Any", None))._ready())


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ((READY[0], tenant(NEIGHBOUR, Reason.OUT_OF_BOUNDS, REFUSED)), f"{NEIGHBOUR} is refused: OutOfBounds: {REFUSED}"),
        ((READY[0],), f"{NEIGHBOUR} was deleted"),
        ((tenant(TARGET, Reason.READY, deletionTimestamp="2026-01-01T00:00:00Z"), READY[1]), f"{TARGET} was deleted"),
    ],
    ids=["refused", "gone", "being deleted"],
)
async def test_what_waiting_does_not_change_ends_the_run(
    after: tuple[Obj, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Stopped, match=says):
        await ready(monkeypatch, WAITS, WAITS, after)


async def test_what_may_still_become_ready_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is refused is the spec before the present one.
    earlier = READY[0], tenant(NEIGHBOUR, Reason.OUT_OF_BOUNDS, REFUSED, generation=2)
    assert await ready(monkeypatch, WAITS, earlier, READY) == {TARGET, NEIGHBOUR}
