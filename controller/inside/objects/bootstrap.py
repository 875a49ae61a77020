"""The objects that the controller creates inside a tenant's plane: rights, the Service of its DNS, and the metrics API.

Pure. The controller applies them when the plane answers after a change, and again after each resync period. So if a tenant
deletes the syncer's rights, they are back within that period.
"""

import base64

from bulkhead.api import labels, names, ownquota
from bulkhead.api.objects import Obj
from controller.inside.objects import gpumetrics, snapshots, unprivileged
from controller.plane.pki import DNS_USER, SYNCER_USER
from controller.plane.spec import METRICS, SHIM_PORT, PlaneSpec

_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "update", "patch", "delete"]


def objects(spec: PlaneSpec, shim_ca: bytes) -> tuple[Obj, ...]:
    """All objects; their order does not matter. `shim_ca` verifies the syncer's serving certificate, PEM."""
    return (
        _binding("bulkhead:tenant-admins", "cluster-admin", _admins(spec)),
        _role("bulkhead:syncer", [*_syncer_rules(spec), *_snapshot_rules(spec)]),
        _binding("bulkhead:syncer", "bulkhead:syncer", [_user(SYNCER_USER)]),
        _role("bulkhead:dns", _dns_rules()),
        _binding("bulkhead:dns", "bulkhead:dns", [_user(DNS_USER)]),
        # The API server reaches logs and exec of the syncer's shim under this name.
        _binding("bulkhead:kubelet-client", "system:kubelet-api-admin", [_user("bulkhead:apiserver")]),
        _dns_service(spec),
        *_metrics(spec, shim_ca),
        *_own_quota(),
        *(gpumetrics.objects(spec, shim_ca) if spec.installation.gpu_metrics else ()),
        *unprivileged.objects(spec),
        # Not deleted when the class no longer offers snapshots: the tenant's objects would be deleted with the CRDs.
        *(snapshots.definitions() if spec.offers.snapshot_classes else ()),
    )


def withdrawn(spec: PlaneSpec) -> tuple[Obj, ...]:
    """Objects of an earlier choice of the tenant that must be deleted."""
    return (*unprivileged.withdrawn(spec), *(() if spec.installation.gpu_metrics else gpumetrics.objects(spec, b"")))


def _admins(spec: PlaneSpec) -> list[Obj]:
    subjects: list[Obj] = [{"kind": "Group", "apiGroup": _RBAC, "name": names.ADMIN_GROUP}]
    for admin in spec.access.admins:
        kind, name = str(admin.get("kind", "User")), str(admin.get("name", ""))
        if kind in {"User", "Group"} and name and not name.startswith(("system:", "bulkhead:")):
            subjects.append({"kind": kind, "apiGroup": _RBAC, "name": name})
    return subjects


def _syncer_rules(spec: PlaneSpec) -> list[Obj]:
    """Reads what pods refer to, writes status, nodes, endpoints and events, and mints tokens for the tenant's pods."""
    return [
        _rule("", ["pods"], [*_READ, "create", "update", "patch", "delete"]),
        _rule(
            "", ["pods/status", "pods/binding", "pods/ephemeralcontainers", "pods/resize"], ["get", "create", "update", "patch"]
        ),
        _rule("", ["bindings"], ["create"]),
        _rule("", ["configmaps", "secrets", "namespaces", "serviceaccounts", "resourcequotas", "limitranges"], _READ),
        _rule("", ["serviceaccounts/token"], ["create"]),
        _rule("", ["services", "endpoints", "persistentvolumeclaims", "persistentvolumes", "nodes"], _WRITE),
        _rule(
            "",
            ["services/status", "persistentvolumeclaims/status", "persistentvolumes/status", "nodes/status"],
            ["get", "update", "patch"],
        ),
        _rule("", ["events"], [*_READ, "create", "update", "patch"]),
        _rule("events.k8s.io", ["events"], [*_READ, "create", "update", "patch"]),
        _rule("discovery.k8s.io", ["endpointslices"], _WRITE),
        _rule("coordination.k8s.io", ["leases"], _WRITE),
        _rule("resource.k8s.io", ["resourceclaims"], _READ),
        _rule("resource.k8s.io", ["resourceclaims/status", "resourceclaims/binding"], ["get", "update", "patch"]),
        _rule("resource.k8s.io", ["deviceclasses"], _WRITE),
        _rule("storage.k8s.io", ["storageclasses", "csinodes", "csidrivers"], _WRITE),
        _rule("scheduling.k8s.io", ["priorityclasses"], _WRITE),
        _rule("scheduling.k8s.io", ["podgroups"], _READ),
        *([_rule("scheduling.k8s.io", ["podgroups/status"], ["get", "update", "patch"])] if spec.offers.pod_groups else []),
        *([_rule("scheduling.x-k8s.io", ["podgroups"], _READ)] if spec.ledger.gated_gangs else []),
        _rule("node.k8s.io", ["runtimeclasses"], _WRITE),
        _rule("networking.k8s.io", ["networkpolicies", "ingresses"], _READ),
        _rule("networking.k8s.io", ["ingressclasses"], _WRITE),
        _rule("networking.k8s.io", ["ingresses/status"], ["get", "update", "patch"]),
        _rule("policy", ["poddisruptionbudgets"], _READ),
        _rule("apps", ["replicasets", "statefulsets", "deployments", "daemonsets"], _READ),
        _rule("batch", ["jobs"], _READ),
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    ]


def _snapshot_rules(spec: PlaneSpec) -> list[Obj]:
    if not spec.offers.snapshot_classes:
        return []
    return [
        _rule(snapshots.GROUP, ["volumesnapshots"], _READ),
        _rule(snapshots.GROUP, ["volumesnapshots/status"], ["get", "update", "patch"]),
        _rule(snapshots.GROUP, ["volumesnapshotclasses"], _WRITE),
    ]


def _dns_rules() -> list[Obj]:
    return [
        _rule("", ["services", "namespaces"], ["list", "watch"]),
        _rule("discovery.k8s.io", ["endpointslices"], ["list", "watch"]),
    ]


def _dns_service(spec: PlaneSpec) -> Obj:
    """The Service whose address pods have as their nameserver; it has no selector, because the pods are on the host."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "labels": {
                labels.PLATFORM: "true",
                labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD,
                "k8s-app": "kube-dns",
                "kubernetes.io/name": "CoreDNS",
            },
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": spec.dns_address,
            "ports": [
                {"name": "dns", "protocol": "UDP", "port": 53, "targetPort": 53},
                {"name": "dns-tcp", "protocol": "TCP", "port": 53, "targetPort": 53},
            ],
        },
    }


def _metrics(spec: PlaneSpec, shim_ca: bytes) -> tuple[Obj, ...]:
    """metrics.k8s.io of this plane, its way to the syncer, and the right to read it for everyone who may view pods.

    The way is an external name and not a Service with an address, so nothing of it is in the tenant's network or is mirrored.
    """
    service: Obj = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**_meta(METRICS), "namespace": "kube-system"},
        "spec": {"type": "ExternalName", "externalName": spec.shim_address},
    }
    announced: Obj = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": _meta("v1beta1.metrics.k8s.io"),
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": METRICS, "namespace": "kube-system", "port": SHIM_PORT},
            "caBundle": base64.b64encode(shim_ca).decode(),
        },
    }
    readers = _role("system:aggregated-metrics-reader", [_rule("metrics.k8s.io", ["pods", "nodes"], _READ)])
    for role in ("view", "edit", "admin"):
        readers["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{role}"] = "true"
    return service, announced, readers


def _own_quota() -> tuple[Obj, ...]:
    """The syncer's right to say in the plane what the tenant's quota is, and the right of all users to read that."""
    named = {"resourceNames": [ownquota.CONFIG_MAP]}
    # A right to create cannot name the object.
    writes = [_rule("", ["configmaps"], ["create"]), _rule("", ["configmaps"], ["get", "update", "delete"]) | named]
    reads = [_rule("", ["configmaps"], _READ) | named]
    return (
        *_in_public("bulkhead:own-quota", writes, _user(SYNCER_USER)),
        *_in_public("bulkhead:own-quota-readers", reads, {"kind": "Group", "apiGroup": _RBAC, "name": "system:authenticated"}),
    )


def _in_public(name: str, rules: list[Obj], subject: Obj) -> tuple[Obj, Obj]:
    """A Role in the namespace that every user may read from, and its binding."""
    meta = _meta(name) | {"namespace": ownquota.NAMESPACE}
    role = _role(name, rules) | {"kind": "Role", "metadata": meta}
    binding = _binding(name, name, [subject]) | {"kind": "RoleBinding", "metadata": meta}
    binding["roleRef"] = binding["roleRef"] | {"kind": "Role"}
    return role, binding


def _meta(name: str) -> Obj:
    return {"name": name, "labels": {labels.PLATFORM: "true", labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD}}


def _role(name: str, rules: list[Obj]) -> Obj:
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": _meta(name), "rules": rules}


def _binding(name: str, role: str, subjects: list[Obj]) -> Obj:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _meta(name),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    }


def _user(name: str) -> Obj:
    return {"kind": "User", "apiGroup": _RBAC, "name": name}


def _rule(group: str, resources: list[str], verbs: list[str]) -> Obj:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}
