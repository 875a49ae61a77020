"""Events about a Tenant, on a real API server."""

import secrets
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError, NotFound, Timeout
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
    refused: KubeError | None = None

    async def create(self, *args: Any, **kwargs: Any) -> Obj:
        self.creates += 1
        if self.refused is not None:
            raise self.refused
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


async def test_an_event_that_expired_is_made_again(counting: Counting) -> None:
    tenant, announcer = made(), Announcer(counting, FakeClock())
    await announcer.announce(tenant, [], ready("True", "Ready"))
    counting.gone = True
    await announcer.announce(tenant, [], ready("True", "Ready"))
    assert [event["count"] for event in await events(counting, tenant)] == [1]


LOST: list[Obj] = [{"type": "PlaneReady", "status": "False", "reason": "DataLost", "message": "another plane answers"}]


async def test_what_the_host_cannot_take_now_is_written_with_the_next_reconcile_in_its_order(counting: Counting) -> None:
    tenant, other, announcer = made(), made(), Announcer(counting, FakeClock())
    counting.refused = Timeout("away")
    await announcer.announce(tenant, [], [*ready("False", "Crashing"), *LOST])
    await announcer.announce(tenant, [], ready("True", "Ready"))
    assert await events(counting, tenant) == []
    counting.refused = None
    await announcer.announce(other, [], [])
    assert await events(counting, tenant) == []
    await announcer.announce(tenant, [], [])
    found = await events(counting, tenant)
    assert [event["reason"] for event in found] == ["Crashing", "DataLost", "Ready"]
    written = sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))
    assert written[-1]["reason"] == "Ready"
    await announcer.announce(tenant, [], [])
    assert [event["count"] for event in await events(counting, tenant)] == [1, 1, 1]


async def test_of_what_a_host_away_could_not_take_a_bounded_number_waits(counting: Counting) -> None:
    clock, tenant = FakeClock(), made()
    announcer = Announcer(counting, clock)
    counting.refused = Timeout("away")
    for number in range(3 * BURST):
        await announcer.announce(tenant, [], ready("False", f"Reason{number}"))
        clock.advance(SECONDS_EACH)
    assert len(announcer._owed[tenant["metadata"]["uid"]]) == BURST


async def test_an_event_that_the_host_refuses_for_good_keeps_no_other_back(counting: Counting) -> None:
    tenant, announcer = made(), Announcer(counting, FakeClock())
    counting.refused = Forbidden(403, "Forbidden", "no")
    await announcer.announce(tenant, [], ready("False", "Crashing"))
    counting.refused = None
    await announcer.announce(tenant, [], LOST)
    assert [event["reason"] for event in await events(counting, tenant)] == ["DataLost"]
