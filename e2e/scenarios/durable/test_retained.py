"""A deletion that is taken back: the Tenant is made again, and gets its plane with everything that was inside."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from e2e import commands, install, machine, names, tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.poll import NotYetError, until
from e2e.tenants import Tenant

NAME = "e2e-kept"
CLASS = "e2e-kept"
RETAINED = "bulkhead.dev/retained"


def end(host: Api) -> None:
    """Delete the tenant, and what is kept of it."""
    host.delete("Tenant", NAME)
    gone(host)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for space in (names.plane_namespace(NAME), names.work_namespace(NAME)):
        if host.find("Namespace", space) is not None:
            host.patch("Namespace", space, {"metadata": {"annotations": {f"{RETAINED}-until": now}}})
    tenants.wait_gone(host, NAME)


def gone(host: Api) -> None:
    def probe() -> None:
        if host.find("Tenant", NAME) is not None:
            raise NotYetError("the Tenant is there")

    until("the Tenant to be gone", probe, seconds=120)


@pytest.fixture
def kept(host: Api) -> Iterator[Tenant]:
    """A tenant of a class that keeps planes, and asks that a deletion is confirmed."""
    standard = next(obj for obj in install.example_objects() if obj["kind"] == "TenantClass")
    deletion = {"policy": "Retain", "retainFor": "2h"}
    host.apply(standard | {"metadata": {"name": CLASS}, "spec": standard["spec"] | {"deletion": deletion}})
    end(host)
    yield tenants.create(host, NAME, gpus=0, tenant_class=CLASS)
    end(host)
    host.delete("TenantClass", CLASS)


def authenticated(tenant: Tenant, token: str) -> bool:
    body: Obj = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = tenant.api.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body=body)
    assert isinstance(answer, dict)
    return answer["status"].get("authenticated") is True


def test_a_deleted_tenant_that_is_made_again_has_what_it_had(host: Api, kept: Tenant) -> None:
    kept.api.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kept"}, "stringData": {"word": "still"}}, "default"
    )
    kept.api.create(workloads.deployment("web", 1, workloads.pod_spec()))
    workloads.wait_available(kept.api, "web", 1)
    token = kept.api.token("default", "default", seconds=3600)
    assert authenticated(kept, token)
    before = host.get("Tenant", NAME)
    identity, volumes = (
        before["status"]["planeIdentity"],
        {claim["metadata"]["uid"] for claim in host.list("PersistentVolumeClaim", kept.plane)},
    )

    host.delete("Tenant", NAME)
    gone(host)
    namespace = host.get("Namespace", kept.plane)
    assert namespace["metadata"]["labels"][RETAINED] == identity
    assert host.list("Pod", kept.plane) == []
    assert host.list("Pod", kept.work) == []
    listed = commands.bulkhead("tenant", "retained", kubeconfig=machine.KUBECONFIG, check=False)
    assert listed.code == 0, listed.text
    assert identity in listed.out

    # The name alone takes nothing up.
    host.create(tenants.manifest(NAME, gpus=0, tenant_class=CLASS))
    tenants.wait_condition(host, NAME, "Ready", status="False", reason="NamespaceTaken", says=f"spec.adopt: {identity}")
    host.patch("Tenant", NAME, {"spec": {"adopt": identity}})
    tenants.wait_ready(host, [NAME])
    again = tenants.open_tenant(NAME)
    after = host.get("Tenant", NAME)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["status"]["planeIdentity"] == identity
    assert after["status"]["serviceSlice"] == before["status"]["serviceSlice"]
    assert {claim["metadata"]["uid"] for claim in host.list("PersistentVolumeClaim", kept.plane)} == volumes
    assert again.api.get("Secret", "kept", "default")["data"]["word"] == "c3RpbGw="
    assert authenticated(again, token)
    workloads.wait_available(again.api, "web", 1, seconds=180)


def test_a_plane_that_lives_cannot_be_had_by_another(host: Api, kept: Tenant) -> None:
    identity, other = host.get("Tenant", NAME)["status"]["planeIdentity"], f"{NAME}-thief"
    host.create(tenants.manifest(other, gpus=0, tenant_class=CLASS, adopt=identity))
    try:
        tenants.wait_condition(host, other, "Ready", status="False", reason="AdoptionRefused", says="no plane is retained")
        assert host.find("Namespace", names.plane_namespace(other)) is None
        with pytest.raises(ApiError, match="has a plane already"):
            host.patch("Tenant", NAME, {"spec": {"adopt": "00000000-8888-7777-6666-555555555555"}})
    finally:
        host.delete("Tenant", other)
    assert kept.api.ready()
