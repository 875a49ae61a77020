"""Builds the list of users that every node knows, and the keys with which they log in to the login nodes.

Pure. Both are files of ConfigMaps that are read in place: adding or removing a user needs no restart. Names and keys were
checked before; here they are checked once more against what a line of passwd can hold.
"""

import re
from typing import Final

from bulkhead.api.objects import Obj
from controller.slurm.objects.parts import metadata
from controller.slurm.spec import LOGIN, USERS, SlurmSpec, UserSpec
from controller.slurm.spec.identities import has_none_left

AUTHORIZED_KEYS: Final = "slurm-authorized-keys"  # ConfigMap, one file for each user
ADMINS_GROUP: Final = "slurm-admins"
ADMINS_GID: Final = 9999

_NAME: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_KEY: Final = re.compile(r"[a-z0-9@.-]{1,64} [A-Za-z0-9+/]{16,4096}={0,3}( [ -~]{0,128})?")


class UnsafeUserError(ValueError):
    """A user's name or key cannot stand in a file."""


def config_map(spec: SlurmSpec) -> Obj:
    """ConfigMap `slurm-users`: lines of passwd and group for every user of the tenant."""
    names = [_name(user) for user in spec.users]
    passwd = [f"{name}:*:{user.uid}:{user.uid}::/home/{name}:/bin/bash" for name, user in zip(names, spec.users, strict=True)]
    group = [f"{name}:*:{user.uid}:" for name, user in zip(names, spec.users, strict=True)]
    admins = ",".join(user.name for user in spec.users if user.admin)
    data = {"passwd": _lines(passwd), "group": _lines([*group, f"{ADMINS_GROUP}:*:{ADMINS_GID}:{admins}"])}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(USERS, LOGIN), "data": data}


def authorized_keys(spec: SlurmSpec) -> Obj:
    """ConfigMap `slurm-authorized-keys`; an admin's keys open root's account on the login nodes too.

    Empty if only certificates may be used. A user whose identities are all revoked cannot log in at all: their keys no longer
    count, and neither do the same keys of root or of another user.
    """
    meta = metadata(AUTHORIZED_KEYS, LOGIN)
    if spec.login and not spec.login.keys:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}}
    revoked = spec.login.revoked if spec.login else frozenset()
    gone = {_bare(key) for user in spec.users if has_none_left(user, revoked) for key in user.ssh_keys}
    kept = {_name(user): [key for key in user.ssh_keys if _bare(key) not in gone] for user in spec.users}
    data = {name: _lines([_key(key) for key in keys]) for name, keys in kept.items() if keys}
    own = [key for key in spec.login.root_keys if _bare(key) not in gone] if spec.login else []
    root = dict.fromkeys([*own, *(key for user in spec.users if user.admin for key in kept[user.name])])
    if root:
        data["root"] = _lines([_key(key) for key in root])
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _bare(key: str) -> str:
    """A key without its type, padding and comment, for comparison."""
    return _key(key).split(" ")[1].rstrip("=")


def _name(user: UserSpec) -> str:
    if _NAME.fullmatch(user.name) is None:
        raise UnsafeUserError(f"user {user.name[:40]!r}: not a name that a line of passwd can hold")
    return user.name


def _key(key: str) -> str:
    if _KEY.fullmatch(key) is None:
        raise UnsafeUserError(f"ssh key {key[:24]!r}: not a public key on one line")
    return key


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
