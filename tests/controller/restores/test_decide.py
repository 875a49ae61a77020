"""The next step of a restore, the keys that are put back, and the revisions that are left behind."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.restores.decide import BUMP, Facts, Holder, bump, decide, keys, note, refusal
from tests.snapshots.samples import made

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "cases.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_next_step_follows_from_what_is_there(case: dict[str, Any]) -> None:
    began = NOW - timedelta(minutes=case["minutes"]) if "minutes" in case else None
    decision = decide(Facts(**case["facts"], began=began), NOW)
    assert (str(decision.step), decision.why) == (case["step"], case.get("why", ""))


STORED = {"account": {"encryption.key": b"old", "sa.key": b"old"}, "ca": {"tls.key": b"old"}}


def test_missing_keys_come_back_and_nothing_that_was_replaced_does() -> None:
    assert keys(STORED, {}, "account").create == STORED
    assert not keys(STORED, STORED, "account")
    replaced = {"account": {"encryption.key": b"old", "sa.key": b"new"}, "ca": {"tls.key": b"new"}}
    assert not keys(STORED, replaced, "account")
    found = keys(STORED, {"account": {"encryption.key": b"new", "sa.key": b"new"}}, "account")
    assert (found.create, found.change) == ({"ca": STORED["ca"]}, {"account": {"encryption.key": b"old"}})
    assert "old" not in repr(found)


def test_revisions_are_raised_beyond_all_that_were_seen_also_by_an_earlier_restore() -> None:
    assert bump(0) == BUMP
    # The same snapshot a second time: its own revision and a fixed bump would be the revisions of the first time again.
    first = 5000 + bump(7000)
    assert 5000 + bump(first + 12_000) > first + 12_000


def test_every_reason_is_said_at_once() -> None:
    found = made(tenant="red", service_slice="10.112.4.0/22")
    assert refusal(found, (), Holder("red", service_slice="10.112.4.0/22")) == ""
    assert refusal(found, (), Holder("red")) == ""
    message = refusal(found, ("etcd.age is missing",), Holder("blue", service_slice="10.112.8.0/22"))
    for word in ("etcd.age is missing", "of Tenant red, and not of blue", "10.112.8.0/22"):
        assert word in message


def test_a_note_names_snapshot_and_restore() -> None:
    assert note("one", "2026-06-01", "red-1") == "restored from snapshot one of 2026-06-01 (TenantRestore red-1)"
