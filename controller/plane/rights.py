"""The controller's own right to a plane's Secrets: bound by itself, in the namespaces of planes alone.

Pure. So it can read no Secret of the host that is not of a plane, and a policy of the chart holds it to that.
"""

from controller.plane.parts import metadata
from controller.plane.spec import Obj, PlaneSpec

CONTROLLER = "bulkhead-controller"
SECRETS_ROLE = "bulkhead-controller-secrets"
_RBAC = "rbac.authorization.k8s.io"


def binding(spec: PlaneSpec) -> Obj:
    """RoleBinding `controller-secrets` in the plane's namespace."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata(spec, "controller-secrets", namespace=spec.namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": SECRETS_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": CONTROLLER, "namespace": spec.system_namespace}],
    }
