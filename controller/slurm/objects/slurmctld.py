"""slurmctld: one pod whose state lies on a volume, so that a restart loses neither the queue nor a running job.

Pure. A changed slurm.conf restarts it, which takes seconds and stops no job; at its start it hands the new files to every
worker.
"""

from bulkhead.api.objects import Obj
from controller.slurm.objects.parts import (
    claim_template,
    container,
    http_probe,
    keys_volume,
    metadata,
    mount,
    pod,
    service,
    users_volume,
    workload,
)
from controller.slurm.spec import CONFIG, SLURMCTLD, SLURMCTLD_PORT, SlurmSpec, image


def config_map(files: dict[str, str]) -> Obj:
    """ConfigMap `slurm-config`."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(CONFIG, SLURMCTLD), "data": files}


def services() -> list[Obj]:
    """The Service under which every daemon and every client finds the controller."""
    return [service(SLURMCTLD, SLURMCTLD, SLURMCTLD_PORT, "slurmctld", headless=True)]


def stateful_set(spec: SlurmSpec, config: str) -> Obj:
    """StatefulSet `slurmctld`; `config` is a digest of what it reads at its start."""
    made = container(
        spec,
        SLURMCTLD,
        resources=spec.controller.resources(),
        mounts=[
            mount("keys", image.KEYS_PATH),
            mount("config", image.CONFIG_PATH),
            mount("state", image.STATE_PATH, read_only=False),
        ],
        ports=[{"name": "slurmctld", "containerPort": SLURMCTLD_PORT, "protocol": "TCP"}],
        startupProbe=http_probe("/livez", SLURMCTLD_PORT, period=1, failures=300),
        livenessProbe=http_probe("/livez", SLURMCTLD_PORT, period=15, failures=8),
        readinessProbe=http_probe("/readyz", SLURMCTLD_PORT, period=3, failures=3),
    )
    volumes = [
        users_volume(),
        keys_volume(tokens=True),
        {"name": "config", "configMap": {"name": CONFIG, "defaultMode": 0o444}},
    ]
    return workload(
        "StatefulSet",
        SLURMCTLD,
        config,
        pod([made], volumes, terminationGracePeriodSeconds=30),
        serviceName=SLURMCTLD,
        podManagementPolicy="Parallel",
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"},
        volumeClaimTemplates=[claim_template("state", SLURMCTLD, spec.state)],
    )
