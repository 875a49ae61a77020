"""A host event that comes before its object is seen: each kind has a watch of its own, so they race."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import KubeError, Throttled
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta, key_of
from syncer import events
from syncer.events import Recorder
from syncer.translate import metadata
from syncer.translate.kinds.pod import to_host
from tests.kit import translationsamples as samples
from tests.kit.background import background
from tests.kit.fakeclock import FakeClock

HOST_UID = "host-uid"
EVENT = Key("bh-a-work", "web.1")


class Plane:
    """What was written of events."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.errors: list[KubeError] = []  # what the next writes get instead of an answer

    async def create(self, _kind: Any, event: Obj) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.messages.append(event["message"])


class Bench:
    """A recorder, and the copies that it looks into: the event is there, the host's pod once it is seen."""

    def __init__(self) -> None:
        self.plane, self.clock = Plane(), FakeClock()
        own = samples.pod()
        host = to_host(own, samples.VIEW)
        self.name = host["metadata"]["name"]
        self.looks = 0
        self.seen: dict[str, Meta] = {}
        self.events: dict[Key, Obj] = {}
        kinds = {
            "Event": SimpleNamespace(store=SimpleNamespace(get=self.events.get)),
            "Pod": SimpleNamespace(store=SimpleNamespace(meta=self._meta)),
        }
        caches = SimpleNamespace(
            host=kinds,
            virtual={"Pod": SimpleNamespace(store=SimpleNamespace(get={key_of(own): own}.get))},
            origin=lambda _: metadata.identity("Pod", own),
            namespace_ending=lambda _: False,
            view=lambda: samples.VIEW,
        )
        self.recorder = Recorder(cast("Any", caches), cast("Any", self.plane), self.clock, busy=lambda: False)
        self.recorder._earlier = set()

    def _meta(self, key: Key) -> Meta | None:
        self.looks += 1
        return self.seen.get(key.name)

    def see(self, uid: str = HOST_UID) -> None:
        """The watch of pods tells of it."""
        self.seen[self.name] = Meta(name=self.name, uid=uid)

    def hear(self, key: Key = EVENT, message: str = "no room") -> None:
        involved = {"kind": "Pod", "namespace": key.namespace, "name": self.name, "uid": HOST_UID}
        meta = {"name": key.name, "namespace": key.namespace, "resourceVersion": message}
        self.events[key] = {"metadata": meta, "involvedObject": involved, "reason": "Failed", "message": message}
        self.recorder.heard(cast("Change", SimpleNamespace(kind="added", key=key)))

    def forget(self, key: Key = EVENT) -> None:
        del self.events[key]
        self.recorder.heard(cast("Change", SimpleNamespace(kind="deleted", key=key)))

    async def pass_by(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            self.clock.advance(0.5)
            self.recorder._queue.promote()
            for _ in range(8):
                await asyncio.sleep(0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    async with background(made.recorder.run()):
        yield made


@pytest.mark.parametrize("after", [0.5, 4.0])
async def test_an_event_that_comes_before_its_object_is_told_once_that_is_seen(bench: Bench, after: float) -> None:
    bench.hear()
    await bench.pass_by(after)
    assert not bench.plane.messages
    bench.see()
    await bench.pass_by(6)
    assert bench.plane.messages == ["no room"]
    await bench.pass_by(60)
    assert bench.plane.messages == ["no room"]


async def test_an_object_of_the_same_name_that_was_there_before_does_not_get_its_successors_event(bench: Bench) -> None:
    bench.see("predecessor")
    bench.hear()
    await bench.pass_by(0.5)
    assert not bench.plane.messages
    bench.see()
    await bench.pass_by(6)
    assert bench.plane.messages == ["no room"]


async def test_an_object_that_is_gone_is_looked_for_three_times(bench: Bench) -> None:
    bench.hear()
    await bench.pass_by(120)
    assert (bench.looks, bench.plane.messages) == (3, [])
    assert not bench.recorder._later
    # What comes later of the same event is looked at as often.
    bench.hear(message="still no room")
    await bench.pass_by(120)
    assert bench.looks == 6


async def test_an_event_that_is_gone_meanwhile_is_not_told(bench: Bench) -> None:
    bench.hear()
    await bench.pass_by(0.5)
    bench.forget()
    bench.see()
    await bench.pass_by(10)
    assert not bench.plane.messages
    assert not bench.recorder._later


async def test_few_wait_at_once_and_the_others_are_told_when_they_repeat(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_LATER_AT_ONCE", 3)
    for number in range(5):
        bench.hear(Key(EVENT.namespace, f"web.{number}"), f"message {number}")
    await bench.pass_by(0.5)
    assert len(bench.recorder._later) == 3
    bench.see()
    await bench.pass_by(6)
    assert sorted(bench.plane.messages) == ["message 0", "message 1", "message 2"]
    bench.hear(Key(EVENT.namespace, "web.4"), "message 4 again")
    await bench.pass_by(1)
    assert bench.plane.messages[3:] == ["message 4 again"]


async def test_an_event_that_the_plane_cannot_take_now_is_told_later(bench: Bench) -> None:
    bench.see()
    bench.plane.errors = [Throttled(429, "TooManyRequests", "later")] * 3
    bench.hear()
    await bench.pass_by(0.5)
    assert not bench.plane.messages
    await bench.pass_by(40)
    assert bench.plane.messages == ["no room"]
    assert not bench.recorder._later
