"""All objects of a Slurm cluster inside its plane, in the order in which they are applied.

Pure and idempotent: the same spec and keys give the same objects, so any difference from what exists is a change. Pods come
after everything that they mount; workers are built by `workers`. NodeSets come last, without `replicas`: `kubectl scale` and
the lease own that field.
"""

import base64
from collections.abc import Iterable

from bulkhead.api.objects import Obj
from controller.slurm.config import config_files
from controller.slurm.objects import accounting, login, nodesets, slurmctld, slurmrestd, ssh, users
from controller.slurm.objects.parts import claim_spec, digest, marks, metadata, service
from controller.slurm.spec import (
    HOME,
    HOST_KEYS,
    KEYS,
    LOGIN,
    NAME_LABEL,
    NAMESPACE,
    SLURMCTLD,
    SLURMD_PORT,
    TOKEN_KEY,
    TRUST,
    USERS,
    VOUCHING_KEY,
    WORKER,
    WORKERS,
    SlurmSpec,
)
from controller.slurm.spec.keys import SlurmKeys


def render(spec: SlurmSpec, keys: SlurmKeys, trusted: tuple[str, ...] = ()) -> tuple[Obj, ...]:
    """Namespace, secrets, configuration, volumes, services, daemons, the CRD and the node sets.

    `trusted`: the public keys that sign ssh certificates.
    """
    files = config_files(spec)
    # A file that a daemon reads once restarts it. Keys, users and authorised keys are followed in place and restart nothing;
    # workers and login nodes take their files from slurmctld.
    config = digest(files)
    return (
        namespace(),
        *_secrets(spec, keys),
        slurmctld.config_map(files),
        users.config_map(spec),
        *([users.authorized_keys(spec)] if spec.login else []),
        *(ssh.trust(spec, spec.login, trusted) if spec.login and spec.certificates else []),
        *(ssh.rights(spec, spec.login) if spec.login and spec.certificates else []),
        _home(spec),
        *_services(spec),
        *(_accounting(spec, keys)),
        slurmctld.stateful_set(spec, config),
        *([login.stateful_set(spec, spec.login, digest(keys.ssh_host_key_public))] if spec.login else []),
        *([slurmrestd.deployment(spec, spec.rest_api, config)] if spec.rest_api else []),
        nodesets.definition(),
        *nodesets.node_sets(spec),
    )


def logins(spec: SlurmSpec, keys: SlurmKeys, trusted: tuple[str, ...] = ()) -> tuple[Obj, ...]:
    """The files that pods follow in place, and rights: keys, users, and what opens the login nodes. They restart nothing."""
    names = {KEYS, USERS, TRUST, users.AUTHORIZED_KEYS, ssh.RIGHTS}
    made = tuple(obj for obj in render(spec, keys, trusted) if obj["metadata"]["name"] in names)
    if spec.login is None or spec.certificates:
        return made
    # The login nodes run on, and may be of a time when users had identities.
    return (*made, *ssh.trust(spec, spec.login, ()), *ssh.rights(spec, spec.login))


def daemons(objects: Iterable[Obj]) -> dict[str, int]:
    """How many pods of each daemon the objects ask for."""
    makers = [obj for obj in objects if obj["kind"] in {"StatefulSet", "Deployment"}]
    return {str(obj["metadata"]["labels"][NAME_LABEL]): int(obj["spec"].get("replicas", 1)) for obj in makers}


def namespace() -> Obj:
    """The cluster's namespace; the plane enforces Pod Security's level *baseline* in it."""
    level = {f"pod-security.kubernetes.io/{mode}": "baseline" for mode in ("enforce", "audit", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": marks(NAMESPACE) | level}}


def _secrets(spec: SlurmSpec, keys: SlurmKeys) -> list[Obj]:
    made = [_secret(KEYS, SLURMCTLD, {VOUCHING_KEY: keys.jwks().encode(), TOKEN_KEY: keys.jwt})]
    if spec.login:
        host = {
            "ssh_host_ed25519_key": keys.ssh_host_key.encode(),
            "ssh_host_ed25519_key.pub": keys.ssh_host_key_public.encode(),
        }
        made.append(_secret(HOST_KEYS, LOGIN, host))
    if spec.accounting:
        made.append(_secret(*accounting.secret(spec, keys)))
    return made


def _secret(name: str, component: str, files: dict[str, bytes]) -> Obj:
    data = {file: base64.b64encode(content).decode() for file, content in files.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata(name, component), "type": "Opaque", "data": data}


def _home(spec: SlurmSpec) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(HOME, LOGIN),
        "spec": claim_spec(spec.home, "ReadWriteMany"),
    }


def _services(spec: SlurmSpec) -> list[Obj]:
    return [
        *slurmctld.services(),
        service(WORKERS, WORKER, SLURMD_PORT, "slurmd", headless=True),
        *(accounting.services() if spec.accounting else []),
        *(login.services() if spec.login else []),
        *(slurmrestd.services() if spec.rest_api else []),
    ]


def _accounting(spec: SlurmSpec, keys: SlurmKeys) -> list[Obj]:
    if spec.accounting is None:
        return []
    _, _, files = accounting.secret(spec, keys)
    return accounting.stateful_sets(spec, spec.accounting, digest(files[accounting.CONF].decode()), keys.password_mark)
