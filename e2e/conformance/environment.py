"""The tenant in which the suite runs: the example class, a quota for a plane of ordinary work, and the runtime that it names.

It removes only the objects that it created itself, by name. The class is as strict as the example: no pod has rights over the
node.
"""

import contextlib
from collections.abc import Iterator

from e2e import install, tenants
from e2e.api import Api, Obj
from e2e.tenants import Tenant

CLASS = RUNTIME = "bulkhead-conformance"
# The suite expects that every node knows a container runtime of this name.
HANDLER = "test-handler"
DEFAULTS = {
    # The smallest request there is: the suite reads from the cgroup the shares of containers that request no CPU.
    "requests": {"cpu": "1m", "ephemeral-storage": "64Mi", "memory": "32Mi"},
    "limits": {"ephemeral-storage": "10Gi", "memory": "4Gi"},
}
# A plane of one tenant among many: it must not look like a cluster of its own that may be filled with GPU pods.
OBJECTS = {"pods": 500, "services": 400, "configmaps": 2000, "secrets": 2000, "persistentvolumeclaims": 100}


def tenant_class() -> Obj:
    """The class of the example, with the additions that the suite needs."""
    standard = next(obj for obj in install.example_objects() if obj["kind"] == "TenantClass")
    isolation = standard["spec"]["isolation"] | {"allowedRuntimeClasses": [RUNTIME]}
    # The suite requests little and leaves the limit to the class: no ratio of the two suits all of its pods.
    resources = {
        name: {key: value for key, value in bound.items() if key != "maxLimitRequestRatio"}
        for name, bound in standard["spec"]["quota"]["resources"].items()
    }
    quota = standard["spec"]["quota"] | {"resources": resources, "objects": OBJECTS}
    spec = standard["spec"] | {"isolation": isolation, "quota": quota, "containerDefaults": DEFAULTS}
    return standard | {"metadata": {"name": CLASS}, "spec": spec}


@contextlib.contextmanager
def prepared(host: Api, name: str, *, keep: bool) -> Iterator[Tenant]:
    """Create the tenant, and remove it however the block ends (`keep` leaves it)."""
    host.apply({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": RUNTIME}, "handler": HANDLER})
    host.apply(tenant_class())
    try:
        yield tenants.create(host, name, gpus=0, seconds=300, tenant_class=CLASS)
    finally:
        if not keep:
            tenants.remove(host, name, seconds=600)
            host.delete("TenantClass", CLASS)
            host.delete("RuntimeClass", RUNTIME)
