"""A deletion that was observed frees its host object; one that is inferred from a relist is left to the mass-delete breaker."""

from unittest.mock import AsyncMock

from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta
from syncer.watch.deletions import ObservedDeletions
from syncer.write.massdelete import WINDOW_SECONDS, MassDeleteBreaker
from tests.kit.fakeclock import FakeClock

KEY = Key("default", "one")


def test_only_a_deletion_in_an_event_is_observed_and_until_the_name_comes_again() -> None:
    deletions = ObservedDeletions()
    deletions.note("Pod", Change("deleted", KEY, Meta(), relist=True))
    assert not deletions.observed("Pod", KEY)
    deletions.note("Pod", Change("deleted", KEY, Meta()))
    assert deletions.observed("Pod", KEY)
    assert not deletions.observed("Service", KEY)
    deletions.note("Pod", Change("added", KEY, Meta()))
    assert not deletions.observed("Pod", KEY)


async def test_an_observed_deletion_is_not_counted_by_the_breaker() -> None:
    deletions = ObservedDeletions()
    breaker = MassDeleteBreaker(1, FakeClock(), deletions, AsyncMock())
    deletions.note("Pod", Change("deleted", KEY, Meta()))
    assert [await breaker.may_delete("Pod", KEY) for _ in range(3)] == [True, True, True]
    assert await breaker.may_delete("Service", KEY)
    assert not await breaker.may_delete("Service", KEY)
    assert await breaker.may_delete("Pod", KEY)


async def test_what_vanished_long_ago_does_not_count() -> None:
    clock = FakeClock()
    breaker = MassDeleteBreaker(2, clock, ObservedDeletions(), AsyncMock())
    for _ in range(6):
        assert await breaker.allow()
        clock.advance(WINDOW_SECONDS / 2 + 1)
    assert not breaker.open


async def test_a_breaker_that_opened_stays_open() -> None:
    clock = FakeClock()
    breaker = MassDeleteBreaker(2, clock, ObservedDeletions(), AsyncMock())
    assert [await breaker.allow() for _ in range(3)] == [True, True, False]
    clock.advance(10 * WINDOW_SECONDS)
    assert (breaker.open, await breaker.allow()) == (True, False)
