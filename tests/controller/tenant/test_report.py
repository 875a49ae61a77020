"""A Tenant's status on the host is the one that was reported, and is written only when it says something new."""

from datetime import UTC, datetime

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from controller.tenant import status
from controller.tenant.report import Reporter
from tests.kit.controllerhost import ask
from tests.kit.fakeclock import FakeClock

pytestmark = pytest.mark.apiserver
HELD: Obj = {"used": 30, "limit": 24, "summary": "30/24"}


async def test_a_tenant_that_has_left_its_cohort_borrows_nothing(client: Client) -> None:
    name = "left-its-cohort"
    await ask(client, name)
    reporter = Reporter(client, FakeClock(datetime.now(UTC)))
    for gpus in (HELD | {"borrowed": 6, "lent": 0}, HELD):
        assert await reporter.report(await client.get(kinds.TENANTS, name), {"conditions": [], "gpus": gpus})
    found = await client.get(kinds.TENANTS, name)
    assert found["status"]["gpus"] == HELD
    assert not status.changed(found, {"gpus": HELD})
