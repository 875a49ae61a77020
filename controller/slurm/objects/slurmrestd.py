"""slurmrestd: the REST API of the cluster, for its users by token and for the platform.

Pure. It holds no key of the cluster: callers bring tokens of their own, and slurmctld verifies them.
"""

from bulkhead.api.objects import Obj
from controller.slurm.objects.parts import container, mount, pod, service, tcp_probe, users_volume, workload
from controller.slurm.spec import CONFIG, SLURMRESTD, SLURMRESTD_PORT, Allotment, SlurmSpec, image


def services() -> list[Obj]:
    """The Service of the REST API."""
    return [service(SLURMRESTD, SLURMRESTD, SLURMRESTD_PORT, "http")]


def deployment(spec: SlurmSpec, allotment: Allotment, config: str) -> Obj:
    """Deployment `slurmrestd`; `config` is a digest of what it reads at its start."""
    made = container(
        spec,
        SLURMRESTD,
        resources=allotment.resources(),
        mounts=[mount("config", image.CONFIG_PATH)],
        ports=[{"name": "http", "containerPort": SLURMRESTD_PORT, "protocol": "TCP"}],
        startupProbe=tcp_probe(SLURMRESTD_PORT, period=1, failures=120),
        livenessProbe=tcp_probe(SLURMRESTD_PORT, period=15, failures=4),
        readinessProbe=tcp_probe(SLURMRESTD_PORT, period=5, failures=3),
    )
    volumes = [users_volume(), {"name": "config", "configMap": {"name": CONFIG, "defaultMode": 0o444}}]
    return workload(
        "Deployment",
        SLURMRESTD,
        config,
        pod([made], volumes, terminationGracePeriodSeconds=10),
        strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
    )
