"""The syncer of a tenant: its Deployment, its settings, and the rights of its ServiceAccount on the host.

Its rights end at the tenant's two namespaces: bindings there, read access to nodes, and nothing else cluster-wide. It may not
read nodes through the kubelet proxy, and in the plane's namespace it sees only its own identity record and pods.
"""

import json

from bulkhead.api import devices, syncersettings
from bulkhead.api.names import API_ENVIRONMENT, PULL_SECRET
from bulkhead.api.objects import Obj
from bulkhead.api.syncersettings import GRACE_SECONDS, POD_BYTES, SERVICE_ENDPOINTS
from controller.plane import parts
from controller.plane.parts import CONTAINER_SECURITY, metadata, mount, pod_spec, probe, secret_volume
from controller.plane.sections import DRAIN_SECONDS, Syncing
from controller.plane.spec import (
    GPU_METRICS,
    GPU_METRICS_PORT,
    GPU_METRICS_SOURCE_PORT,
    ISSUERS_PORT,
    PKI_PATH,
    SHIM_PORT,
    SYNCER,
    SYNCER_HTTP_PORT,
    PlaneSpec,
)

WORKLOAD = "workload"
WORK_ROLE = "bulkhead-syncer-work"
PLANE_ROLE = "bulkhead-syncer-plane"
INGRESS_ROLE = "bulkhead-syncer-ingress"
POD_GROUP_ROLE = "bulkhead-syncer-podgroups"
SNAPSHOT_ROLE = "bulkhead-syncer-snapshots"
NODE_READER = "bulkhead-syncer-nodes"
_GPU_METRICS_TOKEN_PATH = "/var/run/secrets/bulkhead/gpumetrics"  # noqa: S105 - a path
_RBAC = "rbac.authorization.k8s.io"


def settings(spec: PlaneSpec) -> Obj:
    """The content of settings.json, as `syncer/settings.py` reads it."""
    quota, nodes, isolation, offers, ledger = spec.quota, spec.nodes, spec.isolation, spec.offers, spec.ledger
    # Huge pages are not devices: only the host's quota counts them.
    counted = {name for name in (*quota.gpu_resources, *quota.extended_resources) if "/" in name}
    return {
        "tenant": spec.tenant,
        "tenantUID": spec.identity,
        "planeNamespace": spec.namespace,
        "workNamespace": spec.work_namespace,
        "clusterDomain": spec.installation.cluster_domain,
        "dnsAddress": spec.dns_address,
        "apiAddress": spec.api_address,
        "apiEnvironment": API_ENVIRONMENT,
        "deviceEnvironment": devices.ENVIRONMENT,
        "shimAddress": spec.shim_address,
        "shimPort": SHIM_PORT,
        "publicAddress": spec.public_address,
        **({"issuersPort": ISSUERS_PORT} if spec.access.issuers else {}),
        **_gpu_metrics(spec),
        **_tracing(spec),
        "serviceSlice": spec.service_slice,
        "nodes": {"selector": dict(nodes.selector)},
        "gpuResources": list(quota.gpu_resources),
        "limits": {name: amount.count for name, amount in quota.allotted.items() if name in counted}
        | quota.device_class_limits,
        **({"extendedResources": list(quota.extended_resources)} if quota.extended_resources else {}),
        **({"deviceClassResources": quota.device_class_resources} if quota.device_class_resources else {}),
        **_bounds(spec),
        **_container_defaults(spec),
        "enforcedNodeSelector": dict(spec.enforced_selector),
        "enforcedTolerations": list(spec.enforced_tolerations),
        "allowedTolerations": list(nodes.allowed_tolerations),
        **({"drainSeconds": nodes.drain_seconds} if nodes.drain_seconds != DRAIN_SECONDS else {}),
        **({"maxGraceSeconds": nodes.grace_seconds} if nodes.grace_seconds != GRACE_SECONDS else {}),
        "podSecurity": isolation.pod_security,
        **({"userNamespaces": True} if isolation.user_namespaces else {}),
        **({"preferUserNamespaces": True} if isolation.prefer_user_namespaces else {}),
        **({"allowedSeccompProfiles": list(isolation.seccomp_profiles)} if isolation.seccomp_profiles else {}),
        **({"allowedAppArmorProfiles": list(isolation.apparmor_profiles)} if isolation.apparmor_profiles else {}),
        "runtimeClassName": isolation.runtime_class,
        "priorityClassName": offers.default_priority_class,
        "allowedPriorityClasses": list(offers.priority_classes),
        "allowedRuntimeClasses": list(isolation.allowed_runtime_classes),
        "allowedStorageClasses": list(offers.storage_classes),
        "allowedDeviceClasses": [name for name, _ in quota.device_classes],
        "allowedIngressClasses": list(offers.ingress_classes),
        "ingressDomains": list(offers.ingress_domains),
        **({"podGroups": True} if offers.pod_groups else {}),
        # The host's quota has the ceiling, and `limits` the tenant's own amounts: other tenants change the ceiling, and no
        # syncer has to restart for that.
        **({"gatedResources": list(ledger.gated_resources)} if ledger.gated_resources else {}),
        **({"gatedGangs": True} if ledger.gated_gangs else {}),
        **({"allowedSnapshotClasses": list(offers.snapshot_classes)} if offers.snapshot_classes else {}),
        **({"pullSecret": PULL_SECRET, "ownImages": list(spec.images.own)} if spec.images.own else {}),
        "patrolSeconds": spec.syncing.patrol_seconds,
        "massDeleteLimit": spec.syncing.mass_delete_limit,
        "tokenSeconds": spec.syncing.token_seconds,
        **_rates(spec),
    }


def read_once(spec: PlaneSpec) -> Obj:
    """The settings that need a restart of the syncer; it reloads the others."""
    return syncersettings.read_once(settings(spec))


def _gpu_metrics(spec: PlaneSpec) -> Obj:
    """Where the tenant's pods read the metrics of its GPUs, and the program that scrapes them for all tenants."""
    if not spec.installation.gpu_metrics:
        return {}
    name = f"{GPU_METRICS}.{spec.installation.system_namespace}.svc.{spec.installation.cluster_domain}"
    source = {"gpuMetricsPort": GPU_METRICS_PORT, "gpuMetricsSource": f"http://{name}:{GPU_METRICS_SOURCE_PORT}"}
    return source | ({"nodeFigures": True} if spec.installation.node_figures else {})


def _tracing(spec: PlaneSpec) -> Obj:
    """Where the syncer sends traces of pods, and of how many."""
    tracing = spec.installation.tracing
    if tracing is None:
        return {}
    collector = tracing.collector(spec.installation.cluster_domain)
    return {"tracesCollector": collector, "traceOnePodIn": tracing.one_pod_in}


def _rates(spec: PlaneSpec) -> Obj:
    """How fast streams pass the syncer, where the class says otherwise than the syncer itself."""
    built_in, told = Syncing(), spec.syncing
    logs = {"logBytesPerSecond": told.log_rate} if told.log_rate != built_in.log_rate else {}
    return logs | ({"sessionBytesPerSecond": told.session_rate} if told.session_rate != built_in.session_rate else {})


def _bounds(spec: PlaneSpec) -> Obj:
    found: Obj = {
        "mostPerPod": {bound.resource: bound.most for bound in spec.quota.pod_bounds if bound.most},
        "mostLimitRequestRatio": {bound.resource: bound.ratio for bound in spec.quota.pod_bounds if bound.ratio},
        "mostPerClaim": spec.quota.most_per_claim,
        # What is built into the syncer itself is not written, so that no syncer gets other settings by it.
        "mostPodBytes": spec.quota.most_pod_bytes if spec.quota.most_pod_bytes != POD_BYTES else 0,
        "mostServiceEndpoints": endpoints if (endpoints := spec.quota.service_endpoints) != SERVICE_ENDPOINTS else 0,
    }
    return {field: bounds for field, bounds in found.items() if bounds}


def _container_defaults(spec: PlaneSpec) -> Obj:
    found = {
        "requests": {name: request for name, request, _ in spec.quota.container_defaults if request},
        "limits": {name: limit for name, _, limit in spec.quota.container_defaults if limit},
    }
    return {"containerDefaults": given} if (given := {part: amounts for part, amounts in found.items() if amounts}) else {}


def config_map(spec: PlaneSpec) -> Obj:
    """ConfigMap `syncer` with settings.json."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(spec, SYNCER, namespace=spec.namespace, component=SYNCER),
        "data": {syncersettings.FILE: json.dumps(settings(spec), indent=1, sort_keys=True) + "\n"},
    }


def accounts(spec: PlaneSpec) -> list[Obj]:
    """The syncer's account, and the account without rights under which every mirrored pod runs."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(spec, SYNCER, namespace=spec.namespace, component=SYNCER),
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(spec, WORKLOAD, namespace=spec.work_namespace),
            "automountServiceAccountToken": False,
        },
    ]


def access(spec: PlaneSpec) -> list[Obj]:
    """Bindings on the host to roles that come with the chart.

    The controller binds them without holding their rights itself: it could not exec into a tenant's pod.
    """
    # If the class withdraws publishing, the syncer removes published objects with the rights that every syncer has.
    publishing = [_binding(spec, spec.work_namespace, INGRESS_ROLE, f"{SYNCER}-ingress")] if spec.offers.ingress else []
    grouping = [_binding(spec, spec.work_namespace, POD_GROUP_ROLE, f"{SYNCER}-podgroups")] if spec.offers.pod_groups else []
    snapshots = (
        [_binding(spec, spec.work_namespace, SNAPSHOT_ROLE, f"{SYNCER}-snapshots")] if spec.offers.snapshot_classes else []
    )
    return [
        _binding(spec, spec.work_namespace, WORK_ROLE),
        *publishing,
        *grouping,
        *snapshots,
        _binding(spec, spec.namespace, PLANE_ROLE),
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata(spec, f"{spec.namespace}-syncer-nodes"),
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": NODE_READER},
            "subjects": [_subject(spec)],
        },
    ]


def deployment(spec: PlaneSpec, *, leaf: str, config: str) -> Obj:
    """Deployment `syncer`; `leaf` and `config` are digests of what the process reads once."""
    # None during a restore: it would write over the note that keeps its successor from deleting anything.
    replicas = 0 if spec.restoring is not None else 1
    # The old one is stopped first, and its end is not waited for: with Recreate a pod that is stuck on a dead node would keep
    # each changed template from starting (docs/decisions/0061).
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    return parts.deployment(spec, SYNCER, _pod(spec), leaf=leaf, config=config, strategy=strategy, replicas=replicas)


def _pod(spec: PlaneSpec) -> Obj:
    container: Obj = {
        "name": SYNCER,
        "image": spec.images.bulkhead,
        "imagePullPolicy": spec.images.pull_policy,
        "command": ["python3", "-m", "syncer"],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            # Two arenas instead of eight per core: glibc otherwise keeps what the threads of one burst freed.
            {"name": "MALLOC_ARENA_MAX", "value": "2"},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
        ],
        "ports": [
            {"name": "http", "containerPort": SYNCER_HTTP_PORT, "protocol": "TCP"},
            {"name": "shim", "containerPort": SHIM_PORT, "protocol": "TCP"},
        ],
        "resources": spec.budgets.syncer.resources(),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            mount("pki", PKI_PATH),
            {"name": "settings", "mountPath": "/etc/bulkhead/settings.json", "subPath": "settings.json", "readOnly": True},
            mount("tmp", "/tmp", read_only=False),  # noqa: S108 - a volume of the pod's own
            *([mount("gpu-metrics", _GPU_METRICS_TOKEN_PATH)] if spec.installation.gpu_metrics else []),
        ],
        "startupProbe": probe("/readyz", SYNCER_HTTP_PORT, period=1, failures=300),
        "livenessProbe": probe("/livez", SYNCER_HTTP_PORT, period=10, failures=6),
        "readinessProbe": probe("/readyz", SYNCER_HTTP_PORT, period=5, failures=3),
    }
    return pod_spec(
        spec,
        [container],
        [
            secret_volume("pki", "pki-syncer"),
            {"name": "settings", "configMap": {"name": SYNCER, "defaultMode": 0o444}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
            *([_gpu_metrics_token()] if spec.installation.gpu_metrics else []),
        ],
        serviceAccountName=SYNCER,
        automountServiceAccountToken=True,
        terminationGracePeriodSeconds=10,
    )


def _gpu_metrics_token() -> Obj:
    """A token that says which tenant's syncer asks, and that opens nothing else."""
    token = {"audience": syncersettings.GPU_AUDIENCE, "expirationSeconds": 3600, "path": "token"}
    return {"name": "gpu-metrics", "projected": {"defaultMode": 0o440, "sources": [{"serviceAccountToken": token}]}}


def _binding(spec: PlaneSpec, namespace: str, role: str, name: str = SYNCER) -> Obj:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata(spec, name, namespace=namespace, component=SYNCER),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [_subject(spec)],
    }


def _subject(spec: PlaneSpec) -> Obj:
    return {"kind": "ServiceAccount", "name": SYNCER, "namespace": spec.namespace}
