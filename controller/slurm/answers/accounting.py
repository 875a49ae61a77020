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
class Records:
    """The records of one cluster's database."""

    qos: frozenset[str] = frozenset()
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


class _Qos(Counted, frozen=True):
    name: str


class _Associations(msgspec.Struct, frozen=True):
    associations: list[_Association] = []
    errors: list[Problem] = []


class _Users(msgspec.Struct, frozen=True):
    users: list[_User] = []
    errors: list[Problem] = []


class _Qualities(msgspec.Struct, frozen=True):
    qos: list[_Qos] = []
    errors: list[Problem] = []


def parse_records(qos: bytes, associations: bytes, users: bytes) -> Records:
    """The records of all three answers."""
    found = parse.decode(associations, _Associations).associations
    levels = {user.name: frozenset(parse.words(user.administrator_level)) for user in parse.decode(users, _Users).users}
    return Records(
        qos=frozenset(quality.name for quality in parse.decode(qos, _Qualities).qos),
        associations=frozenset((association.cluster, association.account, association.user) for association in found),
        users={name: ADMIN in words for name, words in levels.items()},
        operators=frozenset(name for name, words in levels.items() if OPERATOR in words),
    )
