"""The pods that fill a plane's volumes with the store of a snapshot while the plane is stopped: one Deployment for each member.

A pod has the volume that the plane's pod has, and nothing else: no Secret, no token, and no way in but a port-forward by the
host's API. That of a clone has two keys in addition: the one that the snapshot's Secrets are encrypted with, and the one that
takes its place. A pod is ready once its volume is filled (`controller.restores.fill`).
"""

from typing import Final

from bulkhead.api.objects import Obj
from controller.plane.etcd import DATA_PATH
from controller.plane.memberrecord import peer_url, pods_of
from controller.plane.parts import CONTAINER_SECURITY, bound, metadata, mount, pod_spec
from controller.plane.secrets import SERVICE_ACCOUNT_SECRET
from controller.plane.sections import Restoring
from controller.plane.spec import RESTORE, PlaneSpec

PORT: Final = 2390
READY_PORT: Final = 2391
ETCD_PORT: Final = 2392
ETCD_PEER_PORT: Final = 2393
KEYS_PATH: Final = "/keys"
ENCRYPTION: Final = "encryption.key"
# The Secret with the key that the snapshot's Secrets are encrypted with; a clone has it only while it is made.
FORMER_KEY: Final = "plane-clone"
FORMER_FILE: Final = "former.key"
MEMBER_LABEL: Final = "bulkhead.dev/member"


def deployments(spec: PlaneSpec) -> list[Obj]:
    """Those Deployments; none if no volume is being filled."""
    order = spec.restoring
    if order is None or not order.filling:
        return []
    return [_deployment(spec, order, member) for member in pods_of(spec)]


def _deployment(spec: PlaneSpec, order: Restoring, member: str) -> Obj:
    number = member.rpartition("-")[2]
    own = {MEMBER_LABEL: member}
    meta = metadata(spec, RESTORE, component=RESTORE, extra_labels=own)
    del meta["name"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(spec, f"plane-restore-{number}", namespace=spec.namespace, component=RESTORE),
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 0,
            # Never two at the same volume. The pod also stays on a silent node (`bound`), since a ReplicaSet does not count one
            # that is evicted.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": meta["labels"]},
            "template": {"metadata": meta, "spec": _pod(spec, order, member)},
        },
    }


def _pod(spec: PlaneSpec, order: Restoring, member: str) -> Obj:
    container: Obj = {
        "name": RESTORE,
        "image": spec.images.bulkhead,
        "imagePullPolicy": spec.images.pull_policy,
        "command": ["python3", "-m", "controller.restores.fill", *arguments(spec, order, member)],
        # What makes the data reads the whole store, as etcd does.
        "resources": spec.budgets.etcd.resources(),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [mount("data", DATA_PATH, read_only=False), mount("tmp", "/tmp", read_only=False)],  # noqa: S108 - a volume of the pod's own
        "readinessProbe": {"tcpSocket": {"port": READY_PORT}, "periodSeconds": 1, "failureThreshold": 1},
    }
    volumes: list[Obj] = [
        {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{member}"}},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
    ]
    if order.cloned is not None:
        container["volumeMounts"].append(mount("keys", KEYS_PATH))
        volumes.append({"name": "keys", "projected": {"sources": _keys(), "defaultMode": 0o440}})
    return bound(pod_spec(spec, [container], volumes, terminationGracePeriodSeconds=5))


def _keys() -> list[Obj]:
    """One key of each of two Secrets."""
    wanted = ((FORMER_KEY, FORMER_FILE, "from"), (SERVICE_ACCOUNT_SECRET, ENCRYPTION, "to"))
    return [{"secret": {"name": name, "items": [{"key": key, "path": path}]}} for name, key, path in wanted]


def arguments(spec: PlaneSpec, order: Restoring, member: str) -> list[str]:
    """The arguments of the program for one member; the etcd flags are those of the member itself."""
    cluster = ",".join(f"{pod}={peer_url(spec, pod)}" for pod in pods_of(spec))
    flags = [
        f"--volume={DATA_PATH}",
        f"--restore={order.restore}",
        f"--bytes={order.size}",
        f"--bump={order.bump}",
        f"--member={member}",
        f"--peer={peer_url(spec, member)}",
        f"--cluster={cluster}",
        f"--token={spec.identity}",
        f"--port={PORT}",
        f"--ready-port={READY_PORT}",
    ]
    if order.cloned is not None:
        flags += [
            f"--clone-slice={spec.service_slice}",
            f"--former-slice={order.cloned.former_slice}",
            f"--cluster-uid={order.cloned.cluster_uid}",
            f"--keys={KEYS_PATH}",
            f"--etcd-port={ETCD_PORT}",
            f"--etcd-peer-port={ETCD_PEER_PORT}",
            *(["--slurm"] if order.cloned.slurm else []),
        ]
    return [*flags, "--discard"] if order.discard else flags
