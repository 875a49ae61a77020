"""Classes of the host that could not be listed are listed again soon, and claims that waited for one are looked at."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Forbidden, KubeError, NotServed, Throttled
from bulkhead.kube.objects import Resource
from syncer.mirrors.classes import EARLY_SECONDS, MOST_EARLY, SECONDS, HostClasses
from syncer.settings import parse
from syncer.translate.kinds.classes import SNAPSHOT_CLASS
from syncer.watch.view import Views
from tests.kit.background import background
from tests.kit.fakeclock import FakeClock

TOLD = {"tenant": "a", "tenantUID": "u", "planeNamespace": "bh-a", "workNamespace": "bh-a-work"}
FAST: Obj = {"metadata": {"name": "fast"}, "provisioner": "disks.example.org"}
BUSY = Throttled(429, "TooManyRequests", "later")


class Side:
    """An API server that has these StorageClasses, and refuses its next lists."""

    def __init__(self, *storage: Obj) -> None:
        self.storage = list(storage)
        self.refused: list[KubeError] = []
        self.no_more: KubeError | None = None  # what it answers to each class
        self.lists = 0

    async def list(self, r: Resource) -> Any:
        self.lists += r.kind == "StorageClass"
        if r.kind == "StorageClass" and self.refused:
            raise self.refused.pop(0)
        return SimpleNamespace(items=list(self.storage) if r.kind == "StorageClass" else [])

    async def create(self, _r: Resource, obj: Obj) -> None:
        if self.no_more is not None:
            raise self.no_more
        self.storage.append(obj)


class Bench:
    """Both sides, and what was known of the offer each time that it changed."""

    def __init__(self, *storage: Obj) -> None:
        self.host, self.plane, self.clock = Side(*storage), Side(), FakeClock()
        settings = parse(json.dumps(TOLD | {"allowedStorageClasses": ["fast"]}).encode())
        self.caches: Any = SimpleNamespace(settings=settings, views=Views(settings))
        self.made = HostClasses(self.caches, cast("Any", self.plane), cast("Any", self.host), self.clock)
        self.offers: list[frozenset[str]] = []
        self.made.on_offer = lambda: self.offers.append(self.caches.views.static.storage_classes)

    async def pass_by(self, seconds: float) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        for _ in range(int(seconds / 5)):
            self.clock.advance(5)
            for _ in range(20):
                await asyncio.sleep(0)


async def test_a_list_that_was_refused_comes_again_soon_and_then_claims_are_looked_at() -> None:
    bench = Bench(FAST)
    bench.host.refused = [BUSY]
    with pytest.raises(Throttled):
        await bench.made.reconcile()
    assert bench.offers == []
    async with background(bench.made.run()):
        await bench.pass_by(EARLY_SECONDS)
        assert bench.offers == [{"fast"}]
        # From then on once a minute, and nothing is looked at again without a change.
        before = bench.host.lists
        await bench.pass_by(3 * SECONDS)
        assert bench.host.lists - before == 3
    assert len(bench.offers) == 1


async def test_a_class_that_a_starting_plane_refuses_comes_again_soon() -> None:
    """An API server refuses classes while its admission plugins have not read what they need."""
    bench = Bench(FAST)
    bench.plane.no_more = Forbidden(403, "Forbidden", "not yet ready to handle request")
    await bench.made.reconcile()
    async with background(bench.made.run()):
        await bench.pass_by(0)
        bench.plane.no_more = None
        await bench.pass_by(EARLY_SECONDS)
        assert [item["metadata"]["name"] for item in bench.plane.storage] == ["fast"]


async def test_a_webhook_that_always_refuses_a_class_is_asked_once_a_minute_in_the_end() -> None:
    bench = Bench(FAST)
    bench.plane.no_more = Forbidden(403, "Forbidden", "denied by a webhook")
    await bench.made.reconcile()
    async with background(bench.made.run()):
        await bench.pass_by(EARLY_SECONDS * MOST_EARLY)
        before = bench.plane.lists
        await bench.pass_by(SECONDS * 5)
    assert before == 1 + MOST_EARLY
    assert bench.plane.lists - before == 5


async def test_another_offer_of_the_host_is_told_once() -> None:
    bench = Bench()
    await bench.made.reconcile()
    assert bench.offers == []
    bench.host.storage.append(FAST)
    await bench.made.reconcile()
    await bench.made.reconcile()
    assert bench.offers == [{"fast"}]


async def test_what_was_learnt_before_a_failure_is_told() -> None:
    bench = Bench(FAST)
    bench.plane.refused = [BUSY]
    with pytest.raises(Throttled):
        await bench.made.reconcile()
    assert bench.offers == [{"fast"}]


class Snapshots:
    """An API server that has these VolumeSnapshotClasses and nothing else, or refuses their list."""

    def __init__(self, *classes: Obj) -> None:
        self.classes = list(classes)
        self.error: KubeError | None = None

    async def list(self, r: Resource) -> Any:
        if r.kind != SNAPSHOT_CLASS:
            return SimpleNamespace(items=[])
        if self.error is not None:
            raise self.error
        return SimpleNamespace(items=list(self.classes))

    async def create(self, _r: Resource, obj: Obj) -> None:
        self.classes.append(obj | {"metadata": obj["metadata"] | {"uid": "made"}})

    async def delete(self, _r: Resource, name: str, *_: Any, **__: Any) -> None:
        self.classes = [obj for obj in self.classes if obj["metadata"]["name"] != name]


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (Forbidden(403, "Forbidden", "no"), 1),
        (NotServed(404, "", "404 page not found"), 0),
    ],
    ids=["refused", "not served"],
)
async def test_a_refusal_takes_no_snapshot_class_out_of_the_plane(error: KubeError, left: int) -> None:
    daily: Obj = {"metadata": {"name": "daily"}, "driver": "disks.example.org", "deletionPolicy": "Delete"}
    host, plane = Snapshots(daily), Snapshots()
    settings = parse(json.dumps(TOLD | {"allowedSnapshotClasses": ["daily"]}).encode())
    caches: Any = SimpleNamespace(settings=settings, views=Views(settings))
    made = HostClasses(caches, cast("Any", plane), cast("Any", host), FakeClock())
    await made.reconcile()
    assert len(plane.classes) == 1
    host.error = error
    await made.reconcile()
    assert len(plane.classes) == left
