"""Runs of an installation in another namespace than the one that is named. No server."""

from typing import Any, Final, cast

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.objects import ObjList, Resource
from workstation.chaos import journal, objects, undo
from workstation.chaos.plan import Facts, Order, plan

RUN: Final = "chaos-0a1b2c"
PLAN: Final = plan(Order(("webhook-fails",)), Facts(("standard",), {}, "i"), RUN)


class Host:
    """A host with the tenants of a run whose record is in namespace `bulkhead`, and with no record elsewhere."""

    async def list(self, r: Resource, *_: object, **__: object) -> ObjList:
        tenants: list[Obj] = [objects.tenant(PLAN, name, "bulkhead") for name in PLAN.creates]
        return ObjList(tenants if r is kinds.TENANTS else [], "1")


async def test_a_run_is_not_undone_without_its_record_because_another_namespace_was_named() -> None:
    """`stop` deleted the tenants, printed "ended and undone", and a webhook stayed in a tenant with users."""
    records, (text,) = await journal.remains(cast("Any", Host()), "bulkhead-system")
    assert (records, f"run {RUN} keeps its record in namespace bulkhead: " in text) == ([], True)
    assert "bulkhead chaos stop --namespace bulkhead" in text


async def test_a_run_whose_record_is_gone_is_undone_by_its_tenants() -> None:
    assert await journal.remains(cast("Any", Host()), "bulkhead") == ([undo.whole(RUN)], [])
