"""What the platform writes into a cluster's accounting database, and what it leaves alone."""

import json
from dataclasses import replace
from typing import Any

import pytest

from controller.slurm.answers.accounting import Quality, Records, parse_records
from controller.slurm.answers.parse import SlurmAnswerError
from controller.slurm.decide.accounts import missing
from controller.slurm.spec import AccountingSpec, QosSpec, SlurmImages, SlurmSpec, UserSpec

ALICE, BOB = UserSpec("alice", 10_000, admin=True), UserSpec("bob", 10_001)
ACCOUNTING = AccountingSpec(qos=(QosSpec("high", preempts=("low",)), QosSpec("low")))
SPEC = SlurmSpec("team-a", "red", "26.05.5", SlurmImages("s", "m"), users=(ALICE, BOB), accounting=ACCOUNTING)


def written(quality: QosSpec) -> Quality:
    """A QOS as the database has it once it was written."""
    writes = missing(replace(SPEC, users=()), AccountingSpec(qos=(quality,)), Records(associations=ALL))
    *_, write = (write for write in writes if write.kind == "qos")
    (body,) = write.body["qos"]
    tres = body.get("limits", {}).get("max", {}).get("tres", {})
    return Quality(body["description"], keys(tres.get("total")), keys(tres.get("per", {}).get("user")))


def keys(tres: list[dict[str, Any]] | None) -> frozenset[str]:
    return frozenset(f"{entry['type']}/{entry['name']}".rstrip("/") for entry in tres or ())


ALL = frozenset({("red", "users", "")})
WHOLE = Records(
    qos={"normal": Quality(), **{quality.name: written(quality) for quality in ACCOUNTING.qos}},
    associations=frozenset({("red", "users", ""), ("red", "users", "alice"), ("red", "users", "bob")}),
    users={"alice": True, "bob": False, "root": True},
)


def kinds(there: Records, spec: SlurmSpec = SPEC) -> list[str]:
    return [write.kind for write in missing(spec, ACCOUNTING, there)]


def test_an_empty_database_gets_everything_in_the_order_in_which_it_can_be_named() -> None:
    writes = missing(SPEC, ACCOUNTING, Records())
    assert [write.kind for write in writes] == ["qos", "qos", "accounts_association", "users_association", "users", "qos"]
    assert [write.body["qos"][0]["name"] for write in (*writes[:2], writes[-1])] == ["high", "low", "high"]
    assert writes[2].body["association_condition"]["association"]["qoslevel"] == ["normal", "high", "low"]
    assert writes[3].body["association_condition"]["users"] == ["alice", "bob"]
    assert [user["name"] for user in writes[4].body["users"]] == ["alice"]
    assert sum(write.entries for write in writes) == 6


def test_a_database_that_has_everything_gets_nothing() -> None:
    assert missing(SPEC, ACCOUNTING, WHOLE) == ()


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (replace(WHOLE, qos={"normal": Quality(), "low": WHOLE.qos["low"]}), ["qos", "associations", "qos"]),
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


@pytest.mark.parametrize("names", [("high", "mid", "low"), ("mid", "low", "high"), ("low", "mid", "high")])
def test_a_qos_preempts_only_those_that_are_there_when_it_is_written(names: tuple[str, ...]) -> None:
    preempts = {"high": ("mid", "low"), "mid": ("low", "normal"), "low": ()}
    accounting = AccountingSpec(qos=tuple(QosSpec(name, preempts=preempts[name]) for name in names))
    there = {"normal": Quality()}
    for write in missing(SPEC, accounting, Records()):
        for body in write.body.get("qos", []):
            assert set(body.get("preempt", {}).get("list", [])) <= there.keys()
            # Written up to here, the rest is written again.
            assert body["name"] not in there or missing(SPEC, accounting, replace(WHOLE, qos=there))
            there[body["name"]] = Quality(body["description"])
    assert missing(SPEC, accounting, replace(WHOLE, qos=there)) == ()


LIMITED = QosSpec("high", 100, ("low",), "requeue", 60, (("gres/gpu", "8"),), (("cpu", "4"), ("mem", "10")))


def after(edit: QosSpec, there: Quality) -> list[Any]:
    """What is written into a QOS that is there."""
    records = replace(WHOLE, qos={"normal": Quality(), "high": there})
    return [write.body["qos"][0] for write in missing(SPEC, AccountingSpec(qos=(edit,)), records)]


def test_a_qos_that_the_tenant_changes_is_written_again_as_a_whole() -> None:
    assert after(LIMITED, written(LIMITED)) == []
    (body,) = after(replace(LIMITED, max_wall_minutes=30, group_tres=(("gres/gpu", "4"),)), written(LIMITED))
    assert body["limits"]["max"]["wall_clock"]["per"]["job"]["number"] == 30
    assert body["limits"]["max"]["tres"]["total"] == [{"type": "gres", "name": "gpu", "count": 4}]
    (body,) = after(QosSpec("high"), written(LIMITED))
    assert body["priority"]["number"] == 0
    assert body["preempt"] == {"mode": ["DISABLED"]}
    assert body["limits"]["max"] == {
        "wall_clock": {"per": {"job": {"set": True, "infinite": True, "number": 0}}},
        "tres": {
            "total": [{"type": "gres", "name": "gpu", "count": -1}],
            "per": {"user": [{"type": "cpu", "name": "", "count": -1}, {"type": "mem", "name": "", "count": -1}]},
        },
    }


def test_limits_of_the_qos_that_is_always_there_are_written() -> None:
    normal = QosSpec("normal", max_wall_minutes=60)
    spec = replace(SPEC, users=())
    there = Records(qos={"normal": Quality("Normal QOS default")})
    account, qos = missing(spec, AccountingSpec(qos=(normal,)), there)
    (body,) = qos.body["qos"]
    assert body["limits"]["max"]["wall_clock"]["per"]["job"]["number"] == 60
    assert account.body["association_condition"]["association"]["qoslevel"] == ["normal"]
    written_once = replace(there, qos={"normal": Quality(body["description"])}, associations=ALL)
    assert missing(spec, AccountingSpec(qos=(normal,)), written_once) == ()


def test_what_sacctmgr_changed_in_a_qos_stays_until_the_tenant_changes_it() -> None:
    kept = replace(written(LIMITED), group_tres=frozenset({"node"}))
    assert after(LIMITED, kept) == []
    # One of an earlier release, or with another description: only the mark is new.
    (body,) = after(LIMITED, Quality("high"))
    assert body == {"name": "high", "description": written(LIMITED).description}
    assert after(LIMITED, Quality(body["description"])) == []


def test_answers_are_read_into_records() -> None:
    limits = {"max": {"tres": {"total": [{"type": "gres", "name": "gpu", "id": 1, "count": 8}]}}}
    limits["max"]["tres"]["per"] = {"user": [{"type": "cpu", "name": ""}]}  # type: ignore[assignment]
    qos = json.dumps({"qos": [{"name": "normal"}, {"name": "high", "description": "h", "limits": limits}]}).encode()
    pairs = [{"cluster": cluster, "account": account, "user": user} for cluster, account, user in WHOLE.associations]
    users = [
        {"name": name, "administrator_level": ["Administrator"] if admin else ["None"]} for name, admin in WHOLE.users.items()
    ]
    users += [{"name": "eve", "administrator_level": ["Operator"]}]
    found = parse_records(qos, json.dumps({"associations": pairs}).encode(), json.dumps({"users": users}).encode())
    high = Quality("h", frozenset({"gres/gpu"}), frozenset({"cpu"}))
    assert found == replace(
        WHOLE, qos={"normal": Quality(), "high": high}, users=dict(WHOLE.users) | {"eve": False}, operators=frozenset({"eve"})
    )
    with pytest.raises(SlurmAnswerError):
        parse_records(b'{"errors": [{"error": "no database"}]}', b"{}", b"{}")
