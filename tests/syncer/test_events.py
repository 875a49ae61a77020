"""One event for each reason, however its text changes, and what a recorder knows of its predecessor's events."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.kube.errors import AlreadyExists, ApiError, Forbidden, KubeError, Throttled, Timeout, unreachable
from bulkhead.kube.objects import Key, Meta
from syncer import metrics
from syncer.events import Recorder
from tests.kit.background import background
from tests.kit.fakeclock import FakeClock


def test_what_an_earlier_process_told_is_passed_over_once_and_then_is_news() -> None:
    nothing = cast("Any", None)
    recorder = Recorder(nothing, nothing, FakeClock(), busy=lambda: False)
    told, other = Key("team", "web.1"), Key("team", "web.2")
    assert not recorder._written_earlier(told)
    recorder._earlier = {hash(told)}
    assert not recorder._written_earlier(other)
    assert recorder._written_earlier(told)
    assert not recorder._written_earlier(told)


class Plane:
    """What was written of events, in order."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self.errors: list[KubeError] = []  # what the next writes get instead of an answer
        self.meanwhile: list[Callable[[], None]] = []  # what happens while the next ones are under way

    async def create(self, _kind: Any, event: dict[str, Any]) -> None:
        self.writes += 1
        if self.meanwhile:
            self.meanwhile.pop(0)()
        if self.errors:
            raise self.errors.pop(0)
        if event["metadata"]["name"] in self.events:
            raise AlreadyExists(409, "AlreadyExists", "there")
        self.events[event["metadata"]["name"]] = dict(event)

    async def patch(self, _kind: Any, name: str, news: dict[str, Any], _namespace: str) -> None:
        self.events[name] |= news

    def messages(self) -> list[tuple[str, int]]:
        return [(event["message"], event["count"]) for event in self.events.values()]


class Bench:
    """A recorder that writes, a plane that it writes to, and a clock."""

    def __init__(self) -> None:
        self.plane, self.clock = Plane(), FakeClock()
        self.there: dict[Key, str] = {}  # the UIDs of the plane's pods, as the syncer has seen them
        store = SimpleNamespace(meta=lambda key: Meta(uid=self.there[key]) if key in self.there else None)
        self.ending = False
        caches = SimpleNamespace(namespace_ending=lambda _: self.ending, virtual={"Pod": SimpleNamespace(store=store)})
        self.recorder = Recorder(cast("Any", caches), cast("Any", self.plane), self.clock, busy=lambda: False)

    def warn(self, message: str, *, reason: str = "QuotaExceeded", name: str = "web", uid: str = "u", **more: bool) -> None:
        pod = {"kind": "Pod", "metadata": {"namespace": "team", "name": name, "uid": uid}}
        self.there[Key("team", name)] = uid
        self.recorder.warn(pod, reason, message, **more)

    def remove(self, name: str) -> None:
        del self.there[Key("team", name)]

    async def pass_by(self, seconds: int) -> None:
        for _ in range(seconds * 2):
            self.clock.advance(0.5)
            self.recorder._queue.promote()
            for _ in range(8):
                await asyncio.sleep(0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    async with background(made.recorder.run()):
        yield made


async def test_of_one_reason_there_is_one_event_with_the_latest_numbers(bench: Bench) -> None:
    for used in range(200):
        bench.warn(f"{used} of 4 are in use")
        await bench.pass_by(1)
    assert len(bench.plane.events) == 1
    # Positive control: it does follow, less and less often.
    assert 4 <= bench.plane.writes <= 8
    await bench.pass_by(200)
    assert bench.plane.messages() == [("199 of 4 are in use", 200)]


async def test_a_text_that_changed_at_once_is_told_seconds_later_and_the_latest_alone(bench: Bench) -> None:
    bench.warn("first")
    await bench.pass_by(1)
    bench.warn("second")
    bench.warn("third")
    await bench.pass_by(2)
    assert bench.plane.messages() == [("first", 1)]
    await bench.pass_by(5)
    assert bench.plane.messages() == [("third", 3)]
    assert bench.plane.writes == 2


async def test_a_text_that_repeats_is_written_again_after_a_minute(bench: Bench) -> None:
    for _ in range(59):
        bench.warn("same")
        await bench.pass_by(1)
    assert bench.plane.messages() == [("same", 1)]
    await bench.pass_by(1)
    bench.warn("same")
    await bench.pass_by(1)
    assert bench.plane.messages() == [("same", 60)]


async def test_other_reasons_other_objects_and_what_stands_beside_have_events_of_their_own(bench: Bench) -> None:
    bench.warn("a")
    bench.warn("a", reason="NotAllowed")
    bench.warn("a", name="other", uid="another")
    bench.warn("b", reason="NotSupported", beside=True)
    bench.warn("c", reason="NotSupported", beside=True)
    await bench.pass_by(5)
    assert sorted(bench.plane.messages()) == [("a", 1), ("a", 1), ("a", 1), ("b", 1), ("c", 1)]


async def test_what_is_gone_gets_no_more_events_but_the_one_that_says_why(bench: Bench) -> None:
    for number in range(1500):
        bench.warn("does not fit", name=f"web-{number}")
    await bench.pass_by(2)
    before = bench.plane.writes
    assert 0 < before < 30
    for number in range(before, 1500):
        bench.remove(f"web-{number}")
    bench.warn("was lost", name="lost", reason="Lost", last=True)
    bench.remove("lost")
    bench.warn("does not fit", name="stays")
    await bench.pass_by(2)
    assert bench.plane.messages()[before:] == [("was lost", 1), ("does not fit", 1)]
    # Nothing is left that would still be written.
    await bench.pass_by(60)
    assert bench.plane.writes == before + 2


async def test_a_pod_of_the_same_name_does_not_get_the_events_of_its_predecessor(bench: Bench) -> None:
    for uid in ("first", "second"):
        bench.warn(uid, uid=uid)
    await bench.pass_by(2)
    assert bench.plane.messages() == [("second", 1)]


async def test_an_object_that_is_only_not_seen_yet_is_told_by_the_next_warning(bench: Bench) -> None:
    bench.warn("does not fit")
    bench.remove("web")
    await bench.pass_by(1)
    assert not bench.plane.messages()
    bench.warn("does not fit")
    await bench.pass_by(1)
    assert bench.plane.messages() == [("does not fit", 1)]


BUSY = Throttled(429, "TooManyRequests", "later")
PASSING = (BUSY, unreachable("connection refused"), Timeout("no answer"), ApiError(500, "InternalError", "etcd has no leader"))


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
async def test_a_last_word_that_the_plane_cannot_take_now_is_written_later(bench: Bench, error: KubeError) -> None:
    bench.plane.errors = [error]
    bench.warn("was lost", reason="Lost", last=True)
    bench.remove("web")
    await bench.pass_by(3)
    assert (bench.plane.messages(), bench.plane.writes) == ([("was lost", 1)], 2)
    assert not bench.recorder._later


async def test_an_event_is_tried_four_times_and_is_then_counted_as_dropped(bench: Bench) -> None:
    before = metrics.EVENTS_DROPPED._value.get()
    bench.plane.errors = [BUSY] * 4
    bench.warn("same")
    await bench.pass_by(50)
    assert (bench.plane.writes, metrics.EVENTS_DROPPED._value.get() - before) == (4, 1)
    assert not bench.recorder._later
    # It comes with its next repeat.
    await bench.pass_by(12)
    bench.warn("same")
    await bench.pass_by(1)
    assert bench.plane.messages() == [("same", 2)]


async def test_an_event_that_the_plane_refuses_for_good_is_tried_once(bench: Bench) -> None:
    bench.plane.errors = [Forbidden(403, "Forbidden", "a webhook does not like it")]
    bench.warn("same")
    await bench.pass_by(50)
    assert (bench.plane.writes, bench.plane.messages()) == (1, [])


async def test_a_later_text_takes_the_place_of_one_that_could_not_be_written(bench: Bench) -> None:
    bench.plane.errors = [BUSY]
    bench.plane.meanwhile = [lambda: bench.warn("2 of 4 are in use")]
    bench.warn("1 of 4 are in use")
    await bench.pass_by(10)
    assert (bench.plane.messages(), bench.plane.writes) == ([("2 of 4 are in use", 2)], 2)


async def test_a_plane_that_takes_nothing_is_not_asked_more_often_than_one_that_takes_all(bench: Bench) -> None:
    bench.plane.errors = [unreachable("connection refused") for _ in range(1000)]
    for number in range(200):
        bench.warn("does not fit", name=f"web-{number}")
    await bench.pass_by(2)
    # Positive control: it was asked at all.
    assert 0 < bench.plane.writes <= 30


async def test_a_warning_in_a_namespace_that_is_not_seen_yet_is_written_with_the_next(bench: Bench) -> None:
    """An unseen Namespace passes for one that ends."""
    bench.ending = True
    bench.warn("does not fit")
    await bench.pass_by(1)
    assert bench.plane.messages() == []
    bench.ending = False
    bench.warn("does not fit")
    await bench.pass_by(1)
    assert bench.plane.messages() == [("does not fit", 1)]
