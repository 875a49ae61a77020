"""Which pods hold an address, and that no address of a pod that is gone stays in a slice, whatever the host answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ApiError, Conflict, Forbidden, KubeError, Unprocessable
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta
from syncer.mirrors.slices import Addresses, Slices
from syncer.translate import mirrored
from syncer.translate.kinds.endpointslice import KIND, MANAGED_BY_SYNCER, Holder
from syncer.translate.metadata import Identity
from tests.kit.background import background
from tests.kit.fakeclock import FakeClock

A, B = Key("work", "a"), Key("work", "b")
SLICE = Key("work", "slice")
OURS = Meta(labels={mirrored.MANAGED_BY: MANAGED_BY_SYNCER})
GONE, LEFT = {"addresses": ["1.1.1.1"]}, {"addresses": ["1.1.1.2"]}


def holder(name: str, uid: str = "1") -> Holder:
    return Holder(name, uid, "node", Identity("Pod", "team", name, uid))


def test_only_addresses_whose_holder_changed_are_returned() -> None:
    known = Addresses()
    assert known.set(A, {"1.1.1.1": holder("a")}) == {"1.1.1.1"}
    assert known.set(A, {"1.1.1.1": holder("a")}) == frozenset()
    assert known.set(A, {"1.1.1.2": holder("a")}) == {"1.1.1.1", "1.1.1.2"}
    assert dict(known) == {"1.1.1.2": (holder("a"),)}
    assert known.set(A, {"1.1.1.2": holder("a", "2")}) == {"1.1.1.2"}
    assert known.set(A, {}) == {"1.1.1.2"}
    assert known.set(A, {}) == frozenset()
    assert dict(known) == {}


def test_an_address_may_have_its_next_pod_before_the_last_one_has_ended() -> None:
    known = Addresses()
    known.set(A, {"1.1.1.1": holder("a")})
    assert known.set(B, {"1.1.1.1": holder("b")}) == {"1.1.1.1"}
    assert known["1.1.1.1"] == (holder("a"), holder("b"))
    assert known.set(A, {}) == {"1.1.1.1"}
    assert known["1.1.1.1"] == (holder("b"),)


class Host:
    """A host with one slice and one pod that runs; `refuses` says what it answers to a write."""

    def __init__(self, *endpoints: Obj) -> None:
        self.slice: Obj = {
            "metadata": {"namespace": "work", "name": "slice", "uid": "u", "resourceVersion": "7"},
            "endpoints": list(endpoints),
        }
        self.pod: Obj = {
            "metadata": {"namespace": "work", "name": "a", "uid": "1"},
            "spec": {"nodeName": "node"},
            "status": {"phase": "Running", "podIP": "1.1.1.2"},
        }
        self.made_by = OURS
        self.answer: KubeError | None = None
        self.takes_empty = True
        self.tried: list[list[str]] = []
        self.clock = FakeClock()
        stores: Any = {
            "Pod": SimpleNamespace(store={A: self.pod}, synced=self._synced),
            KIND: SimpleNamespace(store={SLICE: self.slice}, synced=self._synced),
        }
        who = Identity("Pod", "team", "a", "1")
        caches: Any = SimpleNamespace(host=stores, origin=lambda _: who, settings=SimpleNamespace(work_namespace="work"))
        queue: Any = SimpleNamespace(add=lambda _: None)
        writer: Any = SimpleNamespace(patch=self._patch)
        self.slices = Slices(caches, queue, writer, self.clock)
        self.slices.pod_changed(Change("added", A, Meta()))

    async def _synced(self) -> None:
        return

    async def _patch(self, _r: Any, key: Key, body: Obj, *, content_type: str, urgent: bool) -> Obj:
        assert key == SLICE
        assert urgent
        assert content_type == "application/merge-patch+json"
        assert body["metadata"] == {"uid": "u", "resourceVersion": "7"}
        self.tried.append([endpoint["addresses"][0] for endpoint in body["endpoints"]])
        if self.answer is not None and not (self.takes_empty and not body["endpoints"]):
            raise self.answer
        self.slice["endpoints"] = body["endpoints"]
        return self.slice

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Host"]:
        async with background(self.slices.run()):
            self.slices.host_changed(Change("modified", SLICE, self.made_by))
            await self.settle()
            yield self

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def pass_seconds(self, seconds: float, step: float = 0.05) -> None:
        for _ in range(int(seconds / step)):
            self.clock.advance(step)
            self.slices._doubtful.promote()
            await self.settle()


async def test_a_slice_that_a_controller_of_the_host_keeps_is_left_to_it() -> None:
    """It has the labels of its Service, and shows pods that are being deleted until they are gone."""
    host = Host(GONE, LEFT)
    host.made_by = Meta(labels={mirrored.MANAGED_BY: "endpointslice-controller.k8s.io"})
    async with host.running():
        assert host.tried == []
        host.pod["status"]["podIP"] = "1.1.1.3"
        host.slices.pod_changed(Change("modified", A, Meta()))
        await host.pass_seconds(1)
        assert host.tried == []


async def test_what_a_pod_has_stays_when_another_ends() -> None:
    async with Host(GONE, LEFT).running() as host:
        assert host.tried == [["1.1.1.2"]]


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "policy"), Unprocessable(422, "Invalid", "policy")])
async def test_a_host_that_refuses_what_stays_is_left_no_endpoint_at_all(error: ApiError) -> None:
    host = Host(GONE, LEFT)
    host.answer = error
    async with host.running():
        assert host.tried == [["1.1.1.2"], []]
        assert host.slice["endpoints"] == []
        await host.pass_seconds(20)
        assert len(host.tried) == 2, "and that was all"


@pytest.mark.parametrize(
    "error", [Conflict(409, "Conflict", "old"), Forbidden(403, "Forbidden", "no"), ApiError(500, "InternalError", "no")]
)
async def test_a_withdrawal_that_fails_is_tried_again_less_and_less_often(error: ApiError) -> None:
    host = Host(GONE)
    host.answer, host.takes_empty = error, False
    async with host.running():
        assert host.tried == [[]]
        await host.pass_seconds(10)
        assert 2 <= len(host.tried) <= 20
        host.answer = None
        await host.pass_seconds(6)
        assert host.slice["endpoints"] == []


async def test_trouble_with_what_stays_empties_no_slice() -> None:
    host = Host(GONE, LEFT)
    host.answer = Conflict(409, "Conflict", "old")
    async with host.running():
        await host.pass_seconds(2)
        assert [] not in host.tried
