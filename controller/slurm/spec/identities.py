"""As which users of a cluster an identity may come in: what a certificate says, and what login nodes are told. Pure."""

from collections.abc import Iterable
from typing import Final

from controller.slurm.spec import UserSpec

ROOT: Final = "root"


def principals_of(identity: str, users: Iterable[UserSpec]) -> tuple[str, ...]:
    """The users that an identity may be, by their names; root is the last, and only for who administers the cluster."""
    found = [user for user in users if identity in user.identities]
    return (*(user.name for user in found), *((ROOT,) if any(user.admin for user in found) else ()))
