"""The tenant's two host namespaces: the plane's, where no workload ever runs, and the work namespace.

Both have the tenant's UID in a label, which distinguishes them from namespaces of a deleted tenant of the same name. The work
namespace also has the facts by which the host's admission policies check the tenant's objects, because they trust no syncer.
"""

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from controller.plane.parts import metadata
from controller.plane.policyfacts import policy_facts
from controller.plane.spec import PlaneSpec

# Pinned: an upgrade of the host must not change what a tenant may run.
POD_SECURITY_VERSION = "v1.36"


def namespaces(spec: PlaneSpec) -> list[Obj]:
    """Both namespaces with their Pod Security labels."""
    return [
        _namespace(spec, spec.namespace, "restricted", "plane", {}),
        _namespace(spec, spec.work_namespace, spec.isolation.pod_security, "work", policy_facts(spec)),
    ]


def _namespace(spec: PlaneSpec, name: str, level: str, role: str, facts: dict[str, str]) -> Obj:
    meta = metadata(
        spec,
        name,
        annotations={labels.TENANT_UID: spec.uid}
        | facts
        | ({labels.CONFIRMED_ONLY: labels.ASKS} if spec.deletion.confirm else {}),
        extra_labels={
            "bulkhead.dev/namespace": role,
            "pod-security.kubernetes.io/enforce": level,
            "pod-security.kubernetes.io/enforce-version": POD_SECURITY_VERSION,
        },
    )
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
