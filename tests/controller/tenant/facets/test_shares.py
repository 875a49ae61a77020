"""A new tenant is Ready once what the host shares with it is in its plane: its first pod would not get it later."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from controller.decide.case import Admitted
from controller.inside.access import PlaneHealth
from controller.shares.loop import ShareLoops
from controller.shares.status import Found
from controller.tenant.facets.shares.facet import Shared, Shares
from controller.tenant.observe import Observed
from controller.tenant.turn import Seen, Turn
from tests.kit.fakeclock import FakeClock
from tests.kit.tenantsamples import plane_spec

NOW = datetime(2026, 6, 1, tzinfo=UTC)
CONDITION = ConditionType.SHARES_APPLIED


def turn(*made: object, ready: bool = False, hours: float = 0.0) -> Turn:
    status: Obj = {"conditions": [{"type": ConditionType.READY, "status": str(ready)}]}
    tenant: Obj = {"metadata": {"name": "red", "creationTimestamp": NOW.isoformat()}, "status": status}
    observed = cast("Observed", SimpleNamespace(tenant=tenant, now=NOW + timedelta(hours=hours)))
    admitted = cast("Admitted", SimpleNamespace(shares=("registry",), class_name="standard"))
    return Turn(observed, admitted, plane_spec(), made)


WAITS: dict[str, tuple[Found | None, Reason]] = {
    "not looked at": (None, Reason.PROVISIONING),
    "no answer": (Found(unread="no answer"), Reason.PLANE_UNREACHABLE),
    "no account": (Found(copies=4, waits=True), Reason.PROVISIONING),
}
WAITS_NOT = {
    "all there": Found(copies=4),
    "a conflict": Found(conflicts=("Secret team/registry",), waits=True),
    "a share that is gone": Found(troubles=("Secret a: gone",), waits=True),
    "an answer that cannot be read": Found(unread="too large", unreadable=True),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_new_tenant_waits_for_its_shares(name: str) -> None:
    found, reason = WAITS[name]
    facet = Shares(cast("ShareLoops", None))
    report = facet.report(Seen(turn(Shared(found))))
    verdict = report.conditions[CONDITION]
    assert verdict is not None
    assert (report.needed, verdict.status, verdict.reason) == ((CONDITION,), "False", reason)
    for later in (turn(Shared(found), ready=True), turn(Shared(found), hours=2)):
        assert facet.report(Seen(later)).needed == (), "another namespace, or an outage, takes Ready from no tenant"


@pytest.mark.parametrize("name", WAITS_NOT)
def test_what_is_wrong_with_a_share_keeps_no_tenant_from_being_ready(name: str) -> None:
    assert Shares(cast("ShareLoops", None)).report(Seen(turn(Shared(WAITS_NOT[name])))).needed == ()


def test_a_tenant_with_which_nothing_is_shared_waits_for_nothing() -> None:
    report = Shares(cast("ShareLoops", None)).report(Seen(turn()))
    assert (report.needed, report.conditions) == ((), {CONDITION: None})


async def test_the_first_look_is_not_taken_before_the_accounts_are_there() -> None:
    class Loops:
        ordered = 0

        def runs(self, _: str) -> bool:
            return False

        def found(self, _: str) -> None:
            return None

        def order(self, *_: object) -> None:
            self.ordered += 1

    loops = Loops()
    facet = Shares(cast("ShareLoops", loops))
    await facet.reconcile(turn(PlaneHealth(ready=True, bootstrapped=True, lacks="an account")))
    assert loops.ordered == 0
    await facet.reconcile(turn(PlaneHealth(ready=True, bootstrapped=True)))
    assert loops.ordered == 1


async def test_a_tenant_is_looked_at_again_once_the_last_account_has_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, told = iter((Found(copies=4, waits=True), Found(copies=4))), list[str]()
    ended = asyncio.Event()

    async def guarded(*_: object) -> Found:
        found = next(looks, None)
        if found is None:
            ended.set()
            await asyncio.Event().wait()
        return cast("Found", found)

    async def pause(*_: object) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(ShareLoops, "_guarded", guarded)
    monkeypatch.setattr(ShareLoops, "_pause", pause)
    unused: Any = None
    loops = ShareLoops(FakeClock(), unused, unused, told.append)
    loops.order("red", cast("Any", ("registry",)))
    async with asyncio.timeout(10):
        await ended.wait()
    await loops.close()
    assert told == ["red", "red"]
