"""Events about a Tenant, on a real API server."""

import secrets
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound, Timeout
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import EVENTS
from controller.tenant.announcing import BURST, NAMESPACE, SECONDS_EACH, Announcer
from tests.kit.fakeclock import FakeClock

pytestmark = pytest.mark.apiserver


def made() -> Obj:
    name = f"team-{secrets.token_hex(4)}"
    return {"metadata": {"name": name, "uid": f"uid-{name}"}}


def ready(status: str, reason: str) -> list[Obj]:
    return [{"type": "Ready", "status": status, "reason": reason, "message": f"because of {reason}"}]


async def events(client: Client, tenant: Obj) -> list[Obj]:
    selector = f"involvedObject.kind=Tenant,involvedObject.name={tenant['metadata']['name']}"
    found: list[Obj] = (await client.list(EVENTS, NAMESPACE, field_selector=selector)).items
    return sorted(found, key=lambda each: str(each["reason"]))


async def test_what_comes_again_is_counted_up(host_client: Client) -> None:
    clock, tenant = FakeClock(), made()
    announcer = Announcer(host_client, clock)
    for _ in range(3):
        await announcer.announce(tenant, ready("True", "Ready"), ready("False", "Crashing"))
        clock.advance(SECONDS_EACH)
        await announcer.announce(tenant, ready("False", "Crashing"), ready("True", "Ready"))
    found = await events(host_client, tenant)
    assert [(each["reason"], each["type"], each["count"]) for each in found] == [
        ("Crashing", "Warning", 3),
        ("Ready", "Normal", 3),
    ]
    assert found[0]["message"] == "Ready is False: because of Crashing"
    assert found[0]["involvedObject"]["uid"] == tenant["metadata"]["uid"]
    assert found[0]["firstTimestamp"] < found[0]["lastTimestamp"]


async def test_a_later_tenant_of_the_name_has_events_of_its_own(host_client: Client) -> None:
    tenant = made()
    later = {"metadata": {"name": tenant["metadata"]["name"], "uid": "another"}}
    for each in (tenant, later):
        await Announcer(host_client, FakeClock()).announce(each, [], ready("True", "Ready"))
    assert {each["involvedObject"]["uid"] for each in await events(host_client, tenant)} == {
        tenant["metadata"]["uid"],
        "another",
    }


class Counting(Client):
    """Counts what is created, and loses what it is told to."""

    creates = 0
    gone = False
    away = False

    async def create(self, *args: Any, **kwargs: Any) -> Obj:
        self.creates += 1
        if self.away:
            raise Timeout("away")
        return await super().create(*args, **kwargs)

    async def patch(self, *args: Any, **kwargs: Any) -> Obj:
        if self.gone:
            self.gone = False
            await self.delete(EVENTS, args[1], NAMESPACE)
            raise NotFound(404, "NotFound", "expired")
        return await super().patch(*args, **kwargs)


@pytest.fixture
async def counting(host_config: KubeConfig) -> Any:
    async with Counting(host_config, user_agent="tests", field_manager="tests") as client:
        yield client


async def test_a_flapping_condition_writes_a_limited_number_of_events(counting: Counting) -> None:
    clock, tenant, other = FakeClock(), made(), made()
    announcer = Announcer(counting, clock)
    for _ in range(3 * BURST):
        await announcer.announce(tenant, [], ready("True", "Ready"))
    assert counting.creates == BURST
    await announcer.announce(other, [], ready("True", "Ready"))
    assert counting.creates == BURST + 1
    clock.advance(2 * SECONDS_EACH)
    for _ in range(BURST):
        await announcer.announce(tenant, [], ready("True", "Ready"))
    assert counting.creates == BURST + 3


async def test_an_event_that_expired_is_made_again_and_one_that_fails_is_let_go(counting: Counting) -> None:
    tenant, announcer = made(), Announcer(counting, FakeClock())
    await announcer.announce(tenant, [], ready("True", "Ready"))
    counting.gone = True
    await announcer.announce(tenant, [], ready("True", "Ready"))
    assert [each["count"] for each in await events(counting, tenant)] == [1]
    counting.away = True
    await announcer.announce(tenant, [], ready("True", "Ready"))
    assert [each["count"] for each in await events(counting, tenant)] == [1]
