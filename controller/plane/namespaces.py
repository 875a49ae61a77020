"""The tenant's two host namespaces: the plane's, where no workload ever runs, and the workloads'.

Both carry the tenant's UID, by which a namespace of a deleted tenant of the same name is told from this one's. The workloads'
says what the host's admission policy has to know of the tenant and takes from no syncer: which address the tenant's nodes have,
which profiles of the nodes its pods may run under, and whether each runs in a user namespace.
"""

from bulkhead.api import labels
from controller.plane.parts import metadata
from controller.plane.spec import Obj, PlaneSpec

# Pinned: a new version of the host must not change by itself what a tenant may run.
POD_SECURITY_VERSION = "v1.36"


def namespaces(spec: PlaneSpec) -> list[Obj]:
    """Both namespaces with their Pod Security labels."""
    return [
        _namespace(spec, spec.namespace, "restricted", "plane", {}),
        _namespace(spec, spec.work_namespace, spec.pod_security, "work", _facts(spec)),
    ]


def _facts(spec: PlaneSpec) -> dict[str, str]:
    found = {
        labels.NODE_ADDRESS: spec.shim_address,
        labels.USER_NAMESPACES: "true" if spec.user_namespaces else "",
        labels.SECCOMP_PROFILES: ",".join(spec.seccomp_profiles),
        labels.APPARMOR_PROFILES: ",".join(spec.apparmor_profiles),
    }
    return {key: value for key, value in found.items() if value}


def _namespace(spec: PlaneSpec, name: str, level: str, role: str, notes: dict[str, str]) -> Obj:
    meta = metadata(
        spec,
        name,
        annotations={labels.TENANT_UID: spec.uid} | notes,
        extra_labels={
            "bulkhead.dev/namespace": role,
            "pod-security.kubernetes.io/enforce": level,
            "pod-security.kubernetes.io/enforce-version": POD_SECURITY_VERSION,
        },
    )
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
