"""The kube-controller-manager container: an explicit list of controllers, and nothing that acts on machines.

Left out on purpose: everything about nodes and their addresses, cloud, routes and load balancers; attaching and provisioning
volumes (their URLs would let a tenant aim requests at the host network); signing of certificates; further ranges of service
addresses (the tenant has one slice of the host's); and controllers of APIs that are off by default. The reason for each is in
tests/controller/plane/test_plane_controllers.py, which lists every controller of the shipped version.
"""

from typing import Final

from bulkhead.api.objects import Obj
from controller.plane.parts import CONTAINER_SECURITY, mount, probe
from controller.plane.spec import KCM_PORT, PKI_PATH, PlaneSpec

CONTROLLERS: Final = (
    "certificatesigningrequest-cleaner-controller",
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "namespace-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "replicationcontroller-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
)


# The API server adds a finalizer to every PodGroup; only this controller removes it.
POD_GROUP_CONTROLLERS: Final = ("podgroup-protection-controller",)


def container(spec: PlaneSpec) -> Obj:
    """The controller manager container of the plane's pod."""
    return {
        "name": "kube-controller-manager",
        "image": spec.images.kubernetes,
        "imagePullPolicy": spec.images.pull_policy,
        "command": ["/usr/local/bin/kube-controller-manager", *_flags(spec)],
        "env": spec.budgets.controller_manager.go_env(100),
        "ports": [{"name": "kcm-health", "containerPort": KCM_PORT, "protocol": "TCP"}],
        "resources": spec.budgets.controller_manager.resources(),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [mount("pki-controller-manager", PKI_PATH)],
        "startupProbe": probe("/healthz", KCM_PORT, scheme="HTTPS", period=1, failures=180),
        "livenessProbe": probe("/healthz", KCM_PORT, scheme="HTTPS", period=10, failures=6, timeout=10),
        "readinessProbe": probe("/healthz", KCM_PORT, scheme="HTTPS", period=10, failures=3),
    }


def _flags(spec: PlaneSpec) -> list[str]:
    return [
        f"--kubeconfig={PKI_PATH}/kubeconfig",
        "--bind-address=0.0.0.0",
        f"--secure-port={KCM_PORT}",
        f"--tls-cert-file={PKI_PATH}/server.crt",
        f"--tls-private-key-file={PKI_PATH}/server.key",
        "--tls-min-version=VersionTLS12",
        f"--controllers={','.join((*CONTROLLERS, *(POD_GROUP_CONTROLLERS if spec.offers.pod_groups else ())))}",
        *(["--feature-gates=GenericWorkload=true"] if spec.offers.pod_groups else []),
        f"--leader-elect={'true' if spec.control_plane.replicas > 1 else 'false'}",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={PKI_PATH}/sa.key",
        f"--root-ca-file={PKI_PATH}/serving-ca.crt",
        "--profiling=false",
        "--terminated-pod-gc-threshold=500",
        "--kube-api-qps=100",
        "--kube-api-burst=200",
        "--v=1",
    ]
