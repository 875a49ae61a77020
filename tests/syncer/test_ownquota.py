"""When the picture of a tenant's quota is written: soon, then once in a pace, and ever more rarely to a plane that refuses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta, Resource
from syncer.ownquota import LONGEST_SECONDS, PACE_SECONDS, REFUSED_SECONDS, SOON_SECONDS, QuotaPicture
from tests.kit.fakeclock import FakeClock


class Plane:
    """The writes that reach the plane."""

    def __init__(self) -> None:
        self.written: list[Obj] = []
        self.tries = 0
        self.error: KubeError | None = None

    async def get(self, _r: Resource, _name: str, _namespace: str) -> Obj:
        raise NotFound(404, "NotFound", "not there")

    async def replace(self, _r: Resource, obj: Obj) -> Obj:
        self.tries += 1
        if self.error is not None:
            raise self.error
        self.written.append(obj)
        return obj | {"metadata": obj["metadata"] | {"resourceVersion": str(len(self.written))}}


class Bench:
    def __init__(self) -> None:
        self.plane, self.clock, self.pods = Plane(), FakeClock(), dict[Key, Obj]()
        store = SimpleNamespace(objects=tuple, meta=lambda _key: None)
        caches: Any = SimpleNamespace(
            host={"ResourceQuota": SimpleNamespace(store=store), "Pod": SimpleNamespace(store=store)},
            settings=SimpleNamespace(gated_resources=()),
            virtual_pod=self.pods.get,
            host_key=lambda _kind, key: key,
        )
        claims: Any = SimpleNamespace(resources=())
        plane: Any = self.plane
        self.picture = QuotaPicture(caches, plane, claims, self.clock)

    def creates(self, number: int) -> None:
        key = Key("default", f"p{number}")
        self.pods[key] = {"metadata": {"uid": f"u{number}"}, "spec": {}}
        self.picture._pod_changed(Change("added", key, Meta(name=key.name, namespace=key.namespace)))

    async def passes(self, seconds: float) -> None:
        for _ in range(round(seconds * 4)):
            for _ in range(5):
                await asyncio.sleep(0)
            self.clock.advance(0.25)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    task = asyncio.create_task(made.picture.run())
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_many_changes_are_one_write_in_each_pace(bench: Bench) -> None:
    await bench.passes(PACE_SECONDS + 2 * SOON_SECONDS)
    before = len(bench.plane.written)
    for number in range(1000):
        bench.creates(number)
        if number % 10 == 0:
            await bench.passes(0.25)
    await bench.passes(2 * PACE_SECONDS)
    # 25 s of changes, and what was still due.
    assert 2 <= len(bench.plane.written) - before <= 25 / PACE_SECONDS + 2
    assert '"": 1000' in bench.plane.written[-1]["data"]["quota.json"]


async def test_without_a_change_nothing_is_written(bench: Bench) -> None:
    await bench.passes(60)
    assert len(bench.plane.written) == 1
    own = Meta(name="bulkhead-quota", namespace="kube-public", resource_version="1")
    bench.picture._object_changed(Change("modified", own.key, own))
    await bench.passes(60)
    assert len(bench.plane.written) == 1, "its own write comes back"


async def test_a_plane_that_refuses_is_asked_ever_more_rarely(bench: Bench) -> None:
    bench.plane.error = KubeError("not now")
    for number in range(100):
        bench.creates(number)
        await bench.passes(36)
    assert bench.plane.tries <= 3 + 3600 / LONGEST_SECONDS + LONGEST_SECONDS / REFUSED_SECONDS / 2
    bench.plane.error = None
    await bench.passes(LONGEST_SECONDS)
    assert '"": 100' in bench.plane.written[-1]["data"]["quota.json"]
