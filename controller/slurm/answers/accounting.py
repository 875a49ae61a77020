"""Parses slurmdbd's QOS, associations and users, as slurmrestd returns them. Pure; the answers are hostile input."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from controller.inside.counted import Counted
from controller.slurm.answers import parse
from controller.slurm.answers.wire import NO_WORDS, Problem

ADMIN = "Administrator"
OPERATOR = "Operator"


@dataclass(frozen=True, slots=True)
class Quality:
    """A QOS: its description, the TRES that it limits, as `gres/gpu`, and the names of the QOS that it preempts."""

    description: str = ""
    group_tres: frozenset[str] = frozenset()
    user_tres: frozenset[str] = frozenset()
    preempts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one cluster's database, with the associations of one account."""

    qos: Mapping[str, Quality] = field(default_factory=dict)
    # Cluster, account and user; the account's own association has no user.
    associations: frozenset[tuple[str, str, str]] = frozenset()
    # User -> whether it is an administrator.
    users: Mapping[str, bool] = field(default_factory=dict)
    # Users with fewer rights than an administrator, which only sacctmgr gives.
    operators: frozenset[str] = frozenset()


class _Association(Counted, frozen=True):
    account: str = ""
    cluster: str = ""
    user: str = ""


class _User(Counted, frozen=True):
    name: str
    administrator_level: msgspec.Raw = NO_WORDS


class _Tres(Counted, frozen=True):
    type: str = ""
    name: str = ""

    @property
    def key(self) -> str:
        return f"{self.type}/{self.name}" if self.name else self.type


class _PerUser(msgspec.Struct, frozen=True):
    user: list[_Tres] = []


class _TresLimits(msgspec.Struct, frozen=True):
    total: list[_Tres] = []
    per: _PerUser = _PerUser()


class _Most(msgspec.Struct, frozen=True):
    tres: _TresLimits = _TresLimits()


class _Limits(msgspec.Struct, frozen=True):
    max: _Most = _Most()


class _Preempt(msgspec.Struct, frozen=True):
    list: msgspec.Raw = NO_WORDS


class _Qos(Counted, frozen=True):
    name: str
    description: str = ""
    limits: _Limits = _Limits()
    preempt: _Preempt = _Preempt()


class _Associations(msgspec.Struct, frozen=True):
    associations: list[_Association] | None = None
    errors: list[Problem] = []


class _Users(msgspec.Struct, frozen=True):
    users: list[_User] = []
    errors: list[Problem] = []


class _Qualities(msgspec.Struct, frozen=True):
    qos: list[_Qos] = []
    errors: list[Problem] = []


def parse_records(qos: bytes, associations: bytes, users: bytes) -> Records:
    """The records of all three answers."""
    found = parse.decode(associations, _Associations).associations or ()
    levels = {user.name: frozenset(parse.words(user.administrator_level)) for user in parse.decode(users, _Users).users}
    return Records(
        qos={quality.name: _quality(quality) for quality in parse.decode(qos, _Qualities).qos},
        associations=frozenset((association.cluster, association.account, association.user) for association in found),
        users={name: ADMIN in words for name, words in levels.items()},
        operators=frozenset(name for name, words in levels.items() if OPERATOR in words),
    )


def _quality(found: _Qos) -> Quality:
    limits = found.limits.max.tres
    total, user = (frozenset(tres.key for tres in limited) for limited in (limits.total, limits.per.user))
    return Quality(found.description, total, user, frozenset(parse.words(found.preempt.list)))
