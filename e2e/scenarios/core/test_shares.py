"""What the host shares with a tenant: Secrets and ConfigMaps in its plane, and images that its pods pull with them."""

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e import tenants, workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.fleet import Fleet
from e2e.poll import until
from e2e.registry import Registry, private_registry
from e2e.tenants import Tenant

SHARED = "bulkhead-shared"
OPEN, CLOSED = "open", "closed"


@dataclass(frozen=True, slots=True)
class Sharing:
    """A tenant of a class that shares a pull secret with two namespaces, and a CA bundle with all of them."""

    host: Api
    tenant: Tenant
    registry: Registry


def bundle(text: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ca-bundle", "namespace": SHARED},
        "data": {"ca.crt": text},
    }


def pull_secret(registry: Registry) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "registry", "namespace": SHARED},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": registry.credentials()},
    }


@pytest.fixture(scope="module")
def sharing(host: Api, fleet: Fleet) -> Iterator[Sharing]:
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    with private_registry() as registry, contextlib.ExitStack() as after:
        for obj in (bundle("one"), pull_secret(registry)):
            host.apply(obj)
            after.callback(host.delete, obj["kind"], obj["metadata"]["name"], SHARED)
        spec = host.get("TenantClass", "standard")["spec"] | {
            "sharedSecrets": [{"name": "registry", "imagePullSecret": True, "namespaces": {"names": [OPEN]}}],
            "sharedConfigMaps": [{"name": "ca-bundle"}],
        }
        host.apply(
            {"apiVersion": "bulkhead.dev/v1alpha1", "kind": "TenantClass", "metadata": {"name": "e2e-shares"}, "spec": spec}
        )
        fleet.discard("TenantClass", "e2e-shares")
        after.callback(fleet.leave, name)
        tenant = fleet.take(tenants.manifest(name, tenant_class="e2e-shares"))
        for space in (OPEN, CLOSED):
            tenants.make_namespace(tenant.api, space)
        yield Sharing(host, tenant, registry)


def held(sharing: Sharing, namespace: str) -> str:
    found = sharing.tenant.api.find("ConfigMap", "ca-bundle", namespace)
    return found["data"].get("ca.crt", "") if found else ""


def wait_held(sharing: Sharing, namespace: str, text: str) -> None:
    until(
        f"{namespace}: {text!r}",
        lambda: workloads.expect(held(sharing, namespace) == text, held(sharing, namespace)),
        seconds=60,
    )


def test_a_pod_pulls_a_private_image_with_the_shared_secret_and_none_without(sharing: Sharing) -> None:
    api = sharing.tenant.api

    def pulls(namespace: str) -> list[Obj]:
        return api.get("ServiceAccount", "default", namespace).get("imagePullSecrets") or []

    until(
        "the account to name it", lambda: workloads.expect(pulls(OPEN) == [{"name": "registry"}], str(pulls(OPEN))), seconds=30
    )
    spec = workloads.pod_spec()
    spec["containers"][0]["image"] = sharing.registry.image
    for namespace in (CLOSED, OPEN):
        api.create(workloads.pod("private", spec, namespace=namespace))
    running = workloads.wait_running(api, "private", namespace=OPEN)
    assert running["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    mirrored = workloads.host_pod_of(sharing.host, running, sharing.tenant.work)
    assert [reference["name"] for reference in mirrored["spec"]["imagePullSecrets"]] != ["registry"]

    def refused() -> None:
        states = api.get("Pod", "private", CLOSED).get("status", {}).get("containerStatuses") or [{}]
        reason = states[0].get("state", {}).get("waiting", {}).get("reason", "")
        workloads.expect(reason in {"ErrImagePull", "ImagePullBackOff"}, str(states))

    # The node already has the image, but only pods with the password may use it.
    until("the pod without the secret to be refused", refused, seconds=60)
    assert pulls(CLOSED) == []
    assert sharing.registry.refused


def test_what_is_shared_follows_its_source_into_a_running_pod(sharing: Sharing) -> None:
    wait_held(sharing, CLOSED, "one")
    spec = workloads.pod_spec(volumes=[{"name": "ca", "configMap": {"name": "ca-bundle"}}])
    spec["containers"][0]["volumeMounts"] = [{"name": "ca", "mountPath": "/ca"}]
    sharing.tenant.api.create(workloads.pod("reader", spec, namespace=CLOSED))
    workloads.wait_running(sharing.tenant.api, "reader", namespace=CLOSED)

    def read() -> str:
        return kubectl(sharing.tenant.kubeconfig, "-n", CLOSED, "exec", "reader", "--", "cat", "/ca/ca.crt").out

    assert read() == "one"
    sharing.host.apply(bundle("two"))
    wait_held(sharing, CLOSED, "two")
    until("the node to have it", lambda: workloads.expect(read() == "two", read()), seconds=150)


def test_a_tenants_change_of_a_copy_is_undone_and_reaches_no_other_tenant(sharing: Sharing) -> None:
    sharing.host.apply(bundle("mine"))
    api = sharing.tenant.api
    wait_held(sharing, OPEN, "mine")
    # The answer shows that the patch was accepted: it is reverted at once.
    assert api.patch("ConfigMap", "ca-bundle", {"data": {"ca.crt": "forged"}}, OPEN)["data"] == {"ca.crt": "forged"}
    wait_held(sharing, OPEN, "mine")
    api.delete("ConfigMap", "ca-bundle", OPEN)
    wait_held(sharing, OPEN, "mine")
    assert sharing.host.get("ConfigMap", "ca-bundle", SHARED)["data"] == {"ca.crt": "mine"}


def test_an_object_of_the_tenants_own_stays_and_the_condition_says_so(sharing: Sharing) -> None:
    sharing.host.apply(bundle("shared"))
    api = sharing.tenant.api
    own = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca-bundle"}, "data": {"ca.crt": "own"}}
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "taken"}})
    with contextlib.suppress(Exception):
        api.create(own, "taken")
    # The earlier owner keeps it: without the label it belongs to the tenant.
    api.patch(
        "ConfigMap", "ca-bundle", {"metadata": {"labels": {"bulkhead.dev/shared": None}}} | {"data": own["data"]}, "taken"
    )
    said = tenants.wait_condition(sharing.host, sharing.tenant.name, "SharesApplied", status="False", reason="ShareConflict")
    assert "taken/ca-bundle" in said["message"]
    # It stays when the controller writes all the others: when the second text is there, the first round is complete.
    for text in ("shared again", "and again"):
        sharing.host.apply(bundle(text))
        for namespace in (OPEN, CLOSED):
            wait_held(sharing, namespace, text)
    tenants.wait_condition(sharing.host, sharing.tenant.name, "SharesApplied", status="False", reason="ShareConflict")
    assert held(sharing, "taken") == "own"
    api.delete("Namespace", "taken")
    tenants.wait_condition(sharing.host, sharing.tenant.name, "SharesApplied", status="True")


def test_what_is_no_longer_shared_goes(sharing: Sharing) -> None:
    wait_held(sharing, OPEN, sharing.host.get("ConfigMap", "ca-bundle", SHARED)["data"]["ca.crt"])
    sharing.host.delete("ConfigMap", "ca-bundle", SHARED)
    wait_held(sharing, OPEN, "")
    sharing.host.patch("TenantClass", "e2e-shares", {"spec": {"sharedSecrets": None, "sharedConfigMaps": None}})
    api = sharing.tenant.api

    def gone() -> None:
        secret, account = api.find("Secret", "registry", OPEN), api.get("ServiceAccount", "default", OPEN)
        workloads.expect(secret is None and not account.get("imagePullSecrets"), f"{secret} {account}")

    until("the pull secret to be gone", gone, seconds=60)

    def untold() -> None:
        found = tenants.conditions(sharing.host.get("Tenant", sharing.tenant.name))
        workloads.expect("SharesApplied" not in found, f"{found.get('SharesApplied')}")

    until("the Tenant to say nothing of shares", untold, seconds=60)


def test_nothing_else_of_the_hosts_secrets_is_reached(sharing: Sharing) -> None:
    """The positive control in the same namespace: a similar Secret is not shared, and the controller may not read it."""
    token = "eA=="
    sharing.host.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "elsewhere", "namespace": "default"}, "data": {"a": token}}
    )
    spec = {"spec": {"sharedSecrets": [{"name": "elsewhere", "namespaces": {"names": [OPEN]}}]}}
    sharing.host.patch("TenantClass", "e2e-shares", spec)
    said = tenants.wait_condition(sharing.host, sharing.tenant.name, "SharesApplied", status="False", reason="ShareUnavailable")
    assert "elsewhere: the host has no object of this name" in said["message"]
    assert sharing.tenant.api.find("Secret", "elsewhere", OPEN) is None
    sharing.host.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "elsewhere", "namespace": SHARED}, "data": {"a": token}}
    )
    tenants.wait_condition(sharing.host, sharing.tenant.name, "SharesApplied", status="True")
    assert sharing.tenant.api.get("Secret", "elsewhere", OPEN)["data"] == {"a": token}
    for namespace in (SHARED, "default"):
        sharing.host.delete("Secret", "elsewhere", namespace)
