"""Identity providers of a tenant on a real API server: what its class says reaches its plane, and leaves it."""

import asyncio
import contextlib
import json
from typing import Any

import pytest

from bulkhead.api.conditions import ConditionType, find_condition
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.work.clock import SystemClock
from controller.host.issuers import Issuers
from tests.controller.decide.test_keysets import EC
from tests.kit.controllerhost import ControllerHost, ask, fingerprint, take_down
from tests.kit.crds import install
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
CORP = {"name": "corp", "url": "https://corp.example.org", "audiences": ["bulkhead-{tenant}"]}


async def answer(address: str, authorities: str) -> bytes:
    """A provider that answers to every name."""
    del authorities
    if address.endswith("/keys"):
        return json.dumps({"keys": [EC]}).encode()
    url = address.removesuffix("/.well-known/openid-configuration")
    return json.dumps({"issuer": url, "jwks_uri": f"{url}/keys"}).encode()


async def believed(client: Client, name: str) -> list[Any]:
    config = await client.get(kinds.CONFIG_MAPS, "plane-config", f"bh-{name}")
    told = json.loads(config["data"]["authentication.json"])
    return [each["issuer"]["audiences"] for each in told.get("jwt", [])]


async def template(client: Client, name: str) -> Any:
    return (await client.get(kinds.STATEFUL_SETS, "plane", f"bh-{name}"))["spec"]["template"]


async def test_a_provider_comes_and_goes_with_its_class_and_its_plane_stays(host_client: Client) -> None:
    client = host_client
    await install(client)
    await client.apply(kinds.TENANT_CLASSES, tenant_class(access={"issuers": [CORP]}) | {"metadata": {"name": "signing"}})
    await ask(client, "signs", **{"class": "signing"})
    changed = asyncio.Event()
    issuers = Issuers(SystemClock(), lambda _: changed.set(), answer)
    running = asyncio.create_task(issuers.run())
    async with ControllerHost(client, issuers=issuers) as world:
        await world.settle("signs")
        plane = await template(client, "signs")
        assert await believed(client, "signs") == []
        await client.patch(kinds.TENANTS, "signs", {"spec": {"access": {"oidc": [{"issuer": "corp"}]}}})
        await world.settle("signs")
        async with asyncio.timeout(30):
            await changed.wait()
        tenant = await world.settle("signs")
        assert await believed(client, "signs") == [["bulkhead-signs"]]
        assert "corp.keys" in (await client.get(kinds.CONFIG_MAPS, "issuers", "bh-signs"))["data"]
        condition = find_condition(tenant["status"]["conditions"], ConditionType.ISSUERS_READY)
        assert condition is not None
        assert condition["status"] == "True"
        # At rest nothing is written.
        before = await fingerprint(client, "signs")
        await world.reconciler.reconcile("signs")
        assert await fingerprint(client, "signs") == before
        # The class withdraws it: the tenant is held, and its plane no longer trusts any of its users.
        await client.patch(kinds.TENANT_CLASSES, "signing", {"spec": {"access": None}})
        tenant = await world.settle("signs")
        assert await believed(client, "signs") == []
        with pytest.raises(NotFound):
            await client.get(kinds.CONFIG_MAPS, "issuers", "bh-signs")
        assert find_condition(tenant["status"]["conditions"], ConditionType.ISSUERS_READY) is None
        assert await template(client, "signs") == plane
        await take_down(world, "signs")
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await client.delete(kinds.TENANT_CLASSES, "signing")
