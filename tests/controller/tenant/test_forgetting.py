"""What is left of a Tenant that is gone: each facet forgets it, also after one that could not, and that one is asked again."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Throttled, Unavailable
from controller.__main__ import Controller
from controller.settings import Settings
from controller.tenant.facets.snapshots.facet import TenantSnapshots
from controller.tenant.reconcile import Outcome, ReconcileFailed, Reconciler
from controller.tenant.turn import Facet
from tests.kit.hostileserver import fixed, http, serving

ABSENT = {"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404}


@dataclass
class Forgetful(Facet):
    """A facet that fails a number of times."""

    name: ClassVar[str] = "forgetful"
    fails: int = 0
    forgot: int = 0

    async def forget(self, tenant: str) -> None:
        if self.fails:
            self.fails -= 1
            raise Throttled(429, "TooManyRequests", "too many requests")
        self.forgot += 1


@pytest.fixture
async def reconciler() -> AsyncIterator[Reconciler]:
    """On a host on which no Tenant exists."""
    body = json.dumps(ABSENT).encode()
    async with (
        serving(fixed(http("404 Not Found", body, "Content-Type: application/json"))) as config,
        Client(config, user_agent="test", field_manager="test") as client,
    ):
        yield Controller(client, config, Settings())._workers._reconciler


async def test_a_failure_to_forget_is_one_of_the_reconcile_and_the_other_facets_forget(reconciler: Reconciler) -> None:
    before, failing, after = Forgetful(), Forgetful(fails=1), Forgetful()
    reconciler._facets = (before, failing, after)
    with pytest.raises(ReconcileFailed, match="too many requests"):
        await reconciler.reconcile("gone")
    assert (before.forgot, failing.forgot, after.forgot) == (1, 0, 1)
    assert await reconciler.reconcile("gone") == Outcome(None)
    assert failing.forgot == 1


@dataclass
class Told:
    """Tasks on a host that does not take the report on some snapshots."""

    refused: set[str]
    failed: list[str] = field(default_factory=list)

    async def fail(self, request: Obj, why: str) -> None:
        name = request["metadata"]["name"]
        if name in self.refused:
            raise Unavailable(503, "Unavailable", f"{name} was not written")
        self.failed.append(name)


async def test_each_snapshot_of_a_tenant_that_is_gone_is_reported_on_also_after_one_that_was_refused() -> None:
    tasks = Told({"first"})
    requests = type(
        "Requests", (), {"pending": lambda self, tenant: [{"metadata": {"name": n}} for n in ("first", "second")]}
    )()
    facet = TenantSnapshots(cast("Any", requests), cast("Any", tasks), cast("Any", None))
    with pytest.raises(Unavailable, match="first was not written"):
        await facet.forget("gone")
    assert tasks.failed == ["second"]
    tasks.refused.clear()
    await facet.forget("gone")
    assert tasks.failed == ["second", "first", "second"]
