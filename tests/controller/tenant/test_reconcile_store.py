"""A reconcile asks a plane's store by its pods' addresses, says what it found, and looks again soon while it is full."""

from collections.abc import Mapping

import pytest

from bulkhead.api.conditions import ConditionType, find_condition
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.work.clock import SystemClock
from controller.inside.stores import Stores
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import PlaneSpec
from controller.plane.storestate import Member, Store
from tests.kit.controllerhost import ControllerHost, ask
from tests.kit.crds import install
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
NAME = "fills"
FULL = Store((Member("plane-0", size=100 << 20, used=99 << 20, quota=100 << 20, revision=7, alarms=("1",)),))


class Answers(Stores):
    """Stores that say what they are told to, and whose addresses were asked for."""

    def __init__(self) -> None:
        super().__init__(SystemClock(), lambda _: None)
        self.store = FULL
        self.asked: list[dict[str, str]] = []

    async def look(self, spec: PlaneSpec, keys: KeyMaterial, addresses: Mapping[str, str]) -> Store:
        self.asked.append(dict(addresses))
        return self.store


def said(tenant: Obj) -> str:
    found = find_condition(tenant["status"]["conditions"], ConditionType.STORE_HAS_ROOM)
    return str(found["reason"]) if found else ""


async def pod(client: Client, name: str, component: str, address: str) -> None:
    labels = {
        "app.kubernetes.io/managed-by": "bulkhead",
        "bulkhead.dev/tenant": NAME,
        "bulkhead.dev/component": component,
    }
    container = {"name": "main", "image": "x"}
    made = {"metadata": {"name": name, "namespace": f"bh-{NAME}", "labels": labels}, "spec": {"containers": [container]}}
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    container["securityContext"] = security | {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}  # type: ignore[assignment]
    await client.create(kinds.PODS, made)
    status = {"podIP": address, "podIPs": [{"ip": address}]}
    await client.patch(kinds.PODS, name, {"status": status}, f"bh-{NAME}", subresource="status")


async def test_a_store_is_asked_by_the_planes_pods_alone_and_said_at_once(host_client: Client) -> None:
    client = host_client
    await install(client)
    await client.apply(kinds.TENANT_CLASSES, tenant_class() | {"metadata": {"name": "filling"}})
    await ask(client, NAME, **{"class": "filling"})
    stores = Answers()
    async with ControllerHost(client, stores=stores) as world:
        await world.settle(NAME)
        assert stores.asked[-1] == {}
        await pod(client, "plane-0", "plane", "192.0.2.7")
        await pod(client, "syncer-x", "syncer", "192.0.2.8")
        await world.caught_up()
        outcome = await world.reconciler.reconcile(NAME)
        assert stores.asked[-1] == {"plane-0": "192.0.2.7"}
        assert said(await client.get(kinds.TENANTS, NAME)) == "StoreFull"
        # Its tenant deletes, and waits for room.
        again = await world.reconciler.reconcile(NAME)
        assert outcome.again == again.again == 15.0
        stores.store = Store((Member("plane-0", size=1 << 20, used=1 << 20, quota=100 << 20, revision=9),))
        calm = await world.reconciler.reconcile(NAME)
        assert said(await client.get(kinds.TENANTS, NAME)) == "Ready"
        assert calm.again is not None
        assert calm.again > 15.0
