"""What the platform writes into a cluster's accounting database, and what it leaves alone."""

import json
from dataclasses import replace
from typing import Any

import pytest

from controller.slurm.answers.accounting import Quality, Records, parse_records
from controller.slurm.answers.parse import SlurmAnswerError
from controller.slurm.decide.accounts import NOTHING, missing
from controller.slurm.spec import AccountingSpec, QosSpec, SlurmImages, SlurmSpec, UserSpec

ALICE, BOB = UserSpec("alice", 10_000, admin=True), UserSpec("bob", 10_001)
ACCOUNTING = AccountingSpec(qos=(QosSpec("high", preempts=("low",)), QosSpec("low")))
SPEC = SlurmSpec("team-a", "red", "26.05.5", SlurmImages("s", "m"), users=(ALICE, BOB), accounting=ACCOUNTING)


def written(quality: QosSpec) -> Quality:
    """A QOS as the database has it once it was written."""
    there = Records(qos={quality.name: begun(quality.name)}, associations=ALL)
    *_, write = missing(replace(SPEC, users=()), AccountingSpec(qos=(quality,)), there)
    (body,) = write.body["qos"]
    tres = body["limits"]["max"]["tres"]
    preempts = frozenset(body["preempt"].get("list", ()))
    return Quality(body["description"], keys(tres["total"]), keys(tres["per"]["user"]), preempts)


def begun(name: str) -> Quality:
    """A new QOS of which only the first half was written."""
    return Quality(f"{name} bulkhead:")


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
    first = ["qos", "qos", "accounts_association", "users_association", "users"]
    assert [write.kind for write in writes] == [*first, "qos", "qos"]
    assert [write.body["qos"][0]["name"] for write in (*writes[:2], *writes[-2:])] == ["high", "low", "low", "high"]
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
        # What failed is that the account got the QOS.
        (replace(WHOLE, qos=dict(WHOLE.qos) | {"high": begun("high")}), ["associations", "qos"]),
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
    for write in missing(SPEC, accounting, replace(WHOLE, qos=dict(there))):
        # Until all is written, the rest is written again.
        assert missing(SPEC, accounting, replace(WHOLE, qos=there))
        for body in write.body.get("qos", []):
            assert set(body.get("preempt", {}).get("list", [])) <= there.keys()
            there[body["name"]] = Quality(body["description"])
    assert missing(SPEC, accounting, replace(WHOLE, qos=there)) == ()


def test_qos_that_preempt_each_other_the_other_way_round_close_no_loop() -> None:
    before = {"high": ("mid",), "mid": ("low",), "low": ()}
    accounting = AccountingSpec(qos=(QosSpec("low", preempts=("mid",)), QosSpec("mid", preempts=("high",)), QosSpec("high")))
    there = {name: written(QosSpec(name, preempts=preempts)) for name, preempts in before.items()}
    left = {name: set(quality.preempts) for name, quality in there.items()}
    for write in missing(SPEC, accounting, replace(WHOLE, qos={"normal": Quality(), **there})):
        for body in write.body.get("qos", []):
            left[body["name"]] = set(body.get("preempt", {}).get("list", ()))
            assert not loops(left), body
    assert left == {"low": {"mid"}, "mid": {"high"}, "high": {NOTHING}, NOTHING: set()}


def loops(left: dict[str, set[str]]) -> bool:
    """Whether slurmdbd would refuse these lists."""
    while free := {name for name, preempts in left.items() if not preempts & left.keys()}:
        left = {name: preempts for name, preempts in left.items() if name not in free}
    return bool(left)


LIMITED = QosSpec("high", 100, ("low",), "requeue", 60, (("gres/gpu", "8"),), (("cpu", "4"), ("mem", "10")))


def after(edit: QosSpec, there: Quality) -> list[Any]:
    """What is written into a QOS that is there."""
    records = replace(WHOLE, qos={"normal": Quality(), "high": there})
    writes = missing(SPEC, AccountingSpec(qos=(edit,)), records)
    return [write.body["qos"][0] for write in writes if write.kind == "qos"]


def test_a_qos_that_the_tenant_changes_is_written_again_as_a_whole() -> None:
    assert after(LIMITED, written(LIMITED)) == []
    (body,) = after(replace(LIMITED, max_wall_minutes=30, group_tres=(("gres/gpu", "4"),)), written(LIMITED))
    assert body["limits"]["max"]["wall_clock"]["per"]["job"]["number"] == 30
    assert body["limits"]["max"]["tres"]["total"] == [{"type": "gres", "name": "gpu", "count": 4}]
    nothing, body = after(QosSpec("high"), written(LIMITED))
    assert body["priority"]["number"] == 0
    assert (nothing["name"], body["preempt"]) == (NOTHING, {"mode": ["DISABLED"], "list": [NOTHING]})
    assert body["limits"]["max"] == {
        "wall_clock": {"per": {"job": {"set": True, "infinite": True, "number": 0}}},
        "tres": {
            "total": [{"type": "gres", "name": "gpu", "count": -1}],
            "per": {"user": [{"type": "cpu", "name": "", "count": -1}, {"type": "mem", "name": "", "count": -1}]},
        },
    }


def test_a_qos_whose_preempt_is_emptied_preempts_one_that_no_job_has() -> None:
    """An empty list would change nothing."""
    with_it, without = QosSpec("high", preempts=("low",)), QosSpec("high")
    both = {"normal": Quality(), "low": Quality("low"), "high": written(with_it)}
    only = replace(SPEC, users=())
    nothing, edit = missing(only, AccountingSpec(qos=(without,)), replace(WHOLE, users={}, qos=both))
    assert (nothing.body["qos"][0]["name"], nothing.body["qos"][0].get("preempt")) == (NOTHING, None)
    assert edit.body["qos"][0]["preempt"]["list"] == [NOTHING]
    emptied = {**both, NOTHING: Quality(), "high": replace(written(without), preempts=frozenset({NOTHING}))}
    assert missing(only, AccountingSpec(qos=(without,)), replace(WHOLE, users={}, qos=emptied)) == ()
    # One that has never preempted any needs none, and what it preempts later takes its place.
    (edit,) = missing(
        only, AccountingSpec(qos=(replace(without, priority=5),)), replace(WHOLE, users={}, qos={"high": written(without)})
    )
    assert "list" not in edit.body["qos"][0]["preempt"]
    (edit,) = missing(only, AccountingSpec(qos=(with_it,)), replace(WHOLE, users={}, qos=emptied))
    assert edit.body["qos"][0]["preempt"]["list"] == ["low"]


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


def test_the_qos_that_is_always_there_is_as_it_was_once_the_tenant_names_it_no_more() -> None:
    only, nothing = replace(SPEC, users=()), AccountingSpec()
    limited = written(QosSpec("normal", 5, ("low",), None, 60, (("gres/gpu", "8"),)))
    there = Records(qos={"normal": limited, "low": Quality("low")}, associations=ALL)
    *_, edit = missing(only, nothing, there)
    (body,) = edit.body["qos"]
    assert body["limits"]["max"]["wall_clock"]["per"]["job"]["infinite"]
    assert body["limits"]["max"]["tres"]["total"] == [{"type": "gres", "name": "gpu", "count": -1}]
    assert (body["priority"]["number"], body["preempt"]["list"]) == (0, [NOTHING])
    after_it = Quality(body["description"], preempts=frozenset({NOTHING}))
    assert missing(only, nothing, replace(there, qos={"normal": after_it, NOTHING: Quality()})) == ()
    # What sacctmgr did to it is not the Tenant's.
    assert missing(only, nothing, replace(there, qos={"normal": Quality("Normal QOS default", frozenset({"cpu"}))})) == ()


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
    preempt = {"list": ["low"], "mode": ["REQUEUE"], "exempt_time": {"set": False, "infinite": True, "number": 0}}
    high = {"name": "high", "description": "h", "limits": limits, "preempt": preempt}
    qos = json.dumps({"qos": [{"name": "normal"}, high]}).encode()
    pairs = [{"cluster": cluster, "account": account, "user": user} for cluster, account, user in WHOLE.associations]
    users = [
        {"name": name, "administrator_level": ["Administrator"] if admin else ["None"]} for name, admin in WHOLE.users.items()
    ]
    users += [{"name": "eve", "administrator_level": ["Operator"]}]
    found = parse_records(qos, json.dumps({"associations": pairs}).encode(), json.dumps({"users": users}).encode())
    qualities = {"normal": Quality(), "high": Quality("h", frozenset({"gres/gpu"}), frozenset({"cpu"}), frozenset({"low"}))}
    assert found == replace(WHOLE, qos=qualities, users=dict(WHOLE.users) | {"eve": False}, operators=frozenset({"eve"}))
    with pytest.raises(SlurmAnswerError):
        parse_records(b'{"errors": [{"error": "no database"}]}', b"{}", b"{}")
