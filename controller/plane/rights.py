"""The controller's own rights in a tenant's namespaces: to a plane's Secrets, and to pods that wait at the ledger's gate.

Pure. The controller binds these rights itself, and only there. So it cannot read Secrets of the host other than planes', and
cannot change pods other than tenants'. The chart's policies enforce that.
"""

from bulkhead.api.objects import Obj
from controller.plane.parts import metadata
from controller.plane.spec import PlaneSpec

CONTROLLER = "bulkhead-controller"
SECRETS_ROLE = "bulkhead-controller-secrets"
LEDGER = "ledger"
LEDGER_ROLE = "bulkhead-ledger-work"
_RBAC = "rbac.authorization.k8s.io"


def binding(spec: PlaneSpec) -> Obj:
    """RoleBinding `controller-secrets` in the plane's namespace."""
    return _binding(spec, "controller-secrets", spec.namespace, SECRETS_ROLE)


def ledger(spec: PlaneSpec) -> tuple[Obj, ...]:
    """RoleBinding `ledger` in the work namespace of a tenant whose pods wait at the gate, or once did."""
    return (_binding(spec, LEDGER, spec.work_namespace, LEDGER_ROLE),) if spec.ledger.admits else ()


def _binding(spec: PlaneSpec, name: str, namespace: str, role: str) -> Obj:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata(spec, name, namespace=namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": CONTROLLER, "namespace": spec.installation.system_namespace}],
    }
