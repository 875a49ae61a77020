"""What a process that begins to lead enqueues, on a host that refuses lists. No API server: each answer is written here."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.lease import LeaderLease
from controller.__main__ import Controller
from controller.settings import Settings
from tests.kit.background import background
from tests.kit.hostileserver import http, serving
from tests.kit.syncerbed import until

GROUP = "/apis/bulkhead.dev/v1alpha1"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
REFUSED = http("429 Too Many Requests", b"", "Retry-After: 1")


@dataclass
class Host:
    """Lists and watches Tenants and TenantSnapshots, and refuses everything else."""

    tenants: list[Obj] = field(default_factory=list)
    snapshots: list[Obj] = field(default_factory=list)
    refusals: float = 0  # of lists of Tenants
    lists: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        path, _, query = head.split(b" ")[1].decode().partition("?")
        if path == f"{GROUP}/tenantsnapshots":
            if "watch" in query:
                writer.write(CHUNKED)
                await writer.drain()
                await reader.read()
            writer.write(listed(self.snapshots))
        elif path == f"{GROUP}/tenants" and self.lists >= self.refusals:
            writer.write(listed(self.tenants))
        else:
            self.lists += path == f"{GROUP}/tenants"
            writer.write(REFUSED)
        await writer.drain()


def listed(items: list[Obj]) -> bytes:
    return http("200 OK", json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode())


def snapshot(name: str, tenant: str, reason: str = "", **meta: Any) -> Obj:
    conditions = [{"type": "Complete", "status": "True", "reason": reason, "message": ""}]
    status = {"status": {"conditions": conditions}} if reason else {}
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "5"} | meta, "spec": {"tenant": tenant}} | status


class Recording:
    """Workers that note what they take."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.took: list[str] = []

    async def run(self) -> None:
        while True:
            name = await self.queue.get()
            self.took.append(name)
            self.queue.done(name)


@dataclass
class World:
    host: Host
    controller: Controller
    workers: Recording
    lost: asyncio.Event

    async def act(self) -> None:
        """Do what a leader does until the lease is lost."""
        lease = SimpleNamespace(lost=self.lost, held=True)
        await self.controller._act(cast("LeaderLease", lease))

    async def takes(self, *tenants: str) -> None:
        async def all_of_them() -> bool:
            return set(tenants) <= set(self.workers.took)

        await until(all_of_them, f"{tenants} to be taken by a worker")


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    host = Host()
    async with serving(host.answer) as config, Client(config, user_agent="test", field_manager="test") as client:
        controller = Controller(client, config, Settings())
        # The others take no part: each asks for much that this host does not have.
        beside = controller._beside
        monkeypatch.setattr(controller, "_beside", lambda reservations: {"tenants": beside(reservations)["tenants"]})
        monkeypatch.setattr(controller, "_ledger", lambda *_: asyncio.sleep(0))
        workers = Recording(controller._queue)
        monkeypatch.setattr(controller, "_workers", workers)
        yield World(host, controller, workers, asyncio.Event())


async def test_a_refused_list_of_tenants_is_asked_for_again(world: World) -> None:
    world.host.tenants, world.host.refusals = [{"metadata": {"name": "listed"}}], 2
    async with background(world.act()):
        await world.takes("listed")
    assert world.host.lists == 2


async def test_the_list_of_tenants_is_not_asked_for_after_the_lease_is_lost(world: World) -> None:
    world.host.refusals = float("inf")
    async with background(world.act()) as acting:

        async def asked() -> bool:
            return world.host.lists >= 2

        await until(asked, "the list to be asked for again")
        world.lost.set()
        await acting
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "tenants"]


async def test_a_process_that_leads_again_enqueues_tenants_that_are_gone_for_their_unfinished_snapshots(world: World) -> None:
    world.host.snapshots = [
        snapshot("asked", "gone-1"),
        snapshot("running", "gone-2", "Running"),
        snapshot("deleting", "gone-3", "Stored", deletionTimestamp="2026-01-01T00:00:00Z"),
        snapshot("stored", "gone-4", "Stored"),
        snapshot("failed", "gone-5", "Failed"),
    ]
    world.host.refusals = float("inf")
    async with background(world.controller._snapshots.run()):
        async with background(world.act()):
            await world.takes(*(f"gone-{number}" for number in range(1, 6)))
        # Of the next term: no watch tells anything new.
        world.workers.took.clear()
        async with background(world.act()):
            await world.takes("gone-1", "gone-2", "gone-3")
            assert not {"gone-4", "gone-5"} & set(world.workers.took)
