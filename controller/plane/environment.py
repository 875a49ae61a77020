"""Environment variables that the platform sets in each container on the host, from ConfigMaps of the work namespace.

With the variables of one ConfigMap a pod finds the tenant's API (`KUBERNETES_*`); a container lists it before the tenant's own.
The other ConfigMaps override the variables by which container runtimes hand out devices; a container lists one of them last.
The ConfigMaps are immutable, so that kubelets read them once and watch nothing; other variables would need another name.
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
    """The number of these ConfigMaps."""
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
