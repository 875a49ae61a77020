"""A plane of one member grows to three: it is away once, for seconds, and keeps everything."""

import time
from collections.abc import Iterator

import pytest

from e2e import tenants
from e2e.api import Api, ApiError
from e2e.poll import NotYetError, until
from e2e.scenarios.durable.conftest import CLASS
from e2e.scenarios.durable.test_members import Writer, config_map
from e2e.tenants import Tenant

NAME = "e2e-grows"
GROWN_SECONDS = 420.0


@pytest.fixture
def one(host: Api, three: Tenant) -> Iterator[Tenant]:
    """A tenant of one member, of the class of the plane of three."""
    assert three.name
    tenants.remove(host, NAME)
    yield tenants.create(host, NAME, gpus=0, tenant_class=CLASS)
    tenants.remove(host, NAME)


def grown(host: Api, tenant: Tenant, told: list[str]) -> None:
    seen = host.get("Tenant", tenant.name)
    if seen["status"].get("observedGeneration") != seen["metadata"]["generation"]:
        raise NotYetError("the controller has not seen the change")
    found = tenants.conditions(seen)
    shown = [found[name] for name in ("Degraded", "PlaneReady") if name in found]
    words = "; ".join(f"{condition['reason']}: {condition['message']}" for condition in shown)
    if words not in told:
        told.append(words)
    pods = [pod for pod in host.list("Pod", tenant.plane) if pod["metadata"]["name"].startswith("plane-")]
    if len(pods) < 3 or "Degraded" in found or found["PlaneReady"]["reason"] != "Ready":
        raise NotYetError(words)


def test_a_plane_of_one_member_grows_to_three_and_never_back(host: Api, one: Tenant) -> None:
    one.api.apply(config_map("before"))
    restarted = host.get("Pod", "plane-0", one.plane)["metadata"]["uid"]
    told: list[str] = []
    began = time.monotonic()
    with Writer(one) as writer:
        host.patch("Tenant", one.name, {"spec": {"controlPlane": {"replicas": 3}}})
        until("three members to serve", lambda: grown(host, one, told), seconds=GROWN_SECONDS, interval=0.5, patience=1)
    seconds = time.monotonic() - began
    print(f"three members after {seconds:.0f} s; {len(writer.written)} writes, failed twice: {writer.failed}; {told}")
    assert host.get("Pod", "plane-0", one.plane)["metadata"]["uid"] != restarted
    names = {obj["metadata"]["name"] for obj in one.api.list("ConfigMap", "default")}
    assert names >= {"before", *writer.written}
    with pytest.raises(ApiError, match="never shrink"):
        host.patch("Tenant", one.name, {"spec": {"controlPlane": {"replicas": 1}}})
