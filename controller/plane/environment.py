"""The variables by which a tenant's pods find its API (`KUBERNETES_*`), in one ConfigMap of the work namespace.

Each host pod names it before what its tenant gives it. An address is given to a tenant for good, so the ConfigMap cannot be
changed, and kubelets read it once and watch nothing; other variables would need another name.
"""

from bulkhead.api import serviceenv
from bulkhead.api.names import API_ENVIRONMENT
from controller.plane.parts import metadata
from controller.plane.spec import Obj, PlaneSpec


def config_map(spec: PlaneSpec) -> Obj:
    """ConfigMap `kubernetes-environment`."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(spec, API_ENVIRONMENT, namespace=spec.work_namespace),
        "immutable": True,
        "data": serviceenv.of_api(spec.api_address),
    }
