"""Builds accounting: slurmdbd and its MariaDB, one pod each.

Pure. The database's password is only in Secrets. Users, their association with the account `users` and the QOS of the spec are
written through slurmrestd (`accounts`); records that users and admins add with sacctmgr stay unchanged.
"""

from typing import Final

from bulkhead.api.objects import Obj
from controller.slurm.config import slurmdbd_conf
from controller.slurm.objects.parts import (
    claim_template,
    container,
    keys_volume,
    mount,
    pod,
    security,
    service,
    tcp_probe,
    users_volume,
    workload,
)
from controller.slurm.spec import DATABASE, MARIADB, MARIADB_PORT, SLURMDBD, SLURMDBD_PORT, AccountingSpec, SlurmSpec, image
from controller.slurm.spec.keys import SlurmKeys

CONF: Final = "slurmdbd.conf"
PASSWORD: Final = "password"  # noqa: S105 - the name of a file


def secret(spec: SlurmSpec, keys: SlurmKeys) -> tuple[str, str, dict[str, bytes]]:
    """Name, component and files of Secret `slurm-database`: slurmdbd.conf for slurmdbd, the password for MariaDB."""
    conf = slurmdbd_conf(spec, keys.database_password)
    return DATABASE, SLURMDBD, {CONF: conf.encode(), PASSWORD: keys.database_password.encode()}


def services() -> list[Obj]:
    """Where slurmctld finds slurmdbd, and slurmdbd its database."""
    return [
        service(SLURMDBD, SLURMDBD, SLURMDBD_PORT, "slurmdbd", headless=True),
        service(MARIADB, MARIADB, MARIADB_PORT, "mysql", headless=True),
    ]


def stateful_sets(spec: SlurmSpec, accounting: AccountingSpec, config: str, password_mark: str) -> list[Obj]:
    """StatefulSets `mariadb` and `slurmdbd`; `config` is a digest of what slurmdbd reads at its start.

    `password_mark` is another text for another password, which MariaDB takes over at its start.
    """
    return [_mariadb(spec, accounting, password_mark), _slurmdbd(spec, accounting, config)]


def _slurmdbd(spec: SlurmSpec, accounting: AccountingSpec, config: str) -> Obj:
    made = container(
        spec,
        SLURMDBD,
        resources=accounting.slurmdbd.resources(),
        mounts=[mount("keys", image.KEYS_PATH), mount("database", image.DBD_PATH)],
        ports=[{"name": "slurmdbd", "containerPort": SLURMDBD_PORT, "protocol": "TCP"}],
        startupProbe=tcp_probe(SLURMDBD_PORT, period=1, failures=300),
        livenessProbe=tcp_probe(SLURMDBD_PORT, period=15, failures=8),
        readinessProbe=tcp_probe(SLURMDBD_PORT, period=5, failures=3),
    )
    volumes = [users_volume(), keys_volume(tokens=True), _file("database", CONF)]
    return workload(
        "StatefulSet",
        SLURMDBD,
        config,
        pod([made], volumes, terminationGracePeriodSeconds=30),
        serviceName=SLURMDBD,
        podManagementPolicy="Parallel",
    )


def _mariadb(spec: SlurmSpec, accounting: AccountingSpec, password_mark: str) -> Obj:
    made: Obj = {
        "name": MARIADB,
        "image": spec.images.mariadb,
        "imagePullPolicy": spec.image_pull_policy,
        "command": [image.DATABASE_ENTRYPOINT],
        "securityContext": security(MARIADB),
        "resources": accounting.mariadb.resources(),
        "volumeMounts": [
            mount("run", image.RUN_PATH, read_only=False),
            mount("password", image.PASSWORD_PATH),
            mount("data", image.DATABASE_PATH, read_only=False),
        ],
        "ports": [{"name": "mysql", "containerPort": MARIADB_PORT, "protocol": "TCP"}],
        "startupProbe": tcp_probe(MARIADB_PORT, period=1, failures=300),
        "livenessProbe": tcp_probe(MARIADB_PORT, period=15, failures=8),
        "readinessProbe": tcp_probe(MARIADB_PORT, period=5, failures=3),
    }
    return workload(
        "StatefulSet",
        MARIADB,
        password_mark,
        # Time to write its pages: a database that is killed recovers, but slowly.
        pod([made], [_file("password", PASSWORD)], terminationGracePeriodSeconds=60),
        serviceName=MARIADB,
        podManagementPolicy="Parallel",
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"},
        volumeClaimTemplates=[claim_template("data", MARIADB, accounting.storage)],
    )


def _file(name: str, key: str) -> Obj:
    items = [{"key": key, "path": key}]
    return {"name": name, "secret": {"secretName": DATABASE, "defaultMode": 0o400, "items": items}}
