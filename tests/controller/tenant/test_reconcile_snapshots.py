"""TenantSnapshots on a real API server: what a reconcile hands over, once, and which are not taken."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api import names
from bulkhead.api.conditions import SnapshotReason, find_condition
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, Throttled
from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import Target
from bulkhead.work.clock import SystemClock
from controller.host.snapshots import Snapshots
from controller.snapshots import status
from controller.snapshots.loop import SnapshotTasks
from controller.snapshots.places import Places
from controller.snapshots.reports import Reports
from controller.snapshots.spec import Order
from controller.snapshots.status import Progress
from controller.snapshots.take import Means
from controller.tenant.reconcile import ReconcileFailed
from tests.kit.background import background
from tests.kit.controllerhost import ControllerHost, FixedKeys, ask
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"


class Noted(SnapshotTasks):
    """The tasks, and what they were handed."""

    orders: list[Order]

    def order(self, order: Order) -> None:
        self.orders.append(order)
        super().order(order)


@dataclass
class World:
    controller: ControllerHost
    tasks: Noted
    client: Client
    enqueued: list[str] = field(default_factory=list)

    async def ask(self, name: str, tenant: str) -> None:
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "TenantSnapshot",
            "metadata": {"name": name},
            "spec": {"tenant": tenant},
        }
        await self.client.create(kinds.TENANT_SNAPSHOTS, body)

        async def heard() -> bool:
            return tenant in self.enqueued

        await until(heard, f"{tenant} to be enqueued")

    async def told(self, name: str, reason: SnapshotReason) -> str:
        async def check() -> str:
            found: Obj = await self.client.get(kinds.TENANT_SNAPSHOTS, name)
            condition = find_condition((found.get("status") or {}).get("conditions") or [], "Complete") or {}
            return str(condition.get("message")) if condition.get("reason") == reason else ""

        return str(await until(check, f"{name} to be {reason}"))


@pytest.fixture
async def world(client: Client, tmp_path: Path) -> AsyncIterator[World]:
    async def ring() -> Any:
        return FixedKeys.held

    enqueued: list[str] = []
    requests = Snapshots(client, enqueued.append)
    means = Means(lambda *_: None, lambda: Target(Place("file", str(tmp_path))), (RECIPIENT,), ring)  # type: ignore[arg-type]
    tasks = Noted(client, SystemClock(), Places(means))
    tasks.orders = []
    async with background(requests.run()), ControllerHost(client, snapshots=(requests, tasks)) as controller:
        yield World(controller, tasks, client, enqueued)
        await tasks.close()


async def test_a_reconcile_hands_over_what_a_plane_is_made_of(world: World) -> None:
    await ask(world.client, "copied")
    tenant = await world.controller.settle("copied")
    assert world.tasks.orders == []
    await world.ask("copied-1", "copied")
    await world.controller.settle("copied")
    # Two and more reconciles, and one task.
    assert {order.uid for order in world.tasks.orders} == {world.tasks.orders[0].uid}
    assert len(world.tasks._tasks) == 1
    order = world.tasks.orders[0]
    assert order.spec.identity == tenant["status"]["planeIdentity"]
    assert order.spec.service_slice == tenant["status"]["serviceSlice"]
    assert FixedKeys.held.verify("bulkhead.dev/plane-record/v1", order.record).text
    assert order.secrets["pki-service-account"]["encryption.key"]
    assert {
        f"pki-ca-{name}" for name in ("etcd", "client", "serving", "front-proxy", "kubelet", "users")
    } <= order.secrets.keys()
    assert not {"pki-apiserver", "pki-etcd", "plane-record"} & order.secrets.keys()
    # There is no kubelet here, so no pod has an address.
    assert "not running" in await world.told("copied-1", SnapshotReason.RETRYING)
    # Reports of progress do not enqueue the tenant again.
    assert world.enqueued.count("copied") == 1


async def test_a_snapshot_of_no_tenant_fails(world: World) -> None:
    await world.ask("nobodys", "no-such-tenant")
    await world.controller.reconciler.reconcile("no-such-tenant")
    assert "no Tenant no-such-tenant" in await world.told("nobodys", SnapshotReason.FAILED)


async def test_a_snapshot_of_no_tenant_fails_also_on_a_host_that_refuses_the_first_report(world: World) -> None:
    async def get(*_: object) -> Obj:
        raise Throttled(429, "TooManyRequests", "too many requests")

    await world.ask("refused", "no-such-tenant-2")
    world.tasks._reports = Reports(cast("Client", SimpleNamespace(get=get)), SystemClock())
    with pytest.raises(ReconcileFailed, match="too many requests"):
        await world.controller.reconciler.reconcile("no-such-tenant-2")
    world.tasks._reports = Reports(world.client, SystemClock())
    await world.controller.reconciler.reconcile("no-such-tenant-2")
    assert "no Tenant no-such-tenant-2" in await world.told("refused", SnapshotReason.FAILED)


async def test_a_server_refuses_a_report_over_an_older_version(world: World) -> None:
    await world.ask("overtaken", "no-such-tenant-3")
    before = await world.client.get(kinds.TENANT_SNAPSHOTS, "overtaken")
    await world.tasks.fail(before, "it is enough")

    async def get(*_: object) -> Obj:
        return before

    late = cast("Client", SimpleNamespace(get=get, patch=world.client.patch))
    with pytest.raises(Conflict):
        await Reports(late, SystemClock()).write(before, lambda looked: status.running(looked, Progress(), SystemClock().now()))
    assert await world.told("overtaken", SnapshotReason.FAILED) == "it is enough"


async def test_a_tenant_that_goes_takes_its_tasks_along(world: World) -> None:
    await ask(world.client, "leaving")
    await world.controller.settle("leaving")
    await world.ask("leaving-1", "leaving")
    await world.controller.settle("leaving")
    assert world.tasks._tasks
    await world.client.delete(kinds.TENANTS, "leaving")
    await world.controller.reconciler.reconcile("leaving")
    assert not world.tasks._tasks


async def test_a_finished_one_is_left_alone(world: World) -> None:
    await ask(world.client, "done")
    await world.controller.settle("done")
    await world.ask("done-1", "done")
    await world.controller.settle("done")
    await world.tasks.close()
    request = await world.client.get(kinds.TENANT_SNAPSHOTS, "done-1")
    await world.tasks.fail(request, "it is enough")
    await world.told("done-1", SnapshotReason.FAILED)
    world.tasks.orders.clear()

    async def forgotten() -> bool:
        world.tasks.orders.clear()
        await world.controller.reconciler.reconcile("done")
        await asyncio.sleep(0)
        return not world.tasks.orders

    await until(forgotten, "the finished one to be left alone")


async def test_what_a_reconcile_saw_before_the_end_changes_nothing_of_a_finished_one(world: World) -> None:
    await ask(world.client, "late")
    await world.controller.settle("late")
    await world.ask("late-1", "late")
    await world.controller.settle("late")
    await world.tasks.close()
    order = world.tasks.orders[-1]
    await world.tasks.fail(order.request, "it is enough")

    world.tasks.order(order)
    _, taken = await asyncio.wait(world.tasks._tasks.values(), timeout=20)
    assert not taken, "it is taken again"
    await world.tasks.fail(order.request, "for another reason")
    assert await world.told("late-1", SnapshotReason.FAILED) == "it is enough"
    assert not world.tasks._tasks
