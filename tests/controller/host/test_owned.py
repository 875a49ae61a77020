"""Which reconciles a change to the controller's objects triggers: on a real API server."""

from collections.abc import AsyncIterator

import pytest

from bulkhead.api import deviceclaims, labels, ledger, names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Key
from bulkhead.ledger.given import write
from bulkhead.ledger.model import Share, Tenant
from controller.host.owned import Owned
from tests.kit.background import background
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until

pytestmark = pytest.mark.apiserver
QUOTA = Key("default", "tenant-quota")


class Told:
    """A running `Owned`, and the tenants that it has enqueued: at once, and later."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.at_once = 0
        self.later: list[float] = []
        self.owned = Owned(client, self._tell, lambda _, seconds: self.later.append(seconds))

    def _tell(self, tenant: str) -> None:
        assert tenant == "one"
        self.at_once += 1

    async def status(self, **status: Obj) -> None:
        """Write a status, and wait until the informer shows it."""
        written = await self.client.patch(
            kinds.RESOURCE_QUOTAS, QUOTA.name, {"status": status}, QUOTA.namespace, subresource="status"
        )
        await self.seen(written["metadata"]["resourceVersion"])

    async def seen(self, version: str) -> None:
        async def there() -> bool:
            held = self.owned.get(kinds.RESOURCE_QUOTAS, QUOTA)
            return held is not None and held["metadata"]["resourceVersion"] == version

        await until(there, "the informer to show the quota")


@pytest.fixture
async def client(quiet_server: ApiServer) -> AsyncIterator[Client]:
    """Of a host without quotas, at the start and again at the end."""
    async with Client(by_token(quiet_server.admin), user_agent="tests", field_manager="tests") as made:
        yield made
        for each in (await made.list(kinds.RESOURCE_QUOTAS)).items:
            await made.delete(kinds.RESOURCE_QUOTAS, each["metadata"]["name"], each["metadata"]["namespace"])


@pytest.fixture
async def told(client: Client) -> AsyncIterator[Told]:
    made = Told(client)
    async with background(made.owned.run()):
        await made.owned.synced()
        meta = {"name": QUOTA.name, "namespace": QUOTA.namespace}
        marks = {labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD, labels.TENANT: "one"}
        quota = await client.create(
            kinds.RESOURCE_QUOTAS,
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": meta | {"labels": marks},
                "spec": {"hard": {"pods": "9", "requests.nvidia.com/gpu": "8"}},
            },
        )
        await made.seen(quota["metadata"]["resourceVersion"])
        yield made


async def test_what_a_quota_counts_of_pods_is_no_work_and_accelerators_are_some_a_moment_later(told: Told) -> None:
    hard = {"pods": "9", "requests.nvidia.com/gpu": "8", "count/ingresses.networking.k8s.io": "5"}
    assert told.at_once == 1, "a new quota"

    await told.status(hard=hard, used={"pods": "0", "requests.nvidia.com/gpu": "0"})
    assert (told.at_once, told.later) == (2, []), "the host took it over: somebody waits for that"

    for pods in range(1, 6):
        await told.status(used={"pods": str(pods), "count/ingresses.networking.k8s.io": str(pods)})
    assert (told.at_once, told.later) == (2, []), "nothing that a reconcile reads is another"

    await told.status(used={"pods": "6", "requests.nvidia.com/gpu": "4"})
    assert (told.at_once, told.later) == (2, [1.0]), "the tenant's status shows it, but not at once"


async def test_a_quota_that_another_client_changes_is_enqueued_at_once(told: Told) -> None:
    changed = await told.client.patch(kinds.RESOURCE_QUOTAS, QUOTA.name, {"spec": {"hard": {"pods": "999"}}}, QUOTA.namespace)
    await told.seen(changed["metadata"]["resourceVersion"])
    assert (told.at_once, told.later) == (2, [])
    unmarked = {"metadata": {"labels": {labels.TENANT: None}}}
    await told.client.patch(kinds.RESOURCE_QUOTAS, QUOTA.name, unmarked, QUOTA.namespace)

    async def lost() -> bool:
        return told.owned.get(kinds.RESOURCE_QUOTAS, QUOTA) is None

    await until(lost, "the informer to lose the quota")
    assert (told.at_once, told.later) == (3, [])


async def test_what_the_ledger_notes_is_some_work_a_moment_later(told: Told) -> None:
    for annotations, later in (
        ({ledger.OVER_SINCE: "2026-11-24T12:00:00Z"}, []),
        ({ledger.STANDING: '{"nvidia.com/gpu":{"used":1}}'}, [1.0]),
        ({ledger.STANDING: '{"nvidia.com/gpu":{"used":2}}'}, [1.0, 1.0]),
    ):
        body = {"metadata": {"annotations": annotations}}
        changed = await told.client.patch(kinds.RESOURCE_QUOTAS, QUOTA.name, body, QUOTA.namespace)
        await told.seen(changed["metadata"]["resourceVersion"])
        assert (told.at_once, told.later) == (1, later)


async def test_what_one_is_given_is_work_for_the_others_of_its_cohort(client: Client) -> None:
    told: list[str] = []
    owned = Owned(client, lambda _: None, lambda tenant, _: told.append(tenant))

    async def gives(tenant: str, cohort: str, nominal: int) -> None:
        note = write(Tenant(tenant, cohort, shares={("", "nvidia.com/gpu"): Share(nominal)})) if cohort else None
        body = quota(tenant) | {"spec": {"hard": {"pods": "9"}}}
        body["metadata"]["annotations"] = {ledger.GIVEN: note} if note else {}
        await client.apply(kinds.NAMESPACES, {"metadata": {"name": f"bh-{tenant}-work"}})
        there = await client.apply(kinds.RESOURCE_QUOTAS, body)

        async def seen() -> bool:
            held = owned.get(kinds.RESOURCE_QUOTAS, Key(f"bh-{tenant}-work", QUOTA.name))
            return held is not None and held["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"]

        await until(seen, "the informer to show the quota")

    async with background(owned.run()):
        await owned.synced()
        for step, expected in (
            (("one", "research", 8), []),
            (("two", "research", 8), ["one"]),
            (("other", "else", 8), []),
            (("two", "research", 8), []),
            (("one", "research", 4), ["two"]),
            # From one cohort into another: both look again.
            (("one", "else", 4), ["other", "two"]),
            (("one", "", 4), ["other"]),
        ):
            told.clear()
            await gives(*step)
            assert sorted(told) == expected, step
        assert {each.name for each in owned.given()} == {"two", "other"}
        told.clear()
        await gives("three", "research", 1)
        await client.delete(kinds.RESOURCE_QUOTAS, QUOTA.name, "bh-three-work")

        async def told_twice() -> bool:
            return told == ["two", "two"]

        await until(told_twice, "the others to be told that it is gone")


async def test_what_devices_of_claims_count_as_is_said_by_the_quotas_of_objects(client: Client) -> None:
    owned = Owned(client, lambda _: None)
    async with background(owned.run()):
        await owned.synced()
        assert owned.device_lines() == {}
        for tenant, most in (("claims", 4), ("none", 0)):
            body = quota(tenant) | {"spec": {"hard": {deviceclaims.quota_name("gpu.example.com"): str(most)}}}
            lines = {deviceclaims.LINES: '{"gpu.example.com":"x.com/gpu@a"}'}
            body["metadata"] |= {"name": names.OBJECT_QUOTA, "annotations": lines}
            await client.apply(kinds.NAMESPACES, {"metadata": {"name": f"bh-{tenant}-work"}})
            await client.apply(kinds.RESOURCE_QUOTAS, body)

        async def seen() -> bool:
            return owned.tenants() >= {"claims", "none"}

        await until(seen, "both quotas")
        assert owned.device_lines() == {"claims": {"gpu.example.com": ("a", "x.com/gpu")}}


def quota(tenant: str) -> Obj:
    marks = {labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD, labels.TENANT: tenant}
    return {"metadata": {"name": QUOTA.name, "namespace": f"bh-{tenant}-work", "labels": marks}}
