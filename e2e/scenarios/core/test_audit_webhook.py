"""The audit trail of planes at a receiver on the host: each event's tenant, lost events, and that no tenant can reach it."""

import base64
import json
import uuid
from typing import Any

import pytest

from e2e import commands, machine, tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.fleet import Fleet
from e2e.poll import NotYetError, until
from e2e.scenarios.core import receiver
from e2e.scenarios.core.receiver import OTHER_PORT, PORT, SPACE
from e2e.scenarios.core.shared import audited as ahead
from e2e.tenants import Tenant


@pytest.fixture(scope="module")
def both(host: Api, fleet: Fleet) -> tuple[Tenant, Tenant]:
    """Two tenants of one class, with one receiver and with files."""
    first, second = (fleet.take(manifest) for manifest in ahead(fleet))
    workloads.wait_running(host, "receiver", namespace=SPACE)
    return first, second


def received() -> list[list[str]]:
    # A receiver that is still starting has printed nothing yet.
    printed = commands.kubectl(machine.KUBECONFIG, "logs", "-n", SPACE, "receiver", "--tail=-1", check=False).out
    return [line.split(" ", 5) for line in printed.splitlines()]


def write(tenant: Tenant) -> str:
    name = f"told-{uuid.uuid4().hex[:8]}"
    tenant.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
    return name


def arrives(name: str, *, seconds: float = 60) -> list[str]:
    def probe() -> list[str]:
        found = [line for line in received() if line[-1] == name]
        if not found:
            raise NotYetError("no such event")
        return found[0]

    return until(f"the receiver to have {name}", probe, seconds=seconds)


def arrives_sometime(tenant: Tenant) -> list[str]:
    """Write until the receiver has one of the events: what is written before it answers is lost."""
    written: set[str] = set()

    def probe() -> list[str]:
        written.add(write(tenant))
        found = [line for line in received() if line[-1] in written]
        if not found:
            raise NotYetError(f"none of {len(written)} events")
        return found[0]

    return until(f"the receiver to have an event of {tenant.name}", probe, seconds=60, interval=1.0)


def test_the_receiver_knows_whose_events_they_are_and_files_have_them_too(both: tuple[Tenant, Tenant]) -> None:
    for tenant in both:
        event = arrives_sometime(tenant)
        name = event[-1]
        assert event == [f"/events/{tenant.name}", "Bearer", "first", "create", "configmaps", name]
        out = commands.bulkhead("audit", tenant.name, "--verb", "create", "-o", "json", kubeconfig=machine.KUBECONFIG).out
        assert name in {(json.loads(line).get("objectRef") or {}).get("name") for line in out.splitlines()}


def test_a_plane_reaches_the_receiver_at_its_port_alone(host: Api, both: tuple[Tenant, Tenant]) -> None:
    """By a webhook, the tenant can reach what its API server reaches: the receiver without a credential, and nothing else."""
    address = host.get("Service", "receiver", SPACE)["spec"]["clusterIP"]
    api = host.get("Service", "kubernetes", "default")["spec"]["clusterIP"]
    said = {place: hooked(both[0], place) for place in (f"{address}:{PORT}", f"{address}:{OTHER_PORT}", f"{api}:443")}
    # The positive control: if there is a way, the error is about a certificate.
    assert "x509" in said[f"{address}:{PORT}"]
    for place in (f"{address}:{OTHER_PORT}", f"{api}:443"):
        assert "x509" not in said[place]
        assert "deadline exceeded" in said[place] or "connect" in said[place]


def hooked(tenant: Tenant, place: str) -> str:
    """What the tenant's API server reports about a webhook at this address.

    Each webhook has a name of its own, because the API server may still call a deleted one for a moment.
    """
    name = f"out-{uuid.uuid4().hex[:8]}.example.org"
    hook = {
        "name": name,
        "clientConfig": {"url": f"https://{place}/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 3,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    tenant.api.create(kind | {"metadata": {"name": "out"}, "webhooks": [hook]})

    def probe() -> str:
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "out", "namespace": "default"}}
        try:
            tenant.api.create(body | {"spec": {"ports": [{"port": 80}]}})
        except ApiError as error:
            if name not in error.message:
                raise NotYetError(error.message) from error
            return error.message
        tenant.api.delete("Service", "out", "default")
        raise NotYetError("not called yet")

    try:
        return until("the webhook to be called", probe, seconds=30)
    finally:
        tenant.api.delete("ValidatingWebhookConfiguration", "out")


def test_no_tenant_has_the_credential(host: Api, both: tuple[Tenant, Tenant]) -> None:
    tenant = both[0]
    found = tenants.wait_condition(host, tenant.name, "SharesApplied", status="False", reason="ShareUnavailable")
    assert "bulkhead.dev/audit-receiver" in found["message"]
    for secret in tenant.api.list("Secret"):
        assert base64.b64encode(b"first").decode() not in json.dumps(secret)
    # The positive control: the plane has the Secret, where no pod of the tenant runs.
    there = host.get("Secret", "audit-receiver", tenant.plane)
    assert there["data"]["token"] == base64.b64encode(b"first").decode()
    assert host.find("Secret", "audit-receiver", tenant.work) is None


def test_another_credential_restarts_nothing(host: Api, both: tuple[Tenant, Tenant]) -> None:
    tenant = both[0]
    before = host.get("Pod", "plane-0", tenant.plane)
    host.apply(receiver.credential("second"))

    def probe() -> None:
        tenants.hurry(host, tenant.name)
        workloads.expect(arrives(write(tenant))[2] == "second", "the former token")

    # The kubelet writes the file within 90 s, here at once, and the API server reads it once a minute.
    until("the other token to be used", probe, seconds=240, interval=2)
    after = host.get("Pod", "plane-0", tenant.plane)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert workloads.restarts(after) == workloads.restarts(before)


def told(host: Api, tenant: Tenant, status: str) -> Obj:
    """Wait for a verdict on the deliveries. The controller asks a plane for its losses once a minute at most."""

    def probe() -> Obj:
        tenants.look(host, tenant.name)
        found: Obj = tenants.conditions(host.get("Tenant", tenant.name)).get("AuditDelivered", {})
        workloads.expect(found.get("status") == status, str(found))
        return found

    return until(f"{tenant.name}: AuditDelivered={status}", probe, seconds=300, interval=5.0)


def test_a_receiver_that_is_gone_costs_events_and_no_request(host: Api, both: tuple[Tenant, Tenant]) -> None:
    tenant = both[1]
    told(host, tenant, "True")
    host.delete("Pod", "receiver", SPACE, grace=0)
    last = [write(tenant) for _ in range(200)][-1]
    found = told(host, tenant, "False")
    assert found["reason"] == "EventsLost"
    assert "were not accepted in 5 attempts" in found["message"]
    assert tenants.is_ready(host.get("Tenant", tenant.name))
    out = commands.bulkhead("audit", tenant.name, "--limit", "5000", "-o", "json", kubeconfig=machine.KUBECONFIG).out
    assert last in out
    host.apply(receiver.pod())
    arrives_sometime(tenant)
