"""The kube-apiserver container and its configuration files.

Hardened as docs/decisions/0009-plane.md lists: Node and RBAC authorization, anonymous requests only for health paths, a CA for
each purpose, Secrets encrypted in etcd with the tenant's own key, an audit trail in a bounded volume, bounded requests, and a
service account issuer of its own. It reaches etcd over loopback, and kubelets only through the syncer's shim.
"""

import json
from collections.abc import Mapping
from typing import Final

from bulkhead.api.objects import Obj
from controller.plane import audit, auditreceiver, authentication
from controller.plane.parts import CONTAINER_SECURITY, mount, probe
from controller.plane.sizing import beside_store_mib
from controller.plane.spec import API_PORT, API_SERVER, CONFIG_PATH, ETCD_PORT, PKI_PATH, PlaneSpec

# A restart does not help an API server whose etcd does not answer: it would only take longer to serve once etcd is back.
LIVENESS_PATH: Final = "/livez?exclude=etcd"
ENDS_SOON: Final = "--shutdown-send-retry-after=true"
POD_GROUP_API: Final = "scheduling.k8s.io/v1alpha2"
CIPHERS: Final = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
)


def container(spec: PlaneSpec) -> Obj:
    """The API server container of the plane's pod."""
    return {
        "name": API_SERVER,
        "image": spec.images.kubernetes,
        "imagePullPolicy": spec.images.pull_policy,
        "command": ["/usr/local/bin/kube-apiserver", *_flags(spec)],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
            *spec.budgets.apiserver.go_env(60),
        ],
        "ports": [{"name": "api", "containerPort": API_PORT, "protocol": "TCP"}],
        "resources": spec.budgets.apiserver.resources(audit.files_mib(spec.audit)),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            mount("pki-apiserver", PKI_PATH),
            mount("config", CONFIG_PATH),
            *audit.mounts(spec.audit, read_only=False),
            *auditreceiver.mounts(spec.audit),
        ],
        "startupProbe": probe("/livez", API_PORT, scheme="HTTPS", period=1, failures=180),
        "livenessProbe": probe(LIVENESS_PATH, API_PORT, scheme="HTTPS", period=10, failures=6, timeout=10),
        "readinessProbe": probe("/readyz", API_PORT, scheme="HTTPS", period=5, failures=3, timeout=10),
    }


def ends_soon(stateful_set: Obj, image: str) -> bool:
    """Whether a running plane has the flag already, or may get it because another image restarts it anyway."""
    containers = stateful_set["spec"].get("template", {}).get("spec", {}).get("containers") or []
    running: Obj = next((entry for entry in containers if entry.get("name") == API_SERVER), {})
    return ENDS_SOON in (running.get("command") or ()) or running.get("image") not in {None, image}


def config_files(spec: PlaneSpec, shim_ca: str) -> dict[str, str]:
    """The files of ConfigMap `plane-config`; none is secret. Only the trusted identity providers differ between tenants."""
    return {
        authentication.FILE: _text(authentication.configuration(spec, shim_ca)),
        "audit-policy.json": _text(audit.policy(spec.audit)),
    }


def read_once(files: Mapping[str, str]) -> dict[str, str]:
    """The files that an API server reads only at its start; it reloads the configuration of authentication by itself."""
    return {**files, authentication.FILE: _text(authentication.untouched())}


def encryption_config(key_base64: str) -> str:
    """Encrypt Secrets with the tenant's own key; `identity` comes second, so that older unencrypted objects stay readable."""
    return _text(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [
                {
                    "resources": ["secrets"],
                    "providers": [{"secretbox": {"keys": [{"name": "key1", "secret": key_base64}]}}, {"identity": {}}],
                }
            ],
        }
    )


def _text(document: Obj) -> str:
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _flags(spec: PlaneSpec) -> list[str]:
    trail = audit.flags(spec.audit, beside_store_mib(spec.budgets.apiserver.memory_limit_mib, spec.storage.quota_mib))
    return [*_serving(), *_identity(spec), *_storage(), *_limits(spec), *_pod_groups(spec), *trail]


def _serving() -> list[str]:
    return [
        "--advertise-address=$(POD_IP)",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--tls-cert-file={PKI_PATH}/server.crt",
        f"--tls-private-key-file={PKI_PATH}/server.key",
        "--tls-min-version=VersionTLS12",
        f"--tls-cipher-suites={','.join(CIPHERS)}",
        "--profiling=false",
        "--v=1",
    ]


def _identity(spec: PlaneSpec) -> list[str]:
    return [
        "--authorization-mode=Node,RBAC",
        f"--authentication-config={CONFIG_PATH}/{authentication.FILE}",
        f"--client-ca-file={PKI_PATH}/client-ca.crt",
        f"--requestheader-client-ca-file={PKI_PATH}/front-proxy-ca.crt",
        "--requestheader-allowed-names=bulkhead:front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={PKI_PATH}/front-proxy.crt",
        f"--proxy-client-key-file={PKI_PATH}/front-proxy.key",
        f"--kubelet-client-certificate={PKI_PATH}/kubelet-client.crt",
        f"--kubelet-client-key={PKI_PATH}/kubelet-client.key",
        f"--kubelet-certificate-authority={PKI_PATH}/kubelet-ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer={spec.issuer}",
        f"--service-account-jwks-uri={spec.issuer}/openid/v1/jwks",
        f"--api-audiences={spec.issuer},https://kubernetes.default.svc",
        f"--service-account-key-file={PKI_PATH}/sa.pub",
        f"--service-account-signing-key-file={PKI_PATH}/sa.key",
        "--service-account-lookup=true",
        "--service-account-extend-token-expiration=false",
        "--service-account-max-token-expiration=24h",
        "--enable-admission-plugins=NodeRestriction,PodSecurity,DenyServiceExternalIPs",
    ]


def _storage() -> list[str]:
    return [
        f"--etcd-servers=https://127.0.0.1:{ETCD_PORT}",
        f"--etcd-cafile={PKI_PATH}/etcd-ca.crt",
        f"--etcd-certfile={PKI_PATH}/etcd-client.crt",
        f"--etcd-keyfile={PKI_PATH}/etcd-client.key",
        f"--encryption-provider-config={PKI_PATH}/encryption.json",
    ]


def _limits(spec: PlaneSpec) -> list[str]:
    return [
        f"--service-cluster-ip-range={spec.service_slice}",
        # Only lets a pod have the field: the syncer and the host refuse to run such a pod, and the tenant reads the reason and
        # the remedy on the pod. Without the flag the pod could not exist, and the message would have no place.
        "--allow-privileged=true",
        "--request-timeout=60s",
        "--max-requests-inflight=200",
        "--max-mutating-requests-inflight=100",
        "--event-ttl=1h",
        "--default-watch-cache-size=20",
        "--shutdown-delay-duration=0s",
        # Without it the API server waits for every watch, for the whole grace period of the pod, and answers no request
        # meanwhile.
        *([ENDS_SOON] if spec.control_plane.ends_soon else []),
    ]


def _pod_groups(spec: PlaneSpec) -> list[str]:
    """The upstream PodGroup, alpha in 1.36, with groups that request one topology domain; decision 20 lists what stays off."""
    if not spec.offers.pod_groups:
        return []
    return [
        "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
        f"--runtime-config={POD_GROUP_API}=true",
    ]
