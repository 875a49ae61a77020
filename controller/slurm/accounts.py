"""What the platform keeps in a cluster's accounting database: the Tenant's users, their account, the QOS of its spec.

    spec ──> records that are missing ──> slurmdbd, through slurmrestd

Only what is missing is added, and users' rights are put right; limits, shares, further accounts and all else that admins
change with sacctmgr stays as they made it. Nothing is ever deleted: the database remembers who ran what.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from controller.inside.counted import Counted
from controller.slurm.answers import model
from controller.slurm.answers.model import SlurmAnswerError
from controller.slurm.answers.wire import NO_WORDS, Problem
from controller.slurm.client.rest import SlurmRefused, SlurmRest
from controller.slurm.spec import AccountingSpec, Obj, QosSpec, SlurmSpec, UserSpec

ACCOUNT: Final = "users"
STANDARD: Final = "normal"
_ADMIN: Final = "Administrator"
_NOBODY: Final = "None"


class AssociationRecord(Counted, frozen=True):
    """One entry of `associations`."""

    account: str = ""
    cluster: str = ""
    user: str = ""


class UserRecord(Counted, frozen=True):
    """One entry of `users`."""

    name: str
    administrator_level: msgspec.Raw = NO_WORDS


class QosRecord(Counted, frozen=True):
    """One entry of `qos`."""

    name: str


class Associations(msgspec.Struct, frozen=True):
    """GET associations."""

    associations: list[AssociationRecord] = []
    errors: list[Problem] = []


class Users(msgspec.Struct, frozen=True):
    """GET users."""

    users: list[UserRecord] = []
    errors: list[Problem] = []


class Qualities(msgspec.Struct, frozen=True):
    """GET qos."""

    qos: list[QosRecord] = []
    errors: list[Problem] = []


async def keep(rest: SlurmRest, spec: SlurmSpec, accounting: AccountingSpec) -> int:
    """Add what is missing; returns how many records that took."""
    there = _decoded(await rest.read_database("qos"), Qualities)
    new = [each for each in accounting.qos if each.name not in {record.name for record in there.qos}]
    # Those that nobody preempts come first: a QOS can only name what exists.
    for each in sorted(new, key=lambda found: len(found.preempts)):
        await rest.write_database("qos", [quality(each)])
    seen = _decoded(await rest.read_database("associations"), Associations)
    pairs = {(each.account, each.user) for each in seen.associations if each.cluster == spec.cluster_name}
    names = [STANDARD, *(each.name for each in accounting.qos)]
    if (ACCOUNT, "") not in pairs:
        await rest.write_accounting("accounts_association", account(spec, names))
    elif new:
        record = {"account": ACCOUNT, "cluster": spec.cluster_name, "user": "", "qos": names}
        await rest.write_database("associations", [record])
    missing = [each for each in spec.users if (ACCOUNT, each.name) not in pairs]
    if missing:
        await rest.write_accounting("users_association", users(spec, missing))
    admins = _admins(await rest.read_database("users"))
    changed = [each for each in spec.users if each.name in admins and admins[each.name] != each.admin]
    if changed:
        await rest.write_database("users", [rights(each) for each in changed])
    return len(new) + len(changed) + len(missing) + ((ACCOUNT, "") not in pairs)


def account(spec: SlurmSpec, qualities: list[str]) -> Obj:
    """The account of all users, and the QOS that they may use."""
    return {
        "association_condition": {
            "accounts": [ACCOUNT],
            "clusters": [spec.cluster_name],
            "association": {"qoslevel": qualities},
        },
        "account": {"description": "users of the tenant", "organization": spec.tenant},
    }


def users(spec: SlurmSpec, found: Iterable[UserSpec]) -> Obj:
    """Users with an association that lets them use the cluster."""
    names = [each.name for each in found]
    return {
        "association_condition": {"users": names, "accounts": [ACCOUNT], "clusters": [spec.cluster_name]},
        "user": {"defaultaccount": ACCOUNT},
    }


def rights(found: UserSpec) -> Obj:
    """A user's record with the rights that the Tenant gives."""
    level = _ADMIN if found.admin else _NOBODY
    return {"name": found.name, "administrator_level": [level], "default": {"account": ACCOUNT}}


def quality(found: QosSpec) -> Obj:
    """A QOS record."""
    made: Obj = {"name": found.name, "description": found.name, "priority": _number(found.priority)}
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


def _tres(pairs: Iterable[tuple[str, str]]) -> list[Obj]:
    made = []
    for key, value in pairs:
        type_, _, name = key.partition("/")
        made.append({"type": type_, "name": name, "count": int(value)})
    return made


def _number(value: int) -> Obj:
    return {"set": True, "infinite": False, "number": value}


def _admins(data: bytes) -> dict[str, bool]:
    """The users that there are, and whether each is an administrator."""
    try:
        return {each.name: _ADMIN in model.words(each.administrator_level) for each in _decoded(data, Users).users}
    except SlurmAnswerError as error:
        raise SlurmRefused(f"slurmdbd: {error}") from error


def _decoded(data: bytes, shape: type[Any]) -> Any:
    try:
        return model.decode(data, shape)
    except SlurmAnswerError as error:
        raise SlurmRefused(f"slurmdbd: {error}") from error
