"""The etcd container: TLS on every listener, its data on the plane's volume, a quota well below the volume's size.

Its API server talks to it over the pod's loopback. At the pod's address the controller asks how full it is, and frees space
after a tenant has deleted something (`controller.inside.stores`): over HTTP only, with a certificate of the plane's own CA, and
only the controller is let through to that port. With three replicas, peers find each other by the StatefulSet's DNS names. The
kubelet probes the metrics listener, which serves only health and metrics; the namespace's default-deny policy lets only the
node reach it.
"""

from bulkhead.api.objects import Obj
from controller.plane import memberrecord
from controller.plane.memberrecord import Record, peer_url
from controller.plane.parts import CONTAINER_SECURITY, mount, probe
from controller.plane.sizing import snapshot_flags
from controller.plane.spec import (
    ETCD_HTTP_PORT,
    ETCD_METRICS_PORT,
    ETCD_PEER_PORT,
    ETCD_PORT,
    PKI_PATH,
    PlaneSpec,
)

DATA_PATH = "/var/lib/etcd"
_MEMBERS = "--initial-cluster="
# Environment variables of planes with several members.
_CLUSTER, _STATE = "MEMBERS", "MEMBERS_STATE"
# etcd's own variable for --force-new-cluster; one that is not set, or empty, is false.
_FORCE = "ETCD_FORCE_NEW_CLUSTER"
SEVERAL = 3  # members of a plane that has more than one


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
            *_recorded(spec),
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
        # Why a member without data did not start is the last line of its log (`controller.plane.memberrecord`).
        **({"terminationMessagePolicy": "FallbackToLogsOnError"} if spec.control_plane.replicas > 1 else {}),
    }


def members_of(stateful_set: Obj) -> int:
    """The number of members with which a plane's etcd was started, whatever its scale is now; 0 if that cannot be read."""
    return members_of_pod(stateful_set["spec"].get("template", {}))


def members_of_pod(pod: Obj) -> int:
    """The same of a pod, or of its template."""
    containers = pod.get("spec", {}).get("containers") or []
    etcd: Obj = next((entry for entry in containers if entry.get("name") == "etcd"), {})
    flags = [flag for flag in etcd.get("command") or () if flag.startswith(_MEMBERS)]
    if not flags:
        return 0
    if flags[0] == f"{_MEMBERS}$({_CLUSTER})":
        return SEVERAL
    return len(flags[0].removeprefix(_MEMBERS).split(","))


def _recorded(spec: PlaneSpec) -> list[Obj]:
    """The flags that a member reads at each start; the only member of a plane has them as they are."""
    if spec.control_plane.replicas == 1:
        return []
    keys = {_STATE: memberrecord.STATE, _CLUSTER: memberrecord.CLUSTER}
    named = [
        {"name": name, "valueFrom": {"configMapKeyRef": {"name": memberrecord.CONFIG_MAP, "key": key}}}
        for name, key in keys.items()
    ]
    force = {"name": memberrecord.CONFIG_MAP, "key": memberrecord.FORCE, "optional": True}
    return [*named, {"name": _FORCE, "valueFrom": {"configMapKeyRef": force}}]


def _flags(spec: PlaneSpec) -> list[str]:
    peer = peer_url(spec, "$(POD_NAME)")
    alone = memberrecord.data(spec, Record(founding=True))
    one = spec.control_plane.replicas == 1
    cluster, state = (alone[memberrecord.CLUSTER], alone[memberrecord.STATE]) if one else (f"$({_CLUSTER})", f"$({_STATE})")
    listen = "127.0.0.1" if spec.control_plane.replicas == 1 else "0.0.0.0"  # noqa: S104 - peers come from other pods, over mutual TLS
    return [
        "--name=$(POD_NAME)",
        f"--data-dir={DATA_PATH}/data",
        f"--listen-client-urls=https://127.0.0.1:{ETCD_PORT}",
        f"--listen-client-http-urls=https://$(POD_IP):{ETCD_HTTP_PORT}",
        f"--advertise-client-urls=https://127.0.0.1:{ETCD_PORT}",
        f"--listen-peer-urls=https://{listen}:{ETCD_PEER_PORT}",
        f"--initial-advertise-peer-urls={peer}",
        f"{_MEMBERS}{cluster}",
        f"--initial-cluster-token={spec.identity}",
        f"--initial-cluster-state={state}",
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
        # With several members, hashes are also compared after each compaction; members that differ raise an alarm.
        f"--feature-gates=InitialCorruptCheck=true{'' if one else ',CompactHashCheck=true'}",
        *snapshot_flags(spec.control_plane.replicas),
        "--max-wals=3",
        "--log-level=warn",
    ]
