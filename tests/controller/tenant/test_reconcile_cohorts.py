"""Reconciles of tenants that lend each other quota, on a real API server: what each may hold as others come, change and go."""

from typing import Any

import pytest

from bulkhead.api import labels, ledger
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Key
from tests.kit.controllerhost import ControllerHost, ask, fingerprint, ready, take_down
from tests.kit.crds import install
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
GPU = "nvidia.com/gpu"


@pytest.fixture
async def client(host_client: Client) -> Client:
    await install(host_client)
    lending = tenant_class(quota={"cohorts": ["research"], "resources": {GPU: {"maxNominal": 64}}})
    await host_client.apply(kinds.TENANT_CLASSES, lending | {"metadata": {"name": "lending"}})
    return host_client


def gpus(nominal: int, **said: Any) -> Obj:
    return {"class": "lending", "quota": {"cohort": "research", "resources": {GPU: {"nominal": nominal} | said}}}


async def ceiling(world: ControllerHost, tenant: str) -> str:
    """What the host lets a tenant have, once its reconciles have come to rest and the informers show it."""
    await world.settle(tenant)
    quota = await world.client.get(kinds.RESOURCE_QUOTAS, "tenant-quota", f"bh-{tenant}-work")

    async def shown() -> bool:
        held = world.owned.get(kinds.RESOURCE_QUOTAS, Key(f"bh-{tenant}-work", "tenant-quota"))
        return held is not None and held["metadata"]["resourceVersion"] == quota["metadata"]["resourceVersion"]

    await until(shown, "the informer to show the quota")
    return str(quota["spec"]["hard"]["requests.nvidia.com/gpu"])


async def test_what_others_lend_is_there_while_they_are_and_no_longer(client: Client) -> None:
    async with ControllerHost(client) as world:
        await ask(client, "lend-a", **gpus(8))
        assert await ceiling(world, "lend-a") == "8"
        await ask(client, "lend-b", **gpus(16, lendingLimit=4))
        assert await ceiling(world, "lend-b") == "24"
        assert await ceiling(world, "lend-a") == "12"
        syncer = await client.get(kinds.DEPLOYMENTS, "syncer", "bh-lend-a")
        body = {"spec": {"quota": {"resources": {GPU: {"lendingLimit": 8}}}}}
        await client.patch(kinds.TENANTS, "lend-b", body)
        await ceiling(world, "lend-b")
        assert await ceiling(world, "lend-a") == "16"
        after = await client.get(kinds.DEPLOYMENTS, "syncer", "bh-lend-a")
        assert after["metadata"]["generation"] == syncer["metadata"]["generation"], "what others lend restarts nothing"

        # From the first step of its end on, it lends nothing, and its pods may be deleted.
        await client.delete(kinds.TENANTS, "lend-b")
        await world.reconciler.reconcile("lend-b")
        quota = await client.get(kinds.RESOURCE_QUOTAS, "tenant-quota", "bh-lend-b-work")
        assert ledger.GIVEN not in quota["metadata"].get("annotations", {})
        namespace = await client.get(kinds.NAMESPACES, "bh-lend-b-work")
        assert namespace["metadata"]["annotations"][labels.ENDS] == "true"

        async def withdrawn() -> bool:
            return {each.name for each in world.owned.given()} == {"lend-a"}

        await until(withdrawn, "the informer to show that nothing is lent")
        assert await ceiling(world, "lend-a") == "8"
        await take_down(world, "lend-b")
        await take_down(world, "lend-a")


async def test_a_tenant_of_a_cohort_at_rest_costs_no_write(client: Client) -> None:
    async with ControllerHost(client) as world:
        for name in ("rest-a", "rest-b"):
            await ask(client, name, **gpus(4))
        for name in ("rest-a", "rest-b", "rest-a", "rest-b"):
            await ceiling(world, name)
        before = [await fingerprint(client, name) for name in ("rest-a", "rest-b")]
        for name in ("rest-a", "rest-b"):
            await world.reconciler.reconcile(name)
        assert [await fingerprint(client, name) for name in ("rest-a", "rest-b")] == before
        for name in ("rest-a", "rest-b"):
            await take_down(world, name)


async def test_a_paused_tenant_lends_what_it_lent(client: Client) -> None:
    async with ControllerHost(client) as world:
        for name in ("pause-a", "pause-b"):
            await ask(client, name, **gpus(4))
            await ceiling(world, name)
        body = {"spec": {"pausedUntil": "2999-01-01T00:00:00Z", "quota": {"resources": {GPU: {"nominal": 60}}}}}
        await client.patch(kinds.TENANTS, "pause-b", body)
        tenant = await world.settle("pause-b")
        assert ready(tenant) == ("False", "Paused")
        assert await ceiling(world, "pause-a") == "8"
        for name in ("pause-a", "pause-b"):
            await take_down(world, name)


async def test_flavors_are_those_of_the_cohort_and_a_tenant_that_names_others_is_refused(client: Client) -> None:
    flavors = [{"name": "h100", "nominal": 4}]
    async with ControllerHost(client) as world:
        await ask(client, "flavored", **gpus(4, flavors=flavors))
        tenant = await world.settle("flavored")
        assert ready(tenant) == ("False", "InvalidConfiguration")
        spec = {"flavors": [{"name": "h100", "resource": GPU, "nodeLabels": {"kind": "h100"}}]}
        await client.apply(kinds.COHORTS, {"metadata": {"name": "research"}, "spec": spec})
        assert await ceiling(world, "flavored") == "4"
        await client.delete(kinds.COHORTS, "research")
        assert ready(await world.settle("flavored")) == ("False", "InvalidConfiguration")
        assert await ceiling(world, "flavored") == "4", "what runs stays"
        await take_down(world, "flavored")
