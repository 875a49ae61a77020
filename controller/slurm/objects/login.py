"""The login nodes, and the users that every node knows.

Pure. Users, their keys and their groups are files of ConfigMaps that are read in place: a user who is added or taken away
needs no restart. Names and keys were checked before; here they are held once more against what a line of passwd can hold.
"""

import re
from typing import Final

from controller.slurm.objects.parts import (
    container,
    home_volume,
    keys_volume,
    metadata,
    mount,
    pod,
    service,
    tcp_probe,
    users_volume,
    variable,
    workload,
)
from controller.slurm.spec import (
    HOST_KEYS,
    LOGIN,
    SLURMCTLD,
    SLURMCTLD_PORT,
    SSH_PORT,
    USERS,
    WORKERS,
    LoginSpec,
    Obj,
    SlurmSpec,
    UserSpec,
    image,
)

AUTHORIZED_KEYS: Final = "slurm-authorized-keys"  # ConfigMap, one file for each user
ADMINS_GROUP: Final = "slurm-admins"
ADMINS_GID: Final = 9999

_NAME: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_KEY: Final = re.compile(r"[a-z0-9@.-]{1,64} [A-Za-z0-9+/]{16,4096}={0,3}( [ -~]{0,128})?")


class UnsafeUserError(ValueError):
    """A user's name or key cannot stand in a file."""


def users_config_map(spec: SlurmSpec) -> Obj:
    """ConfigMap `slurm-users`: lines of passwd and group for every user of the tenant."""
    names = [_name(user) for user in spec.users]
    passwd = [f"{name}:*:{user.uid}:{user.uid}::/home/{name}:/bin/bash" for name, user in zip(names, spec.users, strict=True)]
    group = [f"{name}:*:{user.uid}:" for name, user in zip(names, spec.users, strict=True)]
    admins = ",".join(user.name for user in spec.users if user.admin)
    data = {"passwd": _lines(passwd), "group": _lines([*group, f"{ADMINS_GROUP}:*:{ADMINS_GID}:{admins}"])}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(USERS, LOGIN), "data": data}


def authorized_keys(spec: SlurmSpec) -> Obj:
    """ConfigMap `slurm-authorized-keys`; an admin's keys open root's account on the login nodes too."""
    data = {_name(user): _lines([_key(key) for key in user.ssh_keys]) for user in spec.users if user.ssh_keys}
    own = spec.login.root_keys if spec.login else ()
    root = dict.fromkeys([*own, *(key for user in spec.users if user.admin for key in user.ssh_keys)])
    if root:
        data["root"] = _lines([_key(key) for key in root])
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(AUTHORIZED_KEYS, LOGIN), "data": data}


def services() -> list[Obj]:
    """The Service that ssh goes to."""
    return [service(LOGIN, LOGIN, SSH_PORT, "ssh")]


def stateful_set(spec: SlurmSpec, login: LoginSpec, config: str) -> Obj:
    """StatefulSet `login`; `config` is a digest of what it reads at its start."""
    made = container(
        spec,
        LOGIN,
        resources=login.allotment.resources(),
        mounts=[
            mount("keys", image.KEYS_PATH),
            mount("ssh", image.HOST_KEYS_PATH),
            mount("authorized-keys", image.AUTHORIZED_KEYS_PATH),
            mount("home", image.HOME_PATH, read_only=False),
        ],
        env=[variable(image.SERVER_VARIABLE, f"{SLURMCTLD}:{SLURMCTLD_PORT}")],
        ports=[{"name": "ssh", "containerPort": SSH_PORT, "protocol": "TCP"}],
        startupProbe=tcp_probe(SSH_PORT, period=1, failures=300),
        livenessProbe=tcp_probe(SSH_PORT, period=15, failures=8),
        readinessProbe=tcp_probe(SSH_PORT, period=5, failures=3),
    )
    volumes = [
        users_volume(),
        keys_volume(),
        home_volume(),
        {"name": "ssh", "secret": {"secretName": HOST_KEYS, "defaultMode": 0o400}},
        {"name": "authorized-keys", "configMap": {"name": AUTHORIZED_KEYS, "defaultMode": 0o444}},
    ]
    return workload(
        "StatefulSet",
        LOGIN,
        config,
        pod(
            [made],
            volumes,
            dnsConfig={"searches": [spec.service(WORKERS)]},
            terminationGracePeriodSeconds=30,
        ),
        replicas=login.replicas,
        serviceName=LOGIN,
        podManagementPolicy="Parallel",
    )


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
