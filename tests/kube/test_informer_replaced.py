"""The informer of a server whose data was replaced: it is told so, because no version shows it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

import msgspec
import pytest

from bulkhead.kube import informer as module
from bulkhead.kube.client import Client
from bulkhead.kube.codec import Page
from bulkhead.kube.errors import NotServed
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Meta
from bulkhead.kube.resources import CONFIG_MAPS
from bulkhead.kube.watch import WatchEvent
from tests.kit.background import background

Eventually = Callable[..., Awaitable[None]]


@contextlib.asynccontextmanager
async def running(informer: Informer) -> AsyncIterator[Informer]:
    async with background(informer.run()):
        await asyncio.wait_for(informer.synced(), 60)
        yield informer


def summary(changes: list[Change]) -> list[tuple[str, str, bool]]:
    return [(change.kind, change.key.name, change.relist) for change in changes]


class Replaced:
    """A server whose data can be replaced under the same versions, and that tells nothing of it."""

    def __init__(self) -> None:
        self.there = {"stays": ("u-1", "5", "old"), "goes": ("u-2", "6", "old")}
        self.served = True
        self.slow: asyncio.Event | None = None
        self.lists = self.watches = self.ended = 0

    async def pages(self, *_: object, limit: int = 0, **__: object) -> AsyncIterator[Page]:
        if not self.served:
            raise NotServed(404, "NotFound", "no such kind")
        self.lists += limit != 1
        there = dict(self.there)
        if self.slow is not None:
            await self.slow.wait()
        yield Page([msgspec.Raw(self._encoded(name, *made)) for name, made in there.items()], "9", "")

    @staticmethod
    def _encoded(name: str, uid: str, version: str, text: str) -> bytes:
        meta = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": version}
        return msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"x": text}})

    async def watch(self, *_: object, **__: object) -> AsyncIterator[WatchEvent]:
        self.watches += 1
        try:
            await asyncio.Event().wait()
            yield WatchEvent("BOOKMARK", Meta(), b"")
        finally:
            self.ended += 1


async def test_data_that_was_replaced_is_listed_once_whatever_its_versions(eventually: Eventually) -> None:
    changes: list[Change] = []
    server = Replaced()
    informer = Informer(cast("Client", server), CONFIG_MAPS, on_change=changes.append)
    async with running(informer):
        await eventually(lambda: server.watches == 1)
        changes.clear()
        # The new history has reached our version, so the server is not behind; and one object has the version that is known.
        server.there = {"stays": ("u-1", "5", "new"), "comes": ("u-3", "7", "new")}
        informer.list_again()
        informer.list_again()
        await eventually(lambda: server.watches == 2, seconds=20)
        assert summary(changes) == [("modified", "stays", True), ("added", "comes", True), ("deleted", "goes", True)]
        assert [stored["data"]["x"] for stored in informer.store.objects()] == ["new", "new"]
        assert (server.lists, informer.relists, server.ended, informer.last_error) == (2, 2, 1, None)
        await asyncio.sleep(0.05)
        assert (server.lists, server.watches) == (2, 2)


async def test_a_list_that_began_before_the_data_was_replaced_does_not_count(eventually: Eventually) -> None:
    changes: list[Change] = []
    server = Replaced()
    slow = server.slow = asyncio.Event()
    informer = Informer(cast("Client", server), CONFIG_MAPS, on_change=changes.append)
    informer.list_again()
    async with background(informer.run()):
        await eventually(lambda: server.lists == 1)
        server.there, server.slow = {"comes": ("u-3", "7", "new")}, None
        informer.list_again()
        slow.set()
        await eventually(lambda: server.watches == 1)
        assert summary(changes) == [("added", "comes", True)]
        assert (server.lists, informer.relists) == (2, 1)


async def test_a_kind_that_is_not_served_is_asked_for_again_with_the_data(
    eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_UNSERVED_SECONDS", 3600.0)
    monkeypatch.setattr(module, "_RETRY_SPREAD_SECONDS", 0.0)
    server = Replaced()
    server.served = False
    async with running(Informer(cast("Client", server), CONFIG_MAPS, optional=True)) as informer:
        assert not informer.served
        server.served = True
        await asyncio.sleep(0)
        informer.list_again()
        await eventually(lambda: server.watches == 1)
        assert (informer.served, server.lists) == (True, 1)
