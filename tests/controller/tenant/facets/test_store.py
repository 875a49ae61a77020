"""What is reported of a plane's store, and what is done about one that is full or mostly holes."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.conditions import Reason, find_condition
from controller.plane.budgets import Budget
from controller.plane.storestate import Member, Store, compacts_to, must_go, opens, store_of, to_defragment
from controller.tenant.facets.store.report import too_little, verdict
from tests.controller.tenant.test_status import ready_condition, ready_findings
from tests.kit.statuses import compute
from tests.kit.tenantsamples import NOW, changed, plane_spec, tenant

SPEC = plane_spec()
MIB = 1 << 20


def store(size: float, used: float | None = None, *, full: bool = False, revision: int = 100) -> Store:
    """Of one member, in percent of 512 MiB."""
    at = [math.ceil(percent * 512 * MIB / 100) for percent in (size, size if used is None else used)]
    alarms = ("17",) if full else ()
    return Store((Member("plane-0", size=at[0], used=at[1], quota=512 * MIB, revision=revision, alarms=alarms),))


@pytest.mark.parametrize(
    ("found", "truth", "reason", "words"),
    [
        (store(0.1), "True", Reason.READY, ("less than 50 % of 512Mi",)),
        (store(63), "True", Reason.READY, ("less than 70 %",)),
        (store(80), "False", Reason.STORE_FILLING, ("80 % or more of 512Mi", "delete", "controlPlane.storage.quota")),
        (store(94), "False", Reason.STORE_FILLING, ("90 %",)),
        (store(100, 99, full=True), "False", Reason.STORE_FULL, ("only deletions", "512Mi of 512Mi", "52Mi must be freed")),
        (store(100, 20, full=True), "False", Reason.STORE_FULL, ("room is being made",)),
        (Store(silent=("etcd of pod plane-0 does not answer",)), "Unknown", Reason.WAITING_FOR_PLANE, ("plane-0",)),
    ],
)  # fmt: skip
def test_how_full_a_store_is_is_said_with_what_to_do(found: Store, truth: str, reason: Reason, words: tuple[str, ...]) -> None:
    said = verdict(SPEC, found)
    assert (said.status, said.reason) == (truth, reason)
    assert all(word in said.message for word in words), said.message


def test_a_store_that_is_used_does_not_change_the_status_each_time() -> None:
    said = {verdict(SPEC, store(tenth / 10)).message for tenth in range(1000)}
    assert len(said) <= 9


def test_limits_below_what_a_full_store_needs_are_named_with_both_numbers() -> None:
    small = changed(SPEC, budgets={"etcd": Budget("20m", "40Mi", 512), "controller_manager": Budget("10m", "48Mi", 320)})
    said = verdict(small, store(1))
    assert (said.status, said.reason) == ("False", Reason.MEMORY_BELOW_QUOTA)
    for word in ("resources.etcd.limits.memory is 512Mi and 1408Mi", "controllerManager.limits.memory is 320Mi and 2176Mi"):
        assert word in said.message
    assert "apiServer" not in said.message
    assert too_little(SPEC) == ""
    assert "1600Mi" in too_little(changed(SPEC, control_plane={"replicas": 3}))  # what follows its leader holds more of the log


def test_a_full_store_is_why_a_tenant_is_not_ready_and_a_filling_one_is_not() -> None:
    full = compute(tenant(), SPEC, ready_findings(store=store(100, full=True)), NOW)
    assert ready_condition(full) == ("False", "StoreFull")
    assert (find_condition(full["conditions"], "PlaneReady") or {})["status"] == "True"
    filling = compute(tenant(), SPEC, ready_findings(store=store(85)), NOW)
    assert ready_condition(filling) == ("True", "Ready")
    assert (find_condition(filling["conditions"], "StoreHasRoom") or {})["reason"] == "StoreFilling"
    # What is worse comes first.
    down = compute(tenant(), SPEC, ready_findings(store=store(100, full=True), plane_ready=False), NOW)
    assert ready_condition(down)[1] != "StoreFull"


def test_a_plane_whose_store_is_not_asked_reports_nothing_of_it() -> None:
    made = compute(tenant(), SPEC, ready_findings(), NOW)
    assert find_condition(made["conditions"], "StoreHasRoom") is None


# -- making room


def test_a_store_that_has_room_is_left_alone() -> None:
    calm = store(60, 20)
    assert (compacts_to(calm, 50, 0), to_defragment(calm), opens(calm)) == (0, (), False)


def test_a_file_that_is_mostly_holes_is_rewritten_before_it_is_full() -> None:
    assert to_defragment(store(70, 45))
    assert not to_defragment(store(70, 65)), "nothing would come of it, each time it is looked at"
    assert not to_defragment(store(69, 1)), "a small one is left alone: etcd uses the holes again"


def test_old_versions_are_forgotten_only_of_a_full_store_and_each_once() -> None:
    full = store(100, full=True, revision=100)
    assert compacts_to(full, earlier=90, done=0) == 90
    assert compacts_to(full, earlier=100, done=90) == 100  # the last deletions, after which nothing comes
    assert compacts_to(full, earlier=100, done=100) == 0
    assert compacts_to(full, earlier=0, done=0) == 0  # at the first look


def test_a_full_store_opens_once_a_tenth_is_free_and_not_before() -> None:
    assert opens(store(89.9, full=True))
    assert not opens(store(91, full=True))
    assert must_go(store(100, 95, full=True)) == pytest.approx(0.05 * 512 * MIB, abs=2)
    larger = replace(store(100, full=True).members[0], quota=1024 * MIB)
    assert opens(Store((larger,)))


def test_of_three_members_the_fullest_counts_and_one_that_is_silent_makes_nothing_known() -> None:
    members = [replace(store(size, size / 2, full=size > 99).members[0], name=f"plane-{size}") for size in (40, 95, 100)]
    all_ = store_of(members)
    assert (all_.full, all_.size, all_.alarms) == (True, 512 * MIB, ("17",))
    assert [member.name for member in to_defragment(all_)] == ["plane-95", "plane-100"]
    # One of three may be silent: what the others say holds.
    assert store_of([*members[1:], "plane-0 is silent"]).full
    silent = store_of([members[2], "plane-0 is silent", "plane-1 is silent"])
    assert (silent.unread, silent.full, opens(silent)) == ("plane-0 is silent; plane-1 is silent", False, False)


@given(st.floats(0, 110), st.floats(0, 110))
def test_a_store_that_stays_full_says_how_much_has_to_go(size: float, used: float) -> None:
    """The message does not say that room is being made if nothing is done."""
    found = store(max(size, used), used, full=True)
    if not to_defragment(found) and not opens(found):
        assert must_go(found) > 0


@given(st.integers(0, 110), st.integers(0, 110))
def test_making_room_comes_to_an_end(size: int, used: int) -> None:
    """A rewritten file is as large as its content: it is not rewritten again and again."""
    found = store(max(size, used), used, full=max(size, used) >= 100)
    for member in to_defragment(found):
        after = Store((replace(member, size=member.used),))
        assert not to_defragment(after)
        assert not opens(after) or after.size <= 0.9 * 512 * MIB
