"""The mass-delete breaker and restarts: a new process goes on from what the earlier one counted, and stays open if that was."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from bulkhead.api.planeidentity import ACCEPTED_SECONDS, Recorded, absences_counted
from bulkhead.kube.errors import KubeError, Timeout
from syncer.watch.deletions import ObservedDeletions
from syncer.work import Again
from syncer.write.identity import RECORD_SECONDS, PlaneIdentity
from syncer.write.massdelete import WINDOW_SECONDS, MassDeleteBreaker
from tests.kit.fakeclock import FakeClock
from tests.syncer.write.test_identity import _Host, _made

LIMIT = 3


async def _process(host: _Host, after: float = 0.0) -> tuple[MassDeleteBreaker, PlaneIdentity, FakeClock]:
    """A syncer that starts so many seconds after the clock's begin, wired as `session` does."""
    identity, _plane, clock = _made(host)
    clock.advance(after)
    breaker = MassDeleteBreaker(LIMIT, clock, ObservedDeletions(), identity.note)
    identity.on_accepted = breaker.accept
    await identity.establish()
    breaker.resume(identity.record)
    return breaker, identity, clock


async def _allowed(breaker: MassDeleteBreaker, number: int) -> list[bool]:
    return [await breaker.allow() for _ in range(number)]


async def test_processes_that_follow_each_other_share_one_limit() -> None:
    host = _Host()
    assert await _allowed((await _process(host))[0], 2) == [True, True]
    # Killed; the next one is there ten seconds later, and the one after it ten seconds later again.
    breaker, _, _ = await _process(host, 10)
    assert await _allowed(breaker, 1) == [True]
    breaker, _, clock = await _process(host, 20)
    clock.advance(WINDOW_SECONDS - 10)
    assert not breaker.open
    assert await _allowed(breaker, 1) == [False]
    # Positive control: what was counted longer ago counts no more.
    host = _Host()
    await _allowed((await _process(host))[0], LIMIT)
    assert await _allowed((await _process(host, WINDOW_SECONDS + 1))[0], LIMIT) == [True] * LIMIT


async def test_a_breaker_that_opened_is_open_in_the_next_process_until_the_record_is_deleted() -> None:
    host = _Host()
    assert await _allowed((await _process(host))[0], LIMIT + 1) == [True] * LIMIT + [False]
    breaker, identity, clock = await _process(host, 3600)
    assert (breaker.open, await _allowed(breaker, 1)) == (True, [False])
    # Neither the next revision nor a check of the plane ends that, and it is not a quarantine: what was seen to go may go.
    cast("Any", identity._virtual).revision = 120
    identity.saw("120")
    await identity._refresh()
    await identity.flush()
    assert await identity.trusted()
    assert breaker.open
    assert "more than 3 objects vanished" in host.data["breakerOpen"]
    assert "quarantine" not in host.data
    # An admin accepts the plane's data.
    host.data = {}
    clock.advance(RECORD_SECONDS)
    await identity._refresh()
    assert not breaker.open
    assert await _allowed(breaker, 20) == [True] * 20
    assert not (await _process(host, 3600 + ACCEPTED_SECONDS))[0].open


async def test_nothing_is_deleted_that_the_host_could_not_note_and_a_try_does_not_count() -> None:
    host = _Host()
    breaker, identity, _ = await _process(host)
    patch = host.patch

    async def silent(*_args: Any) -> Any:
        raise Timeout("no answer")

    for _ in range(LIMIT + 1):
        host.patch = silent  # type: ignore[method-assign]
        with pytest.raises(KubeError):
            await breaker.allow()
    host.patch = patch  # type: ignore[method-assign]
    assert await _allowed(breaker, LIMIT) == [True] * LIMIT
    # That it opened is noted as soon as the host takes it.
    host.patch = silent  # type: ignore[method-assign]
    with pytest.raises(KubeError):
        await breaker.allow()
    assert breaker.open
    host.patch = patch  # type: ignore[method-assign]
    assert await _allowed(breaker, 1) == [False]
    assert host.data["breakerOpen"]
    unknown, _plane, _clock = _made(_Host())
    with pytest.raises(Again):
        await unknown.note("2026-01-01T00:00:00Z 1", "")
    assert identity.record.uid == "plane"


async def test_what_is_counted_in_a_quarantine_does_not_undo_an_all_clear() -> None:
    host = _Host()
    breaker, identity, _ = await _process(host)
    cast("Any", identity._virtual).uid = "another"
    assert not await identity.trusted()
    assert await breaker.allow()
    assert host.data.keys() == {"clusterUID", "highestRevision", "quarantine"}
    host.data = {}
    assert await breaker.allow()
    await identity._refresh()
    assert host.data["clusterUID"] == "another"
    assert await identity.trusted()


@pytest.mark.parametrize("lost", ["plane", "objects"])
async def test_an_all_clear_just_before_the_process_ends_is_the_next_ones(lost: str) -> None:
    """An admin accepts the data and restarts the syncer, or an upgrade does: the end of the process does not undo it."""
    host = _Host()
    host.placed = True
    breaker, identity, _ = await _process(host)
    if lost == "plane":
        cast("Any", identity._virtual).uid = "another"
        assert not await identity.trusted()
    else:
        await _allowed(breaker, LIMIT + 1)
    host.data = {}
    identity.saw("130")
    await identity.flush()
    assert host.data == {}
    breaker, identity, _ = await _process(host, 5)
    assert await identity.trusted()
    assert await _allowed(breaker, 20) == [True] * 20


async def test_a_quarantine_that_the_host_has_not_taken_is_written_at_the_end() -> None:
    host = _Host()
    _, identity, _ = await _process(host)
    cast("Any", identity._virtual).uid = "another"
    host.refused = [Timeout("no answer")]
    with pytest.raises(KubeError):
        await identity.trusted()
    identity.saw("130")
    await identity.flush()
    assert host.data["quarantine"]


async def test_what_is_not_known_of_the_plane_is_on_record_and_no_write_of_another_kind_takes_it_away() -> None:
    host = _Host()
    breaker, identity, clock = await _process(host)
    await identity.note_incomplete("Pods take too much")
    await breaker.allow()
    assert (await _process(host))[1].record.incomplete == "Pods take too much"
    # That an admin accepts the plane makes it no smaller.
    host.data = {}
    clock.advance(RECORD_SECONDS)
    identity.saw("130")
    await identity._refresh()
    assert host.data == {"clusterUID": "plane", "highestRevision": "130", "incomplete": "Pods take too much"}
    await identity.note_incomplete("")
    assert "incomplete" not in host.data


@pytest.mark.parametrize(
    ("noted", "counted"),
    [
        ("2026-01-01T00:00:00Z 7", (7, 30.0)),
        ("2026-01-01T00:05:00Z 7", (7, 0.0)),  # by a clock that was ahead
        ("2026-01-01T00:00:00Z -7", (0, 30.0)),
        ("2026-01-01T00:00:00 7", (0, 0.0)),
        ("2026-01-01T00:00:00Z", (0, 0.0)),
        ("soon 7", (0, 0.0)),
        (f"2026-01-01T00:00:00Z {9 * '9'}0", (0, 0.0)),
        ("", (0, 0.0)),
    ],
)
def test_what_was_counted_is_read_back(noted: str, counted: tuple[int, float]) -> None:
    assert absences_counted(Recorded(absences=noted), datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)) == counted
