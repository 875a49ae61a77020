"""The etcd container: TLS on every listener, its data on the plane's volume, a quota well below the volume's size.

Its API server talks to it over the pod's loopback. At the pod's address the controller asks how full it is, and frees space
after a tenant has deleted something (`controller.inside.stores`): over HTTP only, with a certificate of the plane's own CA, and
only the controller is let through to that port. With three replicas, peers find each other by the StatefulSet's DNS names. The
kubelet probes the metrics listener, which serves only health and metrics; the namespace's default-deny policy lets only the
node reach it.
"""

from bulkhead.api.objects import Obj
from controller.plane.parts import CONTAINER_SECURITY, mount, probe
from controller.plane.sizing import snapshot_flags
from controller.plane.spec import (
    ETCD_HTTP_PORT,
    ETCD_METRICS_PORT,
    ETCD_PEER_PORT,
    ETCD_PORT,
    PEERS,
    PKI_PATH,
    PLANE,
    PlaneSpec,
)

DATA_PATH = "/var/lib/etcd"
_MEMBERS = "--initial-cluster="


def container(spec: PlaneSpec) -> Obj:
    """The etcd container of the plane's pod."""
    return {
        "name": "etcd",
        "image": spec.images.etcd,
        "imagePullPolicy": spec.images.pull_policy,
        "command": ["/usr/local/bin/etcd", *_flags(spec)],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
            *spec.budgets.etcd.go_env(100),
        ],
        "ports": [{"name": "etcd-metrics", "containerPort": ETCD_METRICS_PORT, "protocol": "TCP"}],
        "resources": spec.budgets.etcd.resources(),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [mount("data", DATA_PATH, read_only=False), mount("pki-etcd", PKI_PATH)],
        # The API server can flush and stop while its store still answers; without this it hangs until it is killed.
        "lifecycle": {"preStop": {"sleep": {"seconds": 4}}},
        "startupProbe": probe("/livez", ETCD_METRICS_PORT, period=1, failures=120),
        "livenessProbe": probe("/livez", ETCD_METRICS_PORT, period=10, failures=6),
        "readinessProbe": probe("/readyz", ETCD_METRICS_PORT, period=10, failures=3),
    }


def members_of(stateful_set: Obj) -> int:
    """The number of members with which a plane's etcd was started, whatever its scale is now; 0 if that cannot be read."""
    containers = stateful_set["spec"].get("template", {}).get("spec", {}).get("containers") or []
    flags = [flag for entry in containers for flag in entry.get("command") or () if flag.startswith(_MEMBERS)]
    return len(flags[0].removeprefix(_MEMBERS).split(",")) if flags else 0


def _flags(spec: PlaneSpec) -> list[str]:
    peer = _peer_url(spec, "$(POD_NAME)")
    listen = "127.0.0.1" if spec.control_plane.replicas == 1 else "0.0.0.0"  # noqa: S104 - peers come from other pods, over mutual TLS
    members = ",".join(f"{PLANE}-{i}={_peer_url(spec, f'{PLANE}-{i}')}" for i in range(spec.control_plane.replicas))
    return [
        "--name=$(POD_NAME)",
        f"--data-dir={DATA_PATH}/data",
        f"--listen-client-urls=https://127.0.0.1:{ETCD_PORT}",
        f"--listen-client-http-urls=https://$(POD_IP):{ETCD_HTTP_PORT}",
        f"--advertise-client-urls=https://127.0.0.1:{ETCD_PORT}",
        f"--listen-peer-urls=https://{listen}:{ETCD_PEER_PORT}",
        f"--initial-advertise-peer-urls={peer}",
        f"{_MEMBERS}{members}",
        f"--initial-cluster-token={spec.identity}",
        "--initial-cluster-state=new",
        f"--listen-metrics-urls=http://0.0.0.0:{ETCD_METRICS_PORT}",
        "--client-cert-auth=true",
        f"--trusted-ca-file={PKI_PATH}/ca.crt",
        f"--cert-file={PKI_PATH}/server.crt",
        f"--key-file={PKI_PATH}/server.key",
        "--peer-client-cert-auth=true",
        f"--peer-trusted-ca-file={PKI_PATH}/ca.crt",
        f"--peer-cert-file={PKI_PATH}/server.crt",
        f"--peer-key-file={PKI_PATH}/server.key",
        "--tls-min-version=TLS1.2",
        f"--quota-backend-bytes={spec.storage.quota_mib * 1024 * 1024}",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=10m",
        "--feature-gates=InitialCorruptCheck=true",
        *snapshot_flags(spec.control_plane.replicas),
        "--max-wals=3",
        "--log-level=warn",
    ]


def _peer_url(spec: PlaneSpec, member: str) -> str:
    if spec.control_plane.replicas == 1:
        return f"https://127.0.0.1:{ETCD_PEER_PORT}"
    return f"https://{member}.{PEERS}.{spec.namespace}.svc:{ETCD_PEER_PORT}"
