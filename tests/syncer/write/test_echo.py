"""A write to the plane comes back as an event; until then the cache is behind, and no reconcile acts on it."""

from typing import Any

import pytest

from bulkhead.kube.errors import Conflict, Unavailable
from bulkhead.kube.resources import PODS
from syncer.write.plane import VirtualWriter
from tests.kit.fakeclock import FakeClock


class Plane:
    """Answers every write with the next version, or with an error."""

    def __init__(self) -> None:
        self.version = 10
        self.error: Exception | None = None
        self.calls: list[str] = []

    async def patch(self, r: Any, name: str, body: Any, namespace: str, *, subresource: str) -> dict[str, Any]:
        return self._answer(f"patch {subresource}")

    async def create_subresource(self, r: Any, name: str, subresource: str, body: Any, namespace: str) -> dict[str, Any]:
        return self._answer(f"post {subresource}")

    def _answer(self, call: str) -> dict[str, Any]:
        self.calls.append(call)
        if self.error is not None:
            raise self.error
        self.version += 1
        return {"metadata": {"resourceVersion": str(self.version)}}


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def writer(plane: Plane, clock: FakeClock) -> VirtualWriter:
    return VirtualWriter(plane, clock)  # type: ignore[arg-type]


def pod(version: int, node: str = "") -> dict[str, Any]:
    meta = {"name": "web", "namespace": "team", "uid": "u1", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": {"phase": "Pending"}}


async def test_after_a_status_the_cache_is_behind_until_it_has_that_version(writer: VirtualWriter) -> None:
    assert not writer.behind(pod(10))
    assert await writer.status(PODS, pod(10), {"phase": "Running"})
    assert writer.behind(pod(10))
    assert not writer.behind(pod(11))
    assert not writer.behind(pod(10)), "once seen, it is not waited for again"


async def test_a_status_that_changes_nothing_is_not_waited_for(writer: VirtualWriter, plane: Plane) -> None:
    assert not await writer.status(PODS, pod(10), {"phase": "Pending"})
    assert plane.calls == []
    assert not writer.behind(pod(10))


async def test_after_a_binding_the_cache_is_behind_until_it_shows_the_node(writer: VirtualWriter) -> None:
    await writer.bind(pod(10), "gpu-a")
    assert writer.behind(pod(10))
    assert not writer.behind(pod(12, "gpu-a"))


async def test_a_binding_that_was_there_before_is_waited_for_as_well(writer: VirtualWriter, plane: Plane) -> None:
    plane.error = Conflict(409, "Conflict", "already bound", ())
    await writer.bind(pod(10), "gpu-a")
    assert writer.behind(pod(10))


async def test_a_binding_that_failed_is_tried_again_at_once(writer: VirtualWriter, plane: Plane) -> None:
    plane.error = Unavailable(503, "ServiceUnavailable", "away", ())
    with pytest.raises(Unavailable):
        await writer.bind(pod(10), "gpu-a")
    assert not writer.behind(pod(10))


async def test_an_event_that_never_comes_is_not_waited_for_for_ever(writer: VirtualWriter, clock: FakeClock) -> None:
    await writer.bind(pod(10), "gpu-a")
    clock.advance(10)
    assert not writer.behind(pod(10))
