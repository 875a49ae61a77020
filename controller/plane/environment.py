"""Variables that the platform gives each container on the host, in ConfigMaps of the work namespace.

By one a pod finds the tenant's API (`KUBERNETES_*`); a container names it before what its tenant gives it. The others close the
variables by which container runtimes hand out devices; it names one of them after all else. They cannot be changed, kubelets
read them once and watch nothing; other variables would need another name.
"""

from bulkhead.api import devices, serviceenv
from bulkhead.api.names import API_ENVIRONMENT
from bulkhead.api.objects import Obj
from controller.plane.parts import metadata
from controller.plane.spec import PlaneSpec


def config_maps(spec: PlaneSpec) -> tuple[Obj, ...]:
    """ConfigMap `kubernetes-environment`, and `devices-…` for containers without devices and for each vendor offered."""
    return (
        _config_map(spec, API_ENVIRONMENT, serviceenv.of_api(spec.api_address)),
        *(
            _config_map(spec, devices.environment_name(devices.ENVIRONMENT, vendor), devices.environment(vendor))
            for vendor in _closing(spec)
        ),
    )


def number(spec: PlaneSpec) -> int:
    """How many of them there are."""
    return 1 + len(_closing(spec))


def _closing(spec: PlaneSpec) -> tuple[devices.Vendor | None, ...]:
    return (None, *devices.vendors_of(spec.quota.gpu_resources))


def _config_map(spec: PlaneSpec, name: str, data: dict[str, str]) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(spec, name, namespace=spec.work_namespace),
        "immutable": True,
        "data": data,
    }
