"""The arithmetic of quotas by itself: each rule where nothing else could make up for it."""

import pytest

from bulkhead.ledger.account import QuotaAccount
from bulkhead.ledger.model import Line, Share, Tenant

GPU = "nvidia.com/gpu"
LINE: Line = ("", GPU)


def tenant(name: str, nominal: int, *, cohort: str = "research", weight: int = 1, **share: int | None) -> Tenant:
    return Tenant(name, cohort, weight, {LINE: Share(nominal, **{"borrowing": None} | share)})


def account(*tenants: Tenant, **held: int) -> QuotaAccount:
    made = QuotaAccount({each.name: each for each in tenants})
    for name, amount in held.items():
        made.add(name, {LINE: amount})
    return made


def test_a_larger_weight_makes_the_share_smaller() -> None:
    made = account(tenant("light", 4), tenant("heavy", 4, weight=2), tenant("idle", 8), light=6, heavy=6)
    assert made.share("light") == 2 * made.share("heavy") > 0


def test_a_reservation_narrows_the_room_of_its_own_tenant() -> None:
    made = account(tenant("alone", 8, cohort="", lending=0), alone=2)
    made.reserve("alone", {LINE: 4})
    assert made.entry("alone", LINE).room() == 2


def test_a_reservation_narrows_the_room_of_others() -> None:
    made = account(tenant("next", 4), tenant("other", 4))
    made.reserve("next", {LINE: 4})
    assert made.entry("other", LINE).room() == 4


def test_a_tenant_does_not_borrow_from_itself() -> None:
    made = account(tenant("a", 2), tenant("b", 2), tenant("idle", 8), a=3, b=3)
    assert (made.borrowers("a", [LINE]), made.borrowers("b", [LINE])) == ({"b"}, {"a"})
    assert made.borrowers("idle", [LINE]) == {"a", "b"}


def test_what_was_done_on_trial_is_undone() -> None:
    made = account(tenant("next", 4), tenant("other", 4), other=1)
    before = [(made.entry(name, LINE).room(), made.share(name)) for name in ("next", "other")]
    mark = made.mark()
    made.add("next", {LINE: 2})
    made.reserve("next", {LINE: 2})
    made.reserve("other", {LINE: 5}, own=True)
    assert [made.entry(name, LINE).room() for name in ("next", "other")] == [3, 2]
    made.undo(mark)
    assert [(made.entry(name, LINE).room(), made.share(name)) for name in ("next", "other")] == before


@pytest.mark.parametrize(("held", "over"), [(4, {}), (5, {LINE: 1})])
def test_one_more_than_the_ceiling_is_over_it(held: int, over: dict[Line, int]) -> None:
    assert account(tenant("lowered", 4, cohort=""), lowered=held).over("lowered") == over
