"""What is done about a full store: in which order, never below a quorum, and not again and again for one tenant."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.plane import storecare
from controller.plane.storecare import Compact, Defragment, Disarm, MoveLeader, Past, looked, next_step, rests_until
from controller.plane.storestate import Member, Store, store_of

QUOTA = 1000


def member(
    name: str, size: int = QUOTA, used: int = 200, *, leads: bool = False, full: bool = True, revision: int = 50
) -> Member:
    id_ = f"id-{name}"
    return Member(
        name,
        size=size,
        used=used,
        quota=QUOTA,
        revision=revision,
        alarms=("id-plane-0",) if full else (),
        id=id_,
        leader=id_ if leads else "another",
    )


def three(*, full: bool = True, **changes: Member | str) -> Store:
    found: dict[str, Member | str] = {f"plane_{at}": member(f"plane-{at}", leads=at == 0, full=full) for at in range(3)}
    return store_of((found | changes).values(), 3)


def cared_for(store: Store, past: Past, now: float, used: int) -> tuple[list[storecare.Step], Past, Store]:
    """All steps until there are none: a defragmented file is as large as what is used."""
    steps: list[storecare.Step] = []
    while (step := next_step(store, past, now)) is not None:
        assert len(steps) < 12, steps
        steps.append(step)
        past = storecare.done(past, step, now)
        members = list(store.members)
        if isinstance(step, Defragment):
            members = [replace(one, size=used) if one.name == step.member.name else one for one in members]
        if isinstance(step, MoveLeader):
            members = [replace(one, leader=step.to.id) for one in members]
        if isinstance(step, Disarm):
            members = [replace(one, alarms=()) for one in members]
        store = replace(store, members=tuple(members))
    return steps, past, store


def test_the_members_are_defragmented_one_after_another_the_leader_last_and_the_alarm_ends_after_all() -> None:
    steps, _, store = cared_for(three(), Past(), 0.0, 200)
    assert [type(step).__name__ for step in steps] == ["Defragment", "Defragment", "MoveLeader", "Defragment", "Disarm"]
    assert [step.member.name for step in steps if isinstance(step, Defragment)] == ["plane-1", "plane-2", "plane-0"]
    assert not store.full


def test_no_member_is_defragmented_while_another_is_silent_and_a_single_one_is() -> None:
    assert next_step(three(plane_2="plane-2 is silent"), Past(), 0.0) is None
    assert isinstance(next_step(store_of([member("plane-0", leads=True)], 1), Past(), 0.0), Defragment)
    learner = replace(member("plane-2", size=200), learner=True)
    assert next_step(three(plane_2=learner), Past(), 0.0) is None, "a learner keeps no quorum"


def test_a_leader_that_keeps_leadership_is_defragmented_all_the_same() -> None:
    store = three(plane_1=member("plane-1", size=200), plane_2=member("plane-2", size=200))
    first = next_step(store, Past(), 0.0)
    assert isinstance(first, MoveLeader)
    assert first.to.name in {"plane-1", "plane-2"}
    assert isinstance(next_step(store, storecare.done(Past(), first, 0.0), 0.0), Defragment)


def test_what_no_quorum_says_starts_nothing() -> None:
    store = three(plane_1="silent", plane_2="silent")
    assert next_step(store, Past(earlier=40), 0.0) is None
    assert not store.full


def test_a_full_store_is_compacted_to_what_it_had_ten_seconds_ago() -> None:
    store = store_of([member("plane-0", used=QUOTA, leads=True)], 1)
    past = looked(Past(), store, 100.0)
    assert next_step(store, past, 100.0) is None
    assert next_step(store, looked(past, store, 105.0), 105.0) is None
    past = looked(past, store, 111.0)
    assert next_step(store, past, 111.0) == Compact(50)
    assert next_step(store, storecare.done(past, Compact(50), 111.0), 111.0) is None
    # A look at which nothing was learned forgets nothing, and a calm one the rest.
    assert looked(past, Store(silent=("silent",)), 120.0).earlier == 50
    assert looked(past, store_of([member("plane-0", full=False)], 1), 120.0).earlier == 0


def test_a_tenant_that_fills_again_and_again_waits_longer_each_time() -> None:
    past, now, pauses = Past(), 0.0, []
    for _ in range(10):
        store = store_of([member("plane-0", leads=True)], 1)
        past = looked(past, store, now)
        wait = max(0.0, rests_until(past) - now)
        pauses.append(wait)
        if wait:
            assert next_step(store, past, now + wait - 0.1) is None
        now += wait
        past = looked(past, store, now)
        steps, past, _ = cared_for(store, replace(past, earlier=0, defragmented=()), now, 200)
        assert isinstance(steps[-1], Disarm)
    assert pauses[:3] == [0, 0, 0]
    assert pauses[3:7] == [60, 120, 240, 480]
    assert max(pauses) <= 1800
    assert now > 3600, "ten openings take more than an hour"
    # An hour later all is forgotten.
    calm = looked(past, store_of([member("plane-0", full=False)], 1), now + 3601)
    assert rests_until(calm) == 0


def test_holes_of_a_calm_store_are_removed_every_ten_minutes_at_most() -> None:
    holes = store_of([member("plane-0", full=False, leads=True, size=900)], 1)
    assert isinstance(next_step(holes, Past(), 0.0), Defragment)
    past = storecare.done(Past(), Defragment(holes.members[0]), 0.0)
    assert next_step(holes, past, 599.0) is None
    assert isinstance(next_step(holes, past, 601.0), Defragment)


def test_a_defragmentation_that_frees_nothing_is_not_repeated_at_once() -> None:
    store = store_of([member("plane-0", leads=True)], 1)
    past = storecare.done(Past(), Defragment(store.members[0]), 0.0)
    assert next_step(store, past, 19.0) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 1100), st.integers(0, 1100), st.booleans(), st.booleans(), st.booleans()),
        min_size=3,
        max_size=3,
    ),
    st.integers(0, 60),
)
def test_whatever_members_report_the_work_ends_and_keeps_a_quorum(
    found: list[tuple[int, int, bool, bool, bool]], earlier: int
) -> None:
    members: list[Member | str] = []
    for at, (size, used, answers, full, learner) in enumerate(found):
        found_member = member(f"plane-{at}", max(size, used), used, leads=at == 0, full=full)
        members.append(replace(found_member, learner=learner) if answers else "silent")
    store, past = store_of(members, 3), Past(earlier=earlier)
    for _ in range(14):
        step = next_step(store, past, 0.0)
        if step is None:
            return
        past = storecare.done(past, step, 0.0)
        if isinstance(step, Defragment):
            voters = [one for one in store.members if not one.learner and one.name != step.member.name]
            assert len(voters) >= 2
            kept = (replace(one, size=one.used) if one.name == step.member.name else one for one in store.members)
            store = replace(store, members=tuple(kept))
        elif isinstance(step, Disarm):
            store = replace(store, members=tuple(replace(one, alarms=()) for one in store.members))
    pytest.fail("it goes on for ever")
