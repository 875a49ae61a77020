"""Fixtures: the host with the chart, and a plane of three members."""

from collections.abc import Iterator

import pytest

from e2e import install, tenants
from e2e.api import Api
from e2e.tenants import Tenant

CLASS = "e2e-durable"
THREE = "e2e-three"


@pytest.fixture(scope="session")
def host() -> Api:
    """The embedded host with the chart."""
    return install.ensure_installed(lambda text: print(text, flush=True))


@pytest.fixture(scope="module")
def three(host: Api) -> Iterator[Tenant]:
    """A tenant whose plane has three members."""
    standard = next(obj for obj in install.example_objects() if obj["kind"] == "TenantClass")
    plane = {**standard["spec"].get("controlPlane", {}), "maxReplicas": 3}
    host.apply(standard | {"metadata": {"name": CLASS}, "spec": standard["spec"] | {"controlPlane": plane}})
    tenants.remove(host, THREE)
    yield tenants.create(host, THREE, gpus=0, tenant_class=CLASS, seconds=300, controlPlane={"replicas": 3})
    tenants.remove(host, THREE)
    host.delete("TenantClass", CLASS)
