"""Which tenants need the ledger: a Tenant's status is not news for it, and nothing starts for one that is being deleted."""

from typing import Any, cast

import msgspec

from bulkhead.api import labels, names
from bulkhead.kube.client import Client
from bulkhead.kube.informer import Informer
from bulkhead.kube.objects import Key
from bulkhead.ledger.model import Cause, Reclaim
from controller.dispatch.avoid import Avoided
from controller.dispatch.keeps import Keeps
from controller.dispatch.moves import Moves
from controller.dispatch.observe import Need, Observed
from controller.slurm.board import Board
from tests.controller.dispatch.pods import FakeHost, host_pod, show
from tests.kit.fakeclock import FakeClock

MEMBER: dict[str, Any] = {"spec": {"quota": {"cohort": "research"}}}


def seen(informer: Informer, name: str, version: int, *, ending: bool = False, **parts: Any) -> None:
    """A watch shows an object as it is now."""
    meta = {"name": name, "uid": name, "resourceVersion": str(version)}
    meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if ending else {}
    informer._put(*informer._shrink(msgspec.json.encode({"metadata": meta} | parts), None), relist=False)


def test_of_those_that_need_it_only_the_first_and_the_last_are_news() -> None:
    news: list[bool] = []
    need = Need(cast("Client", None), lambda: news.append(need.is_declared()))
    tenants, classes, _ = need.informers
    seen(tenants, "alone", 1, spec={})
    assert news == []
    for number in range(2, 12):
        seen(tenants, f"member-{number}", number, **MEMBER)
        seen(tenants, "member-2", 100 + number, **MEMBER, status={"quota": [{"name": "cpu", "used": number}]})
    assert news == [True]
    seen(classes, "gangs", 1, spec={"scheduling": {"gangs": True}})
    for number in range(2, 12):
        tenants._drop(Key("", f"member-{number}"), relist=False)
    assert news == [True]
    seen(classes, "gangs", 2, spec={})
    assert news == [True, False]


def test_a_tenant_that_is_being_deleted_needs_no_ledger_unless_it_is_in_a_cohort() -> None:
    need = Need(cast("Client", None), lambda: None)
    tenants, _, _ = need.informers
    seen(tenants, "alone", 1, spec={})
    assert need.ending() == frozenset()
    seen(tenants, "alone", 2, spec={}, ending=True)
    assert not need.is_declared()
    seen(tenants, "member", 3, ending=True, **MEMBER)
    assert need.is_declared()
    assert need.ending() == {"alone", "member"}
    tenants._drop(Key("", "alone"), relist=False)
    assert need.ending() == {"member"}


def test_pods_at_the_gate_of_a_tenant_that_is_being_deleted_are_not_decided_on() -> None:
    need, clock = Need(cast("Client", None), lambda: None), FakeClock()
    observed = Observed(FakeHost(), clock, lambda: None, Board(), need)
    for pod in (host_pod("waits", gated=True), host_pod("runs"), host_pod("admitted", node="")):
        show(observed.pods, pod)
    show(observed.pods, host_pod("other", gated=True, meta={"namespace": "bh-other-work"}))

    quotas, moves = observed.informers[2], Moves()
    for tenant in ("team", "other"):
        meta = {"name": names.POD_QUOTA, "namespace": f"bh-{tenant}-work", "uid": tenant, "labels": {labels.TENANT: tenant}}
        quotas._put(*quotas._shrink(msgspec.json.encode({"metadata": meta}), None), relist=False)
    for moved in observed.pods.all():
        if moved.name in ("runs", "other"):
            moves.note(Reclaim(moved, Cause.MOVED, 0.0, "", "", "n1"), 0.0)

    def decided_on() -> tuple[set[str], set[str]]:
        snapshot = observed.snapshot(Avoided(), moves, Keeps(), 0.0)
        return {pod.name for pod in snapshot.pods}, {moved.pod.name for moved in snapshot.moved}

    seen(need.informers[0], "team", 1, **MEMBER)
    assert decided_on() == ({"waits", "runs", "admitted", "other"}, {"runs", "other"})
    seen(need.informers[0], "team", 2, ending=True, **MEMBER)
    pods, moved_pods = decided_on()
    assert pods == {"runs", "admitted", "other"}, "what it holds still counts"
    assert moved_pods == {"other"}, "and no place is kept for a successor that never comes"
    need.informers[0]._drop(Key("", "team"), relist=False)
    quotas._drop(Key("bh-team-work", names.POD_QUOTA), relist=False)
    assert decided_on()[1] == {"other"}, "nor once it is gone"
