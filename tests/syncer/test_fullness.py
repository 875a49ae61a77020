"""A copy of the plane that is full: admin and tenant read which kind it is, and it is taken back once there is room."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from bulkhead.api.planeidentity import Recorded
from bulkhead.kube.errors import Timeout
from syncer.fullness import Fullness
from tests.kit.fakeclock import FakeClock


def copy(**state: Any) -> Any:
    return SimpleNamespace(**{"full": False, "has_synced": True, "max_bytes": 128 << 20} | state)


def made(copies: dict[str, Any], *, told: str = "") -> tuple[Fullness, AsyncMock, Any]:
    note, plane = AsyncMock(), SimpleNamespace(create=AsyncMock())
    fullness = Fullness(copies, plane, FakeClock(), note)  # type: ignore[arg-type]
    fullness.resume(Recorded(incomplete=told))
    return fullness, note, plane


async def test_a_kind_that_is_too_large_is_told_once_and_taken_back() -> None:
    pods = copy(full=True, has_synced=False)
    fullness, note, plane = made({"Pod": pods, "Service": copy()})
    for _ in range(3):
        await fullness.look()
    (why,) = note.await_args.args
    assert "objects of kind Pod take more than 128 MiB" in why
    # A record keeps no more of a text.
    assert len(why) <= 256
    (_resource, event, place) = plane.create.await_args.args
    assert (event["reason"], event["message"], place) == ("TooLarge", why, "default")
    assert (note.await_count, plane.create.await_count) == (1, 1)
    pods.full, pods.has_synced = False, True
    for _ in range(3):
        await fullness.look()
    assert [call.args for call in note.await_args_list] == [(why,), ("",)]
    assert plane.create.await_count == 1


async def test_what_an_earlier_process_told_counts_until_all_was_listed() -> None:
    pods = copy(has_synced=False)
    fullness, note, _plane = made({"Pod": pods}, told="too large")
    await fullness.look()
    assert note.await_count == 0
    pods.has_synced = True
    await fullness.look()
    note.assert_awaited_once_with("")


async def test_what_could_not_be_recorded_is_told_again_and_a_plane_that_takes_no_event_stops_nothing() -> None:
    fullness, note, plane = made({"Pod": copy(full=True)})
    note.side_effect = plane.create.side_effect = Timeout("no answer")
    with pytest.raises(Timeout):
        await fullness.look()
    note.side_effect = None
    await fullness.look()
    await fullness.look()
    assert (note.await_count, plane.create.await_count) == (2, 1)


async def test_a_healthy_plane_costs_no_write() -> None:
    fullness, note, plane = made({"Pod": copy()})
    await fullness.look()
    assert (note.await_count, plane.create.await_count) == (0, 0)
