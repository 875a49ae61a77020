"""Builds a worker: the pod of one slurmd, with exactly the devices and sizes that it registers.

Pure. The numbers in `--conf` and in the pod's resources come from the same fields, so Slurm never counts a GPU that the pod
does not have. Only the pod limits the GPUs: slurmd runs without privileges and without cgroups of its own.
"""

from bulkhead.api.objects import Obj
from controller.slurm.config.topology import place
from controller.slurm.objects.parts import (
    container,
    digest,
    empty,
    home_volume,
    http_probe,
    keys_volume,
    metadata,
    mount,
    pod,
    users_volume,
    variable,
)
from controller.slurm.spec import (
    NODE_SET_GROUP,
    NODE_SET_LABEL,
    NODE_SET_VERSION,
    ORDINAL_LABEL,
    SLURMCTLD,
    SLURMCTLD_PORT,
    SLURMD_PORT,
    SPEC_ANNOTATION,
    TERMINATING_REASON,
    WORKER,
    WORKERS,
    NodeSetSpec,
    SlurmSpec,
    image,
)

# The memory that slurmd and its step processes need in addition to that of jobs.
OVERHEAD_MIB = 96
TERMINATION_GRACE_SECONDS = 60


def worker_pod(spec: SlurmSpec, node_set: NodeSetSpec, ordinal: int, *, owner_uid: str | None = None) -> Obj:
    """The pod of one worker; `owner_uid` is the UID of its NodeSet in the plane."""
    name = node_set.worker_name(ordinal)
    meta = metadata(
        name,
        WORKER,
        annotations={SPEC_ANNOTATION: worker_digest(spec, node_set)},
        extra={NODE_SET_LABEL: node_set.name, ORDINAL_LABEL: str(ordinal)},
    )
    if owner_uid is not None:
        meta["ownerReferences"] = [_owner(node_set, owner_uid)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": _pod(spec, node_set, name)}


def worker_digest(spec: SlurmSpec, node_set: NodeSetSpec) -> str:
    """A digest of the spec from which a worker is created; a worker with another digest is replaced once it is drained."""
    return digest(_pod(spec, node_set, node_set.name))


def slurmd_conf(node_set: NodeSetSpec, topology: str = "") -> str:
    """The words after `--conf`: what the node is, from the very numbers that its pod is made of."""
    words = [f"CPUs={node_set.cpus}", f"RealMemory={node_set.memory_mib}", f"Feature={','.join(node_set.all_features)}"]
    if node_set.gres:
        words.append(f"Gres={node_set.gres}")
    if topology:
        words.append(f"Topology={topology}")
    return " ".join([*words, *(f"{key}={value}" for key, value in node_set.extra_conf)])


def _pod(spec: SlurmSpec, node_set: NodeSetSpec, name: str) -> Obj:
    more: Obj = {
        "hostname": name,
        "subdomain": WORKERS,
        "dnsConfig": {"searches": [spec.service(WORKERS)]},
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": TERMINATION_GRACE_SECONDS,
    }
    if node_set.node_selector:
        more["nodeSelector"] = dict(node_set.node_selector)
    volumes = [
        users_volume(),
        keys_volume(),
        home_volume(),
        empty("spool"),
        empty("shm", medium="Memory", size=f"{max(64, node_set.memory_mib // 2)}Mi"),
    ]
    return pod([_container(spec, node_set)], volumes, **more)


def _container(spec: SlurmSpec, node_set: NodeSetSpec) -> Obj:
    return container(
        spec,
        WORKER,
        resources=resources(node_set),
        mounts=[
            mount("keys", image.KEYS_PATH),
            mount("home", image.HOME_PATH, read_only=False),
            mount("spool", image.SPOOL_PATH, read_only=False),
            mount("shm", image.SHM_PATH, read_only=False),
        ],
        env=[
            variable(image.SERVER_VARIABLE, f"{SLURMCTLD}:{SLURMCTLD_PORT}"),
            variable(image.CONF_VARIABLE, slurmd_conf(node_set, place(spec.topology, None))),
            variable(image.GPUS_VARIABLE, str(node_set.gpus)),
        ],
        ports=[{"name": "slurmd", "containerPort": SLURMD_PORT, "protocol": "TCP"}],
        startupProbe=http_probe("/livez", SLURMD_PORT, period=1, failures=300),
        livenessProbe=http_probe("/livez", SLURMD_PORT, period=15, failures=8),
        readinessProbe=http_probe("/readyz", SLURMD_PORT, period=5, failures=3),
        lifecycle={"preStop": {"exec": {"command": ["/bin/sh", "-c", _PRE_STOP, TERMINATING_REASON]}}},
    )


# Slurm learns at once that the node is gone, instead of after SlurmdTimeout; without slurmctld the pod ends all the same.
_PRE_STOP = 'timeout 10 scontrol update nodename="$(hostname)" state=down reason="$0" || true'


def resources(node_set: NodeSetSpec) -> Obj:
    """What a worker of a set requests and may use."""
    memory = f"{node_set.memory_mib + OVERHEAD_MIB}Mi"
    limits: Obj = {"cpu": str(node_set.cpus), "memory": memory}
    requests: Obj = {"cpu": node_set.cpu_request or str(node_set.cpus), "memory": node_set.memory_request or memory}
    if node_set.gpus:
        limits[node_set.gpu_resource] = requests[node_set.gpu_resource] = str(node_set.gpus)
    return {"requests": requests, "limits": limits}


def _owner(node_set: NodeSetSpec, uid: str) -> Obj:
    return {
        "apiVersion": f"{NODE_SET_GROUP}/{NODE_SET_VERSION}",
        "kind": "NodeSet",
        "name": node_set.name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
