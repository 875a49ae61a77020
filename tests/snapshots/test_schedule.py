"""Scheduled snapshots: when one is due, what it is called, which object is one, and which of them go."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import labels
from bulkhead.api.conditions import SnapshotReason
from bulkhead.api.objects import Obj
from bulkhead.snapshots.judge import RefusedError
from bulkhead.snapshots.layout import folder
from controller.plane.sections import Backup
from controller.snapshots.removal import stored_of
from controller.snapshots.schedule import Plane, covers, name_of, reason_of, request, slot, slot_of, trouble
from controller.snapshots.thinning import FAILED_KEPT, Taken, of, surplus
from tests.snapshots.samples import GOLDEN

ID = "99999999-8888-7777-6666-555555555555"
OTHER = "99999999-8888-7777-6666-555555555556"
PLANE = Plane("red", ID)
NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
STORED, FAILED = SnapshotReason.STORED, SnapshotReason.FAILED
identities = st.uuids().map(str)
intervals = st.integers(min_value=900, max_value=604800)
moments = st.integers(1_700_000_000, 2_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


def snapshot(at: datetime, reason: str = STORED, plane: Plane = PLANE, **meta: Any) -> Obj:
    made = request(plane, at)
    truth = {STORED: "True", FAILED: "False"}.get(SnapshotReason(reason), "Unknown")
    condition = {"type": "Complete", "status": truth, "reason": reason, "message": f"it is {reason}"}
    status = {"conditions": [condition], "identity": plane.identity, "startTime": at.isoformat()}
    return made | {"metadata": made["metadata"] | {"uid": "u"} | meta, "status": status}


def taken(*hours: float, reason: str = STORED) -> list[Taken]:
    """One for each number of hours before now, called after it."""
    return [Taken(f"{reason} {hour:g}", NOW - hour * HOUR, reason) for hour in hours]


def hours(names: Sequence[str]) -> list[str]:
    return [name.partition(" ")[2] for name in names]


@given(identities, intervals, moments)
def test_a_slot_has_begun_and_the_next_one_has_not(identity: str, every: int, now: datetime) -> None:
    plane = Plane("red", identity)
    found = slot(plane, every, now)
    assert found <= now < found + timedelta(seconds=every)
    # Within the slot the same object is asked for.
    assert slot(plane, every, found) == found == slot(plane, every, found + timedelta(seconds=every - 1))
    assert slot(plane, every, found + timedelta(seconds=every)) == found + timedelta(seconds=every)


def test_a_hundred_tenants_of_one_schedule_do_not_start_at_once() -> None:
    planes = [Plane(f"team-{number}", f"{number:08x}-0000-4000-8000-000000000000") for number in range(100)]
    starts = [slot(plane, 3600, NOW) for plane in planes]
    busiest = max(sum(abs((one - other).total_seconds()) < 60 for other in starts) for one in starts)
    assert busiest <= 10, "of a hundred that are spread over an hour, that many begin within the same two minutes"


@given(identities, moments)
def test_a_name_leads_back_to_its_slot(identity: str, now: datetime) -> None:
    plane = Plane("red", identity)
    assert slot_of(request(plane, now), plane) == now
    assert folder(identity, name_of(plane, now))
    assert len(name_of(Plane("x" * 40, identity), now)) <= 128


def test_what_the_schedule_did_not_ask_for_is_not_scheduled() -> None:
    asked = request(PLANE, NOW)
    meta = asked["metadata"]
    assert slot_of(asked, PLANE) == NOW
    strange = [
        asked | {"metadata": meta | {"labels": {}}},
        asked | {"metadata": meta | {"labels": {labels.SCHEDULED: OTHER}}},
        asked | {"metadata": meta | {"name": "red-before-the-upgrade"}},
        asked | {"metadata": meta | {"name": "red-20261399-000000-99999999"}},
        asked | {"metadata": meta | {"name": "red-20260601-120000-11111111"}},
        asked | {"spec": {"tenant": "blue"}},
        {"metadata": None, "spec": 7},
        {},
    ]
    assert [slot_of(obj, PLANE) for obj in strange] == [None] * len(strange)
    assert of(strange, PLANE) == ()


def test_of_a_tenant_that_was_made_again_nothing_of_before_counts() -> None:
    before = snapshot(NOW - HOUR, plane=Plane("red", OTHER))
    assert slot_of(before, PLANE) is None
    assert covers(before, ID) is None
    assert covers(before, OTHER) == NOW - HOUR


@pytest.mark.parametrize(
    ("kept", "there", "goes"),
    [
        # Every 20 minutes, of the last three hours the last one each.
        (Backup(hourly=3, daily=0, weekly=0), (3.1, 2.9, 2.5, 2.1, 1.2, 0.8, 0.4, 0.1), ["3.1", "2.9", "2.5", "0.8", "0.4"]),
        # Two days, and the newest is the last of the second.
        (Backup(hourly=0, daily=2, weekly=0), (49, 37, 25, 13, 1), ["49", "37", "25"]),
        (Backup(hourly=0, daily=0, weekly=2), (24 * 15, 24 * 8, 24 * 7 + 11, 24), ["360", "179"]),
        # Nothing is to be kept: the newest is.
        (Backup(hourly=0, daily=0, weekly=0), (5, 4, 3), ["5", "4"]),
        (Backup(hourly=24, daily=7, weekly=5), (5, 4, 3), []),
        (Backup(), (), []),
    ],
)  # fmt: skip
def test_the_last_of_each_period_stays(kept: Backup, there: tuple[float, ...], goes: list[str]) -> None:
    assert hours(surplus(taken(*there), kept)) == goes


def test_failed_ones_go_once_a_whole_one_is_newer_and_of_the_others_the_last_stay() -> None:
    none = Backup(hourly=0, daily=0, weekly=0)
    assert hours(surplus([*taken(5, 3, reason=FAILED), *taken(4)], none)) == ["5"]
    many = taken(*range(9, 0, -1), reason=FAILED)
    assert hours(surplus(many, none)) == [str(hour) for hour in range(9, FAILED_KEPT, -1)]


def test_what_is_kept_by_hand_or_goes_already_is_left_alone() -> None:
    marked = snapshot(NOW - HOUR, labels=request(PLANE, NOW)["metadata"]["labels"] | {labels.KEEP: "true"})
    going = snapshot(NOW - 2 * HOUR, deletionTimestamp="2026-06-01T12:00:00Z")
    assert [one.name for one in of([marked, going, snapshot(NOW)], PLANE)] == [name_of(PLANE, NOW)]


@given(
    st.lists(st.tuples(st.integers(0, 24 * 400), st.sampled_from([*SnapshotReason, "", "Later"])), max_size=60, unique=True),
    st.integers(0, 30), st.integers(0, 30), st.integers(0, 30),
)  # fmt: skip
def test_thinning_never_deletes_the_newest_whole_one_nor_what_it_cannot_read(
    there: list[tuple[int, str]], hourly: int, daily: int, weekly: int
) -> None:
    listed = [Taken(f"{reason} {hour}", NOW - hour * HOUR, str(reason)) for hour, reason in there]
    kept = Backup(hourly=hourly, daily=daily, weekly=weekly)
    gone = set(surplus(listed, kept))
    whole = sorted((one for one in listed if one.reason == STORED), key=lambda one: one.slot)
    if whole:
        assert whole[-1].name not in gone
    assert all(one.reason in {STORED, FAILED} for one in listed if one.name in gone)
    # Each number is honoured: of no kind of period are fewer kept than asked for, as far as there are any.
    rest = [one for one in whole if one.name not in gone]
    for length, number in ((3600, hourly), (86400, daily)):
        periods = {one.slot.timestamp() // length for one in whole}
        assert len({one.slot.timestamp() // length for one in rest}) >= min(number, len(periods))
    assert len(rest) <= max(1, hourly + daily + weekly)
    # What stays, stays: deleting these asks for no more deletions.
    assert surplus([one for one in listed if one.name not in gone], kept) == ()


def test_how_far_one_is_and_what_is_wrong_with_the_latest() -> None:
    assert reason_of(snapshot(NOW)) == STORED
    lying = snapshot(NOW)
    lying["status"]["conditions"][0]["status"] = "False"
    assert reason_of(lying) == ""
    assert covers(lying, ID) is None
    assert covers(snapshot(NOW, SnapshotReason.RUNNING), ID) is None
    assert covers(snapshot(NOW) | {"status": snapshot(NOW)["status"] | {"startTime": "soon"}}, ID) is None
    assert trouble([snapshot(NOW - HOUR, FAILED), snapshot(NOW)], PLANE) == ""
    assert trouble([snapshot(NOW - HOUR), snapshot(NOW, SnapshotReason.RETRYING)], PLANE) == "it is Retrying"
    assert trouble([], PLANE) == ""


def ours() -> tuple[Obj, Plane]:
    plane = Plane(GOLDEN.tenant, GOLDEN.identity)
    return snapshot(NOW, plane=plane), plane


def changed(**fields: Any) -> Any:
    _, plane = ours()
    return replace(GOLDEN, **({"snapshot": name_of(plane, NOW)} | fields))


def test_what_is_stored_of_a_snapshot_goes_with_its_manifest_last() -> None:
    asked, plane = ours()
    home = folder(plane.identity, name_of(plane, NOW))
    paths = stored_of(asked, changed()).paths
    assert paths[-1] == f"{home}/manifest.json"
    assert set(paths[:-1]) == {f"{home}/{GOLDEN.attempt}/{part}" for part in ("etcd.age", "plane.age")}


def test_what_is_stored_of_others_never_goes() -> None:
    asked, _ = ours()
    meta = asked["metadata"]
    for found in (changed(snapshot="by-hand"), changed(identity=OTHER), changed(tenant="blue")):
        with pytest.raises(RefusedError, match="its manifest is of"):
            stored_of(asked, found)
    # Made by hand, and labelled afterwards.
    with pytest.raises(RefusedError, match="a schedule asked for"):
        stored_of(asked | {"metadata": meta | {"name": "by-hand"}}, changed(snapshot="by-hand"))
    with pytest.raises(RefusedError, match="a schedule asked for"):
        stored_of(asked | {"status": {"identity": OTHER}}, changed())


def test_planes_that_had_the_same_tenants_name_have_no_snapshot_of_one_name() -> None:
    moment = datetime(2026, 6, 1, 12, tzinfo=UTC)
    one, other = Plane("red", "99999999-8888-7777-6666-555555555555"), Plane("red", "11111111-8888-7777-6666-555555555555")
    assert name_of(one, moment) != name_of(other, moment)
    assert slot_of(request(one, moment), other) is None
