"""Reconciles of Tenants whose edit is refused and then taken back, on a real API server with the definition's own rules."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Unprocessable
from tests.kit.controllerhost import ControllerHost, ask, fingerprint, ready, take_down
from tests.kit.crds import install
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
LATER = "2999-01-01T00:00:00Z"


@pytest.fixture
async def client(host_client: Client) -> Client:
    await install(host_client)
    return host_client


async def offer(client: Client, name: str, **storage: Any) -> None:
    made = tenant_class(controlPlane={"storage": {"maxSize": "8Gi"} | storage}) | {"metadata": {"name": name}}
    await client.apply(kinds.TENANT_CLASSES, made)


@asynccontextmanager
async def living(client: Client, name: str, plane: Obj) -> AsyncIterator[ControllerHost]:
    """A controller, and a Tenant with a class of its own."""
    await offer(client, name)
    await ask(client, name, **{"class": name}, controlPlane=plane)
    async with ControllerHost(client) as world:
        yield world
        await take_down(world, name)
    await client.delete(kinds.TENANT_CLASSES, name)


async def edit(client: Client, name: str, size: str | None = None, **spec: Any) -> Obj:
    plane = {"controlPlane": {"storage": {"size": size}}} if size else {}
    return await client.patch(kinds.TENANTS, name, {"spec": plane | spec})


def message(tenant: Obj) -> str:
    return str(next(item["message"] for item in tenant["status"]["conditions"] if item["type"] == "Ready"))


def refused(tenant: Obj) -> int | None:
    found = tenant["status"].get("refusedGeneration")
    return int(found) if found is not None else None


async def test_a_size_that_was_refused_is_taken_back_and_one_that_was_accepted_is_not(client: Client) -> None:
    async with living(client, "back", {"replicas": 1, "storage": {"size": "2Gi"}}) as world:
        assert refused(await world.settle("back")) is None
        before = await fingerprint(client, "back")
        edited = await edit(client, "back", controlPlane={"replicas": 3, "storage": {"size": "20Ti"}})
        # Nothing has judged it yet.
        with pytest.raises(Unprocessable, match="never shrink"):
            await edit(client, "back", "2Gi")
        tenant = await world.settle("back")
        assert ready(tenant) == ("False", "OutOfBounds")
        assert "take it back" in message(tenant)
        assert refused(tenant) == edited["metadata"]["generation"]
        # Less than what was accepted is refused too, by name, and corrected.
        await edit(client, "back", controlPlane={"replicas": 1, "storage": {"size": "1Gi"}})
        tenant = await world.settle("back")
        assert ready(tenant) == ("False", "Irreversible")
        assert "spec.controlPlane.storage.size: 1Gi, but 2Gi was accepted" in message(tenant)
        assert refused(tenant) == tenant["metadata"]["generation"]
        assert await fingerprint(client, "back") == before
        await edit(client, "back", "2Gi")
        tenant = await world.settle("back")
        assert ready(tenant)[1] not in {"OutOfBounds", "Irreversible"}
        assert refused(tenant) is None
        await edit(client, "back", "4Gi")
        await world.settle("back")
        with pytest.raises(Unprocessable, match="never shrink"):
            await edit(client, "back", "2Gi")


async def test_what_was_accepted_just_before_the_status_says_so_is_not_taken_back(client: Client) -> None:
    async with living(client, "raced", {"storage": {"size": "2Gi"}}) as world:
        await world.settle("raced")
        await edit(client, "raced", "9Gi")
        await world.settle("raced")
        # The class allows it now. An admin takes it back at the moment when the controller accepts it.
        await offer(client, "raced", maxSize="9Gi")
        report = world.reconciler._reporter.report

        async def late(tenant: Obj, wanted: Obj) -> bool:
            assert wanted["refusedGeneration"] is None
            await edit(client, "raced", "2Gi")
            return await report(tenant, wanted)

        world.reconciler._reporter.report = late  # type: ignore[method-assign]
        await world.caught_up()
        await world.reconciler.reconcile("raced")
        world.reconciler._reporter.report = report  # type: ignore[method-assign]
        tenant = await world.settle("raced")
        assert ready(tenant) == ("False", "Irreversible")
        assert "set 9Gi or more" in message(tenant)
        await edit(client, "raced", "9Gi")
        assert ready(await world.settle("raced"))[1] != "Irreversible"


async def test_a_tenant_of_which_nothing_was_accepted_may_change_anything(client: Client) -> None:
    storage = {"size": "20Ti", "className": "mistyped"}
    async with living(client, "fresh", {"replicas": 3, "storage": storage}) as world:
        tenant = await world.settle("fresh")
        assert (ready(tenant), refused(tenant)) == (("False", "OutOfBounds"), 1)
        await client.patch(kinds.TENANTS, "fresh", {"spec": {"controlPlane": {"replicas": 1, "storage": {"className": None}}}})
        await world.settle("fresh")
        await edit(client, "fresh", "2Gi")
        tenant = await world.settle("fresh")
        assert (ready(tenant)[1] == "OutOfBounds", refused(tenant)) == (False, None)


async def test_an_edit_during_a_pause_is_taken_back_and_what_was_accepted_before_it_is_not(client: Client) -> None:
    async with living(client, "pausing", {"storage": {"size": "2Gi"}}) as world:
        await world.settle("pausing")
        await edit(client, "pausing", pausedUntil=LATER)
        tenant = await world.settle("pausing")
        assert (ready(tenant)[1], refused(tenant)) == ("Paused", None)
        with pytest.raises(Unprocessable, match="never shrink"):
            await edit(client, "pausing", "1Gi")
        await edit(client, "pausing", "20Ti")
        tenant = await world.settle("pausing")
        assert (ready(tenant)[1], refused(tenant)) == ("Paused", tenant["metadata"]["generation"])
        await edit(client, "pausing", "1Gi", pausedUntil=None)
        assert ready(await world.settle("pausing")) == ("False", "Irreversible")
        await edit(client, "pausing", "2Gi")
        assert refused(await world.settle("pausing")) is None


async def test_a_tenant_that_is_held_to_a_tighter_class_takes_back_nothing(client: Client) -> None:
    async with living(client, "tighter", {"storage": {"size": "4Gi"}}) as world:
        await world.settle("tighter")
        await offer(client, "tighter", maxSize="3Gi")
        tenant = await world.settle("tighter")
        assert (ready(tenant)[1], refused(tenant)) == ("OutOfBounds", None)
        with pytest.raises(Unprocessable, match="never shrink"):
            await edit(client, "tighter", "3Gi")
