"""A deletion that was observed frees its host object; one that is inferred from a relist is left to the mass-delete breaker."""

from unittest.mock import AsyncMock

from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta
from syncer.watch.deletions import ObservedDeletions
from syncer.write.massdelete import WINDOW_SECONDS, MassDeleteBreaker
from tests.kit.fakeclock import FakeClock

KEY = Key("default", "one")
OLD = Meta(uid="old")


def test_only_a_deletion_in_an_event_is_observed_and_until_the_object_comes_again() -> None:
    deletions = ObservedDeletions()
    deletions.note("Pod", Change("deleted", KEY, OLD, relist=True))
    assert not deletions.observed("Pod", "old")
    deletions.note("Pod", Change("deleted", KEY, OLD))
    assert deletions.observed("Pod", "old")
    assert not deletions.observed("Service", "old")
    assert not deletions.observed("Pod", "new")
    # From an older copy of the plane's data.
    deletions.note("Pod", Change("added", KEY, OLD))
    assert not deletions.observed("Pod", "old")


async def test_objects_that_a_tenant_replaces_do_not_count_as_vanished() -> None:
    """`kubectl replace --force` deletes and makes each within milliseconds: the next one is there before the old copy goes."""
    deletions = ObservedDeletions()
    breaker = MassDeleteBreaker(1, FakeClock(), deletions, AsyncMock())
    for number in range(100):
        deletions.note("Service", Change("deleted", KEY, Meta(uid=f"old-{number}")))
        deletions.note("Service", Change("added", KEY, Meta(uid=f"new-{number}")))
    assert all([await breaker.may_delete("Service", f"old-{number}") for number in range(100)])
    # Positive control.
    assert await breaker.may_delete("Service", "new-0")
    assert not await breaker.may_delete("Service", "new-1")


async def test_an_observed_deletion_is_not_counted_by_the_breaker() -> None:
    deletions = ObservedDeletions()
    breaker = MassDeleteBreaker(1, FakeClock(), deletions, AsyncMock())
    deletions.note("Pod", Change("deleted", KEY, OLD))
    assert [await breaker.may_delete("Pod", "old") for _ in range(3)] == [True, True, True]
    assert await breaker.may_delete("Service", "old")
    assert not await breaker.may_delete("Service", "old")
    assert await breaker.may_delete("Pod", "old")


async def test_pods_that_had_ended_do_not_count_and_stay_once_the_breaker_is_open() -> None:
    """While no syncer ran, the plane deleted them at once, as it does with pods that have ended."""
    breaker = MassDeleteBreaker(1, FakeClock(), ObservedDeletions(), AsyncMock())
    assert all([await breaker.may_delete("Pod", f"ended-{number}", ended=True) for number in range(100)])
    # Positive control: those that run do count.
    assert [await breaker.may_delete("Pod", f"runs-{number}") for number in range(2)] == [True, False]
    assert not await breaker.may_delete("Pod", "ended-100", ended=True)


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
