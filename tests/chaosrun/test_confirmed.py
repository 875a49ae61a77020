"""A target of other people that is another one, or goes, while a run measures. No server."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import KubeError, NotFound
from workstation.chaos import measure, run
from workstation.chaos.judge import Limits
from workstation.chaos.measure import Samples
from workstation.chaos.plan import Facts, Order, TenantFact, plan
from workstation.chaos.run import Ground, Stopped

FACTS: Final = Facts(("standard",), {"red": TenantFact("uid-red", ready=True)}, "i")
PLAN: Final = plan(Order(("webhook-fails", "plane-deleted"), target="red", confirmed="red"), FACTS, "chaos-0a1b2c")
SAME: Final = {"metadata": {"name": "red", "uid": "uid-red"}}
OTHER: Final = {"metadata": {"name": "red", "uid": "uid-other"}}
GOING: Final = {"metadata": {"name": "red", "uid": "uid-red", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
GONE: Final = NotFound(404, "NotFound", "gone")


class Host:
    """The target as each read finds it; and a way into planes."""

    def __init__(self, *answers: Obj | KubeError) -> None:
        self._answers = list(answers)

    async def get(self, *_: object) -> Obj:
        found = self._answers.pop(0)
        if isinstance(found, KubeError):
            raise found
        return found

    @contextlib.asynccontextmanager
    async def open(self, _: Obj) -> AsyncIterator[None]:
        yield


@pytest.mark.parametrize(
    ("found", "says"),
    [(OTHER, "is another one than the one that was confirmed"), (GOING, "is being deleted"), (GONE, "is gone")],
)
async def test_only_the_tenant_that_was_confirmed_is_broken(
    found: Obj | KubeError, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods of a plane are found by its tenant's name: those of a new `red` would be killed."""
    begun: list[str] = []

    async def conduct(_: object, experiment: Any, __: object) -> Any:
        begun.append(experiment.name)

    async def nothing(*_: object) -> Any:
        return None

    async def tenants(_: object) -> dict[str, Obj]:
        return dict.fromkeys((*PLAN.creates, "red"), SAME)

    @contextlib.asynccontextmanager
    async def measuring(_: object) -> AsyncIterator[Samples]:
        yield Samples()

    monkeypatch.setattr(run, "conduct", conduct)
    monkeypatch.setattr(run, "settle_in", nothing)
    monkeypatch.setattr(measure, "measuring", measuring)
    monkeypatch.setattr(run._Running, "_tenants", tenants)
    monkeypatch.setattr(run._Running, "_baseline", nothing)
    host = cast("Any", Host(SAME, found))
    running = run._Running(Ground(host, host, "bulkhead-system", lambda _: None), PLAN, Limits(), cast("Any", None))
    with pytest.raises(Stopped, match=says):
        await running.all()
    assert begun == ["webhook-fails"]
