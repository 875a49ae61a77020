"""The record by which members start is there before their pods, and no reconcile opens one that is closed."""

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from controller.plane.memberrecord import CONFIG_MAP, Record, data
from controller.plane.spec import PLANE
from tests.kit.controllerhost import ControllerHost, ask
from tests.kit.crds import install
from tests.kit.tenantsamples import changed, plane_spec, tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
NAME = "members"
SPACE = f"bh-{NAME}"


async def record(client: Client) -> Obj:
    found: Obj = (await client.get(kinds.CONFIG_MAPS, CONFIG_MAP, SPACE))["data"]
    return found


async def test_a_record_is_open_for_all_only_before_there_was_a_plane(host_client: Client) -> None:
    client = host_client
    await install(client)
    await client.apply(kinds.TENANT_CLASSES, tenant_class(controlPlane={"maxReplicas": 3}) | {"metadata": {"name": "of-three"}})
    await ask(client, NAME, **{"class": "of-three", "controlPlane": {"replicas": 3}})
    spec = changed(plane_spec(), tenant=NAME, control_plane={"replicas": 3})
    async with ControllerHost(client) as world:
        await world.settle(NAME)
        assert await record(client) == data(spec, Record(founding=True))
        containers = (await client.get(kinds.STATEFUL_SETS, PLANE, SPACE))["spec"]["template"]["spec"]["containers"]
        variables = {item["name"]: item for item in containers[0]["env"]}
        assert variables["MEMBERS"]["valueFrom"]["configMapKeyRef"] == {"name": CONFIG_MAP, "key": "cluster"}
        # What another hand, or a step of a replacement, has written stays.
        opened = data(spec, Record(open_for="plane-1"))
        await client.patch(kinds.CONFIG_MAPS, CONFIG_MAP, {"data": opened}, SPACE)
        await world.settle(NAME)
        assert await record(client) == opened
        # A record that is lost comes back closed: there may be members that have lost their volumes as well.
        await client.delete(kinds.CONFIG_MAPS, CONFIG_MAP, SPACE)
        await world.settle(NAME)
        assert await record(client) == data(spec, Record())
    await ask(client, "alone", **{"class": "of-three"})
    async with ControllerHost(client) as world:
        await world.settle("alone")
        with pytest.raises(NotFound):
            await client.get(kinds.CONFIG_MAPS, CONFIG_MAP, "bh-alone")
