"""The syncer of a tenant: Deployment, settings, and what its ServiceAccount may do on the host.

Its rights end at the tenant's two namespaces: bindings there, read access to nodes, and nothing else cluster-wide. It may not
read nodes through the kubelet proxy, and in the plane's namespace it sees its own identity record and pods only.
"""

import json

from bulkhead.api import devices, syncersettings
from bulkhead.api.names import API_ENVIRONMENT, PULL_SECRET
from controller.plane import parts
from controller.plane.parts import CONTAINER_SECURITY, metadata, mount, pod_spec, probe, secret_volume
from controller.plane.spec import DRAIN_SECONDS, ISSUERS_PORT, PKI_PATH, SHIM_PORT, SYNCER, SYNCER_HTTP_PORT, Obj, PlaneSpec

WORKLOAD = "workload"
WORK_ROLE = "bulkhead-syncer-work"
PLANE_ROLE = "bulkhead-syncer-plane"
INGRESS_ROLE = "bulkhead-syncer-ingress"
POD_GROUP_ROLE = "bulkhead-syncer-podgroups"
SNAPSHOT_ROLE = "bulkhead-syncer-snapshots"
NODE_READER = "bulkhead-syncer-nodes"
_RBAC = "rbac.authorization.k8s.io"


def settings(spec: PlaneSpec) -> Obj:
    """The content of settings.json, as `syncer/settings.py` reads it."""
    # Huge pages are no devices: only the host's quota counts them.
    counted = {name for name in (*spec.gpu_resources, *spec.extended_resources) if "/" in name}
    return {
        "tenant": spec.tenant,
        "tenantUID": spec.uid,
        "planeNamespace": spec.namespace,
        "workNamespace": spec.work_namespace,
        "clusterDomain": spec.cluster_domain,
        "dnsAddress": spec.dns_address,
        "apiAddress": spec.api_address,
        "apiEnvironment": API_ENVIRONMENT,
        "deviceEnvironment": devices.ENVIRONMENT,
        "shimAddress": spec.shim_address,
        "shimPort": SHIM_PORT,
        "publicAddress": spec.public_address,
        **({"issuersPort": ISSUERS_PORT} if spec.issuers else {}),
        "serviceSlice": spec.service_slice,
        "nodes": {"selector": dict(spec.node_selector)},
        "gpuResources": list(spec.gpu_resources),
        "limits": {name: amount.count for name, amount in spec.allotted.items() if name in counted} | spec.device_class_limits,
        **({"extendedResources": list(spec.extended_resources)} if spec.extended_resources else {}),
        **({"deviceClassResources": spec.device_class_resources} if spec.device_class_resources else {}),
        **_bounds(spec),
        **_container_defaults(spec),
        "enforcedNodeSelector": dict(spec.enforced_selector),
        "enforcedTolerations": list(spec.enforced_tolerations),
        "allowedTolerations": list(spec.allowed_tolerations),
        **({"drainSeconds": spec.drain_seconds} if spec.drain_seconds != DRAIN_SECONDS else {}),
        "podSecurity": spec.pod_security,
        **({"userNamespaces": True} if spec.user_namespaces else {}),
        **({"allowedSeccompProfiles": list(spec.seccomp_profiles)} if spec.seccomp_profiles else {}),
        **({"allowedAppArmorProfiles": list(spec.apparmor_profiles)} if spec.apparmor_profiles else {}),
        "runtimeClassName": spec.runtime_class,
        "priorityClassName": spec.workload_priority_class,
        "allowedPriorityClasses": list(spec.allowed_priority_classes),
        "allowedRuntimeClasses": list(spec.allowed_runtime_classes),
        "allowedStorageClasses": list(spec.allowed_storage_classes),
        "allowedDeviceClasses": [name for name, _ in spec.device_classes],
        "allowedIngressClasses": list(spec.ingress_classes),
        "ingressDomains": list(spec.ingress_domains),
        **({"podGroups": True} if spec.pod_groups else {}),
        # Of what it may borrow the host's quota says how much, and `limits` what is its own: others change that, and no syncer
        # has to be started again for it.
        **({"gatedResources": list(spec.gated_resources)} if spec.gated_resources else {}),
        **({"gatedGangs": True} if spec.gated_gangs else {}),
        **({"allowedSnapshotClasses": list(spec.allowed_snapshot_classes)} if spec.allowed_snapshot_classes else {}),
        **({"pullSecret": PULL_SECRET, "ownImages": list(spec.own_images)} if spec.own_images else {}),
        "patrolSeconds": spec.patrol_seconds,
        "massDeleteLimit": spec.mass_delete_limit,
        "tokenSeconds": spec.token_seconds,
    }


def read_once(spec: PlaneSpec) -> Obj:
    """The settings for which the syncer starts again; the others a running one takes over."""
    return syncersettings.read_once(settings(spec))


def _bounds(spec: PlaneSpec) -> Obj:
    found: Obj = {
        "mostPerPod": {each.resource: each.most for each in spec.pod_bounds if each.most},
        "mostLimitRequestRatio": {each.resource: each.ratio for each in spec.pod_bounds if each.ratio},
        "mostPerClaim": spec.most_per_claim,
    }
    return {field: bounds for field, bounds in found.items() if bounds}


def _container_defaults(spec: PlaneSpec) -> Obj:
    found = {
        "requests": {name: request for name, request, _ in spec.container_defaults if request},
        "limits": {name: limit for name, _, limit in spec.container_defaults if limit},
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
    """The syncer's account and the powerless one under which every mirrored pod runs."""
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

    The controller binds them and holds none of their rights itself: it could not exec into a tenant's pod.
    """
    # What was published before the class withdrew it is taken away with the rights that every syncer has.
    publishing = [_binding(spec, spec.work_namespace, INGRESS_ROLE, f"{SYNCER}-ingress")] if spec.offers_ingress else []
    grouping = [_binding(spec, spec.work_namespace, POD_GROUP_ROLE, f"{SYNCER}-podgroups")] if spec.pod_groups else []
    snapshots = (
        [_binding(spec, spec.work_namespace, SNAPSHOT_ROLE, f"{SYNCER}-snapshots")] if spec.allowed_snapshot_classes else []
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
    # Never two at once: both would mirror the same objects.
    return parts.deployment(spec, SYNCER, _pod(spec), leaf=leaf, config=config, strategy={"type": "Recreate"})


def _pod(spec: PlaneSpec) -> Obj:
    container: Obj = {
        "name": SYNCER,
        "image": spec.images.bulkhead,
        "imagePullPolicy": spec.image_pull_policy,
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
        "resources": spec.syncer.resources(),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            mount("pki", PKI_PATH),
            {"name": "settings", "mountPath": "/etc/bulkhead/settings.json", "subPath": "settings.json", "readOnly": True},
            mount("tmp", "/tmp", read_only=False),  # noqa: S108 - a volume of the pod's own
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
        ],
        serviceAccountName=SYNCER,
        automountServiceAccountToken=True,
        terminationGracePeriodSeconds=10,
    )


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
