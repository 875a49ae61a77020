"""What the platform writes into a cluster's accounting database, and what it leaves alone."""

import json
from dataclasses import replace

import pytest

from controller.slurm.answers.accounting import Records, parse_records
from controller.slurm.answers.parse import SlurmAnswerError
from controller.slurm.decide.accounts import missing
from controller.slurm.spec import AccountingSpec, QosSpec, SlurmImages, SlurmSpec, UserSpec

ALICE, BOB = UserSpec("alice", 10_000, admin=True), UserSpec("bob", 10_001)
ACCOUNTING = AccountingSpec(qos=(QosSpec("high", preempts=("low",)), QosSpec("low")))
SPEC = SlurmSpec("team-a", "red", "26.05.5", SlurmImages("s", "m"), users=(ALICE, BOB), accounting=ACCOUNTING)
WHOLE = Records(
    qos=frozenset({"normal", "high", "low"}),
    associations=frozenset({("red", "users", ""), ("red", "users", "alice"), ("red", "users", "bob")}),
    users={"alice": True, "bob": False, "root": True},
)


def kinds(there: Records, spec: SlurmSpec = SPEC) -> list[str]:
    return [write.kind for write in missing(spec, ACCOUNTING, there)]


def test_an_empty_database_gets_everything_in_the_order_in_which_it_can_be_named() -> None:
    writes = missing(SPEC, ACCOUNTING, Records())
    assert [write.kind for write in writes] == ["qos", "qos", "accounts_association", "users_association", "users"]
    assert [write.body["qos"][0]["name"] for write in writes[:2]] == ["low", "high"]
    assert writes[2].body["association_condition"]["association"]["qoslevel"] == ["normal", "high", "low"]
    assert writes[3].body["association_condition"]["users"] == ["alice", "bob"]
    assert [user["name"] for user in writes[4].body["users"]] == ["alice"]
    assert sum(write.entries for write in writes) == 6


def test_a_database_that_has_everything_gets_nothing() -> None:
    assert missing(SPEC, ACCOUNTING, WHOLE) == ()


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (replace(WHOLE, qos=WHOLE.qos - {"high"}), ["qos", "associations"]),
        (replace(WHOLE, users={"alice": False, "bob": True}), ["users"]),
        (replace(WHOLE, associations=WHOLE.associations - {("red", "users", "bob")}), ["users_association"]),
        # The same names in another cluster of the database, or in another account, do not count.
        (replace(WHOLE, associations=frozenset({("blue", "users", ""), ("red", "other", "bob")})), ["accounts_association"]),
    ],
)
def test_only_what_is_missing_is_written(there: Records, wanted: list[str]) -> None:
    assert kinds(there)[: len(wanted)] == wanted


def test_a_user_who_was_taken_out_of_the_spec_keeps_the_records() -> None:
    assert kinds(WHOLE, replace(SPEC, users=(ALICE,))) == []


def test_a_user_who_was_taken_out_of_the_spec_administers_nothing() -> None:
    there = replace(WHOLE, users=dict(WHOLE.users) | {"eve": False}, operators=frozenset({"eve", "slurm"}))
    (write,) = missing(replace(SPEC, users=(BOB,)), ACCOUNTING, there)
    assert (write.kind, write.body) == (
        "users",
        {"users": [{"name": "alice", "administrator_level": ["None"]}, {"name": "eve", "administrator_level": ["None"]}]},
    )
    # Users of the Tenant may have been made operators with sacctmgr.
    assert missing(SPEC, ACCOUNTING, replace(WHOLE, operators=frozenset({"bob"}))) == ()


def test_answers_are_read_into_records() -> None:
    qos = json.dumps({"qos": [{"name": "normal"}, {"name": "high"}, {"name": "low"}]}).encode()
    pairs = [{"cluster": cluster, "account": account, "user": user} for cluster, account, user in WHOLE.associations]
    users = [
        {"name": name, "administrator_level": ["Administrator"] if admin else ["None"]} for name, admin in WHOLE.users.items()
    ]
    users += [{"name": "eve", "administrator_level": ["Operator"]}]
    found = parse_records(qos, json.dumps({"associations": pairs}).encode(), json.dumps({"users": users}).encode())
    assert found == replace(WHOLE, users=dict(WHOLE.users) | {"eve": False}, operators=frozenset({"eve"}))
    with pytest.raises(SlurmAnswerError):
        parse_records(b'{"errors": [{"error": "no database"}]}', b"{}", b"{}")
