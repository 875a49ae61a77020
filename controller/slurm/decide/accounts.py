"""Decides the writes to a cluster's accounting database: the Tenant's users, their account, the QOS of its spec. Pure.

    spec, records ──> writes of missing records

Only missing records are added, and users' rights are corrected. A QOS that the Tenant has changed since it was written is
written again: its description contains a mark of what it was written from. Limits, shares, further accounts and everything else
that admins change with sacctmgr stay as they are. Nothing is ever deleted, because the database records which user ran which
job. So a user that the Tenant no longer names keeps the records, but administers nothing: another person may get that name or
number.

A new QOS is begun with a mark that is not complete. It gets its own once the account has the QOS and those that it preempts are
there: what fails in between is written again.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.slurm import SYSTEM_USERS
from controller.slurm.answers.accounting import ADMIN, Quality, Records
from controller.slurm.objects.parts import digest
from controller.slurm.spec import STANDARD_QOS, AccountingSpec, QosSpec, SlurmSpec, UserSpec

ACCOUNT: Final = "users"
_NOBODY: Final = "None"
_MARK: Final = "bulkhead:"
_NO_LIMIT: Final[Obj] = {"set": True, "infinite": True, "number": 0}
_USUAL_MODE: Final = "disabled"  # as Slurm names a QOS without a mode of its own
# What a QOS preempts that has preempted others: slurmrestd takes an empty list as no change. No account has this QOS,
# and no QOS of a Tenant can be called so.
NOTHING: Final = "_nothing"


@dataclass(frozen=True, slots=True)
class Write:
    """One request to slurmdbd: its path, its body, and how many of the spec's entries it is for."""

    kind: str
    body: Obj
    entries: int


def missing(spec: SlurmSpec, accounting: AccountingSpec, there: Records) -> tuple[Write, ...]:
    """The writes that bring the records to what the spec names, in order."""
    removed = sorted(_removed(spec, there))
    # First, so that no other write that fails leaves them.
    writes = [Write("users", {"users": [_no_rights(name) for name in removed]}, len(removed))] if removed else []
    # A QOS can name only those that exist: each of them first, and at the end the ones that it preempts.
    new = [quality for quality in accounting.qos if quality.name not in there.qos]
    writes += [Write("qos", {"qos": [_begun(quality)]}, 0) for quality in new]
    members = {user for cluster, account, user in there.associations if (cluster, account) == (spec.cluster_name, ACCOUNT)}
    names = list(dict.fromkeys((STANDARD_QOS, *(quality.name for quality in accounting.qos))))
    if "" not in members:
        writes.append(Write("accounts_association", _account(spec, names), 1))
    elif new or any(_is_begun(there.qos.get(quality.name)) for quality in accounting.qos):
        record = {"account": ACCOUNT, "cluster": spec.cluster_name, "user": "", "qos": names}
        writes.append(Write("associations", {"associations": [record]}, 0))
    joining = [user for user in spec.users if user.name not in members]
    if joining:
        writes.append(Write("users_association", _users(spec, joining), len(joining)))
    changed = [user for user in spec.users if there.users.get(user.name, False) != user.admin]
    if changed:
        writes.append(Write("users", {"users": [_rights(user) for user in changed]}, len(changed)))
    # Last, so that users can submit jobs also where slurmdbd refuses one of these.
    wanted = _preempted_first((*accounting.qos, *_standard_again(accounting, there)))
    edited = [body for quality in wanted if (body := _edited(quality, there)) is not None]
    if NOTHING not in there.qos and any(NOTHING in body.get("preempt", {}).get("list", ()) for body in edited):
        writes.append(Write("qos", {"qos": [{"name": NOTHING, "description": "stands where a QOS preempts no other"}]}, 0))
    return (*writes, *(Write("qos", {"qos": [body]}, 1) for body in edited))


def _standard_again(accounting: AccountingSpec, there: Records) -> list[QosSpec]:
    """QOS `normal` as slurmdbd makes it, where the Tenant has limited it and names it no more: it limits every user."""
    named = any(quality.name == STANDARD_QOS for quality in accounting.qos)
    record = there.qos.get(STANDARD_QOS)
    return [QosSpec(STANDARD_QOS)] if not named and record is not None and _MARK in record.description else []


def _preempted_first(qos: Iterable[QosSpec]) -> list[QosSpec]:
    """Each QOS after those that it preempts: before, what these preempted until now might close a loop."""
    left, ordered = list(qos), list[QosSpec]()
    while left:
        names = {quality.name for quality in left}
        free = [quality for quality in left if names.isdisjoint(quality.preempts)] or left
        ordered += free
        left = [quality for quality in left if quality not in free]
    return ordered


def _removed(spec: SlurmSpec, there: Records) -> frozenset[str]:
    """Users with rights that the Tenant does not name; Slurm's own, which no user of a Tenant may be called, keep theirs."""
    powerful = there.operators | {name for name, admin in there.users.items() if admin}
    return powerful - {user.name for user in spec.users} - {*SYSTEM_USERS}


def _account(spec: SlurmSpec, qualities: list[str]) -> Obj:
    """The account of all users, and the QOS that they may use."""
    return {
        "association_condition": {
            "accounts": [ACCOUNT],
            "clusters": [spec.cluster_name],
            "association": {"qoslevel": qualities},
        },
        "account": {"description": "users of the tenant", "organization": spec.tenant},
    }


def _users(spec: SlurmSpec, found: Iterable[UserSpec]) -> Obj:
    """Users with an association that lets them use the cluster."""
    names = [user.name for user in found]
    return {
        "association_condition": {"users": names, "accounts": [ACCOUNT], "clusters": [spec.cluster_name]},
        "user": {"defaultaccount": ACCOUNT},
    }


def _rights(found: UserSpec) -> Obj:
    """A user's record with the rights that the Tenant gives."""
    level = ADMIN if found.admin else _NOBODY
    return {"name": found.name, "administrator_level": [level], "default": {"account": ACCOUNT}}


def _no_rights(name: str) -> Obj:
    """The record of a user without rights; the default account may be any, and stays."""
    return {"name": name, "administrator_level": [_NOBODY]}


def _quality(found: QosSpec) -> Obj:
    """A QOS record."""
    made: Obj = {"name": found.name, "description": f"{found.name} {_mark(found)}", "priority": _number(found.priority)}
    preempt: Obj = {"list": list(found.preempts)} if found.preempts else {}
    if found.preempt_mode:
        preempt["mode"] = [found.preempt_mode.upper()]
    most: Obj = {}
    if found.max_wall_minutes is not None:
        most["wall_clock"] = {"per": {"job": _number(found.max_wall_minutes)}}
    tres: Obj = {"total": _tres(found.group_tres)} if found.group_tres else {}
    if found.user_tres:
        tres["per"] = {"user": _tres(found.user_tres)}
    if tres:
        most["tres"] = tres
    return made | ({"preempt": preempt} if preempt else {}) | ({"limits": {"max": most}} if most else {})


def _begun(found: QosSpec) -> Obj:
    """A QOS that preempts none yet: its mark is not complete, so that it is written again if this is all that succeeds."""
    return _quality(replace(found, preempts=())) | {"description": f"{found.name} {_MARK}"}


def _is_begun(record: Quality | None) -> bool:
    return record is not None and _MARK in record.description.split()


def _edited(found: QosSpec, there: Records) -> Obj | None:
    """What to write into a QOS that is there or begun; None if it was written from this spec.

    One without a mark is as an earlier release wrote it, or as sacctmgr changed it since: only the mark is added. `normal` is
    there from the beginning, as slurmdbd made it.
    """
    made, record = _quality(found), there.qos.get(found.name)
    if record is None:
        return made
    if _mark(found) in record.description.split():
        return None
    if _MARK not in record.description and found.name != STANDARD_QOS:
        return {"name": found.name, "description": made["description"]}
    # What the Tenant no longer limits.
    gone = (record.group_tres - dict(found.group_tres).keys(), record.user_tres - dict(found.user_tres).keys())
    total, user = (
        [*_tres(pairs), *_tres((key, "-1") for key in sorted(keys))]
        for pairs, keys in zip((found.group_tres, found.user_tres), gone, strict=True)
    )
    wall = _NO_LIMIT if found.max_wall_minutes is None else _number(found.max_wall_minutes)
    most: Obj = {"wall_clock": {"per": {"job": wall}}, "tres": {"total": total, "per": {"user": user}}}
    preempts = list(found.preempts) or ([NOTHING] if record.preempts else [])
    preempt: Obj = {"mode": [(found.preempt_mode or _USUAL_MODE).upper()]} | ({"list": preempts} if preempts else {})
    return made | {"limits": {"max": most}, "preempt": preempt}


def _mark(found: QosSpec) -> str:
    return f"{_MARK}{digest(asdict(found))}"


def _tres(pairs: Iterable[tuple[str, str]]) -> list[Obj]:
    made = []
    for key, value in pairs:
        type_, _, name = key.partition("/")
        made.append({"type": type_, "name": name, "count": int(value)})
    return made


def _number(value: int) -> Obj:
    return {"set": True, "infinite": False, "number": value}
