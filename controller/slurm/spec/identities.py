"""Computes the users of a cluster for which an identity may log in, for certificates and for login nodes. Pure."""

from collections.abc import Iterable
from typing import Final

from controller.slurm.spec import UserSpec

ROOT: Final = "root"


def principals_of(identity: str, users: Iterable[UserSpec]) -> tuple[str, ...]:
    """The names of an identity's users; the last is root, only for administrators of the cluster."""
    found = [user for user in users if identity in user.identities]
    return (*(user.name for user in found), *((ROOT,) if any(user.admin for user in found) else ()))


def has_none_left(user: UserSpec, revoked: frozenset[str]) -> bool:
    """Whether all identities of this user are revoked; false for a user with only keys, whose owners are unknown."""
    return bool(user.identities) and revoked.issuperset(user.identities)
