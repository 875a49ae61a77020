"""A tenant whose plane has three members, with the class that allows it."""

from collections.abc import Iterator
from contextlib import contextmanager

from e2e import install, tenants
from e2e.api import Api
from e2e.tenants import Tenant


@contextmanager
def of_three(host: Api, name: str, tenant_class: str) -> Iterator[Tenant]:
    """A new tenant, and its class, which is the example's with three members; both are removed afterwards."""
    standard = next(obj for obj in install.example_objects() if obj["kind"] == "TenantClass")
    plane = {**standard["spec"].get("controlPlane", {}), "maxReplicas": 3}
    host.apply(standard | {"metadata": {"name": tenant_class}, "spec": standard["spec"] | {"controlPlane": plane}})
    tenants.remove(host, name)
    yield tenants.create(host, name, gpus=0, tenant_class=tenant_class, seconds=300, controlPlane={"replicas": 3})
    tenants.remove(host, name)
    host.delete("TenantClass", tenant_class)
