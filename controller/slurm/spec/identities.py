"""Computes the users of a cluster for which an identity may log in, for certificates and for login nodes. Pure."""

from collections.abc import Iterable
from typing import Final

from controller.slurm.spec import UserSpec

ROOT: Final = "root"


def principals_of(identity: str, users: Iterable[UserSpec]) -> tuple[str, ...]:
    """The names of an identity's users; the last is root, only for administrators of the cluster."""
    found = [user for user in users if identity in user.identities]
    accounts = dict.fromkeys(account for user in found for account in accounts_of(user))
    return (*(name for name in accounts if name != ROOT), *(name for name in accounts if name == ROOT))


def accounts_of(user: UserSpec) -> tuple[str, ...]:
    """The accounts that a user's identities open; root only for administrators of the cluster."""
    return (user.name, ROOT) if user.admin else (user.name,)


def has_none_left(user: UserSpec, revoked: frozenset[str]) -> bool:
    """Whether all identities of this user are revoked; false for a user with only keys, whose owners are unknown."""
    return bool(user.identities) and revoked.issuperset(user.identities)
