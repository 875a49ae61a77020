"""The time until a Tenant is Ready for the first time is observed once for each, however far it was before."""

from datetime import UTC, datetime, timedelta

import pytest

from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from controller import metrics
from controller.tenant.report import Reporter
from tests.kit.controllerhost import ask
from tests.kit.fakeclock import FakeClock

pytestmark = pytest.mark.apiserver


def observed() -> float:
    (found,) = metrics.ready_seconds.collect()
    return next(sample.value for sample in found.samples if sample.name.endswith("_count"))


def status(*, ready: bool) -> Obj:
    condition = {"type": ConditionType.READY, "status": str(ready), "reason": Reason.READY if ready else Reason.PROVISIONING}
    condition |= {"message": "", "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    return {"conditions": [condition], "planeClusterUID": "u"}


async def report(client: Client, name: str, *, ready: bool, later: timedelta = timedelta()) -> None:
    found = await client.get(kinds.TENANTS, name)
    clock = FakeClock(datetime.now(UTC) + later)
    assert await Reporter(client, clock).report(found, status(ready=ready))


async def test_a_creation_counts_whose_plane_had_its_data_before_its_syncer_was_ready(client: Client) -> None:
    await ask(client, "first-ready")
    before = observed()
    await report(client, "first-ready", ready=False)
    assert observed() == before
    await report(client, "first-ready", ready=True)
    assert observed() == before + 1
    # It is not ready for a while, and then again.
    for ready in (False, True, True):
        await report(client, "first-ready", ready=ready)
    assert observed() == before + 1


async def test_a_plane_that_comes_back_after_its_first_hour_is_no_creation(client: Client) -> None:
    """Another controller may have observed its first Ready; this one has seen nothing of it."""
    await ask(client, "ready-again")
    before = observed()
    await report(client, "ready-again", ready=False)
    await report(client, "ready-again", ready=True, later=timedelta(hours=2))
    assert observed() == before
