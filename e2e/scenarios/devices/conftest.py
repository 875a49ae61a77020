"""Fixtures: a host with a driver of two devices, a class that offers them, and two tenants, one of which may not use them."""

from collections.abc import Iterator

import pytest

from e2e import install, tenants
from e2e.api import Api
from e2e.scenarios.core.conftest import space
from e2e.scenarios.devices import driver
from e2e.tenants import Tenant
from workstation.hostcluster.component import NODE_ADDRESS

__all__ = ["space"]

DEVICES = 2
OFFERED = "e2e-accelerator"
CLASS = "e2e-devices"
SETTLE_SECONDS = 10
# The host's exporters of simulated GPUs measure at each scrape, so a short time to settle hides nothing.
GPU_METRICS = {
    "gpuMetrics.enabled": "true",
    "gpuMetrics.exporter.namespace": "kube-system",
    "gpuMetrics.exporter.service": "simulated-gpu-exporter",
    "gpuMetrics.exporter.cidrs": f"{{{NODE_ADDRESS}/32}}",
    "gpuMetrics.interval": "3",
    "gpuMetrics.settle": str(SETTLE_SECONDS),
    "gpuMetrics.kubelets.enabled": "true",
    "gpuMetrics.kubelets.interval": "10",
}
TRACES_SPACE = "e2e-traces"
TRACING = {
    "tracing.enabled": "true",
    "tracing.collector.namespace": TRACES_SPACE,
    "tracing.collector.service": "collector",
    "tracing.onePodIn": "1",
}


@pytest.fixture(scope="session")
def host() -> Iterator[Api]:
    """The embedded host with the driver; the chart lets tenants name its class of devices."""
    found = install.ensure_installed(
        lambda text: print(text, flush=True), **{"deviceClasses": f"{{{OFFERED}}}", **GPU_METRICS, **TRACING}
    )
    selectors = [{"cel": {"expression": f'device.driver == "{driver.NAME}"'}}]
    found.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": OFFERED},
            "spec": {"selectors": selectors},
        }
    )
    with driver.running(found, DEVICES):
        yield found
    found.delete("DeviceClass", OFFERED)


@pytest.fixture(scope="session")
def alice(host: Api) -> Iterator[Tenant]:
    """A tenant of a class that offers the devices."""
    standard = next(obj for obj in install.example_objects() if obj["kind"] == "TenantClass")
    offered = {"allowedDeviceClasses": [OFFERED], "deviceClassQuota": {OFFERED: {"devices": 8 * DEVICES}}}
    host.apply(standard | {"metadata": {"name": CLASS}, "spec": standard["spec"] | offered})
    tenants.remove(host, "e2e-devices")
    yield tenants.create(host, "e2e-devices", gpus=1, tenant_class=CLASS)
    tenants.remove(host, "e2e-devices")
    host.delete("TenantClass", CLASS)


@pytest.fixture(scope="session")
def bob(host: Api) -> Iterator[Tenant]:
    """A tenant of a class that does not."""
    tenants.remove(host, "e2e-plain")
    yield tenants.create(host, "e2e-plain", gpus=1)
    tenants.remove(host, "e2e-plain")


@pytest.fixture
def bobs(bob: Tenant) -> Iterator[str]:
    """A namespace in bob's plane for one test."""
    with tenants.namespace_for_a_test(bob.api) as name:
        yield name
