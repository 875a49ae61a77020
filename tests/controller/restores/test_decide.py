"""The next step of a restore, the keys that are put back, and the revisions that are left behind."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from bulkhead.api.objects import Obj
from controller.plane.restoring import FORMER_FILE, FORMER_KEY
from controller.restores import clones, status
from controller.restores.decide import (
    BUMP,
    Facts,
    Holder,
    Place,
    bump,
    clone_keys,
    clone_refusal,
    decide,
    keys,
    note,
    refusal,
)
from controller.restores.status import Compared
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


PLACE = Place("red2", "red", "10.112.64.0/22")


def test_a_clone_is_refused_for_every_reason_at_once() -> None:
    found = made(tenant="red", service_slice="10.112.4.0/22")
    assert clone_refusal(found, (), PLACE) == ""
    assert clone_refusal(found, (), Place("red2", "blue", "10.112.64.0/22")) == "it is of Tenant red, and not of blue"
    assert "another name than its original" in clone_refusal(found, (), Place("red", "red", "10.112.64.0/22"))
    worst = Place("red2", "red", "10.112.64.0/23", taken=True, forbidden="secret")
    message = clone_refusal(found, ("etcd.age is missing",), worst)
    for words in (
        "etcd.age is missing",
        "has a plane already",
        "TenantClass secret forbids clones",
        "10.112.64.0/23 is smaller",
    ):
        assert words in message


def test_a_clone_has_its_own_key_and_nothing_of_the_snapshots_but_what_reads_its_secrets() -> None:
    former = {FORMER_FILE: b"old"}
    first = clone_keys(STORED, {}, "account", "drawn")
    assert first.create == {"account": {"encryption.key": b"drawn"}, FORMER_KEY: former}
    # The next controller draws another one, and uses the one that is there.
    there = {"account": {"encryption.key": b"drawn"}}
    second = clone_keys(STORED, there, "account", "drawn again")
    assert (second.create, second.change) == ({FORMER_KEY: former}, {})
    assert not clone_keys(STORED, there | {FORMER_KEY: former}, "account", "drawn again")
    other = clone_keys(STORED, there | {FORMER_KEY: {FORMER_FILE: b"of another restore"}}, "account", "drawn again")
    assert (other.create, other.change) == ({}, {FORMER_KEY: former})


def test_a_clone_is_told_as_one_and_its_cluster_uid_does_not_depend_on_the_moment() -> None:
    found, uid = made(tenant="red", service_slice="10.112.4.0/22"), "11111111-2222-3333-4444-555555555555"
    request: Obj = {"metadata": {"name": "red2-1"}, "spec": {"tenant": "red2", "cloneOf": "red"}}
    assert (status.clone_of(request), status.succeeded(request)) == ("red", False)
    done = request | {"status": status.restored(request, found, Compared(), NOW)}
    assert status.succeeded(done)
    assert "the clone of red runs with snapshot" in done["status"]["conditions"][0]["message"]
    plain: Obj = {"spec": {"scheduling": {"mode": "Kubernetes"}}}
    assert clones.cloned(found, uid, plain) == clones.cloned(found, uid, plain)
    assert clones.cloned(found, uid, plain) != clones.cloned(found, uid.replace("1", "2"), plain)
    assert clones.cloned(found, uid, plain).former_slice == "10.112.4.0/22"
    for scheduling, slurm in (({}, False), ({"mode": "Slurm"}, True), ({"mode": "Kubernetes", "slurm": {}}, True)):
        assert clones.cloned(found, uid, {"spec": {"scheduling": scheduling}}).slurm is slurm
    assert "kubectl delete tenant red2" in clones.abandoned("red2", "red/one")
