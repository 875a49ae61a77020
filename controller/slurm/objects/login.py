"""Builds the login nodes, which users reach by ssh. Pure."""

from bulkhead.api.objects import Obj
from controller.slurm.objects.parts import (
    container,
    home_volume,
    keys_volume,
    mount,
    pod,
    service,
    tcp_probe,
    users_volume,
    variable,
    workload,
)
from controller.slurm.objects.users import AUTHORIZED_KEYS
from controller.slurm.spec import (
    HOST_KEYS,
    LOGIN,
    SLURMCTLD,
    SLURMCTLD_PORT,
    SSH_PORT,
    TRUST,
    WORKERS,
    LoginSpec,
    SlurmSpec,
    image,
)


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
            *([mount("ssh-trust", image.TRUST_PATH)] if spec.certificates else []),
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
        # Only if a user has an identity, so that no login node restarts for a feature that its tenant does not use.
        *([{"name": "ssh-trust", "configMap": {"name": TRUST, "defaultMode": 0o444}}] if spec.certificates else []),
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
