"""Builds the login nodes' configuration of ssh certificates, and the rights in the plane that users need to log in. Pure.

sshd accepts a certificate that one of these keys signed. At every connection it also checks that the identity still belongs to
the user. So a revoked or removed identity can no longer log in as soon as the file has changed.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from bulkhead.api.objects import Obj
from controller.slurm.objects.parts import metadata
from controller.slurm.spec import LOGIN, TRUST, LoginSpec, SlurmSpec
from controller.slurm.spec.identities import accounts_of

KEYS_FILE: Final = "user-ca.pub"  # the dot keeps it apart from the files that are named after users
RIGHTS: Final = "bulkhead:slurm-ssh"
_RBAC: Final = "rbac.authorization.k8s.io"


def trust(spec: SlurmSpec, login: LoginSpec, trusted: Iterable[str]) -> list[Obj]:
    """ConfigMap `slurm-ssh-trust`: the keys that sign, and for each user a file of the identities that may be it."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    for user in spec.users:
        for account in accounts_of(user):
            files[account].update(set(user.identities) - login.revoked)
    data = {KEYS_FILE: _lines(trusted)} | {name: _lines(sorted(found)) for name, found in sorted(files.items()) if found}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(TRUST, LOGIN), "data": data}]


def rights(spec: SlurmSpec, login: LoginSpec) -> list[Obj]:
    """The rights to request a certificate, without seeing other requests, and to reach login nodes through the plane's API."""
    asking: list[Obj] = [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get"]}
    ]
    pods = [f"{LOGIN}-{ordinal}" for ordinal in range(login.replicas)]
    coming: list[Obj] = [
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": pods, "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods/portforward"], "resourceNames": pods, "verbs": ["get", "create"]},
    ]
    subjects = [{"kind": "User", "apiGroup": _RBAC, "name": identity} for identity in _identities(spec, login)]
    return [
        _role("Role", coming),
        _role("ClusterRole", asking),
        _binding("RoleBinding", "Role", subjects),
        _binding("ClusterRoleBinding", "ClusterRole", subjects),
    ]


def _identities(spec: SlurmSpec, login: LoginSpec) -> list[str]:
    return sorted({identity for user in spec.users for identity in user.identities} - login.revoked)


def _role(kind: str, rules: list[Obj]) -> Obj:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": _meta(kind), "rules": rules}


def _binding(kind: str, role: str, subjects: list[Obj]) -> Obj:
    reference = {"apiGroup": _RBAC, "kind": role, "name": RIGHTS}
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": _meta(kind), "roleRef": reference, "subjects": subjects}


def _meta(kind: str) -> Obj:
    meta = metadata(RIGHTS, LOGIN)
    return {field: value for field, value in meta.items() if field != "namespace" or not kind.startswith("Cluster")}


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
