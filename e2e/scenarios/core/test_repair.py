"""Drift: the controller's objects return after a deletion, and the tenant works as before."""

import ipaddress

import pytest

from e2e import tenants, workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.fleet import Fleet
from e2e.poll import until
from e2e.scenarios.core.shared import damaged as ahead
from e2e.tenants import Tenant

# The two copies of the key that encrypts the plane's data: neither returns if both are deleted.
KEYS = ("pki-apiserver", "pki-service-account")
# Everything of a tenant except its CAs' keys: their loss renews all certificates, and is tested last.
KINDS = (
    "ConfigMap",
    "ServiceAccount",
    "RoleBinding",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "Service",
    "Deployment",
    "StatefulSet",
    "Secret",
)


@pytest.fixture(scope="module")
def drifting(fleet: Fleet) -> Tenant:
    return fleet.take(ahead(fleet))


def owned(host: Api, tenant: Tenant, kind: str) -> list[Obj]:
    """The controller's objects: labelled as Bulkhead's for this tenant, and not created by the syncer."""
    labels = f"app.kubernetes.io/managed-by=bulkhead,bulkhead.dev/tenant={tenant.name},!bulkhead.dev/managed-by"
    return [item for space in (tenant.plane, tenant.work) for item in host.list(kind, space, labels=labels)]


@pytest.mark.parametrize("kind", KINDS)
def test_deleted_objects_return(host: Api, drifting: Tenant, kind: str) -> None:
    names = {item["metadata"]["name"]: item for item in owned(host, drifting, kind)}
    before = [item for name, item in names.items() if not name.startswith("pki-ca-") and name != KEYS[1]]
    assert before, f"the controller made no {kind}"
    for item in before:
        host.delete(kind, item["metadata"]["name"], item["metadata"]["namespace"])
    for item in before:
        until(f"{kind} {item['metadata']['name']} to return", lambda item=item: returned(host, kind, item), seconds=60)  # type: ignore[misc]
    until("the plane to run as it is ordered", lambda: rolled_out(host, drifting), seconds=120)
    tenants.wait_ready(host, [drifting.name], seconds=120)


def put(tenant: Tenant, obj: Obj) -> None:
    """Create it in the plane as soon as the plane accepts it: new certificates come after everything else has returned."""
    until(f"the plane to take {obj['metadata']['name']}", lambda: tenant.api.apply(obj), seconds=120)


def test_no_other_key_is_drawn_over_the_planes_data(host: Api, drifting: Tenant) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kept", "namespace": "default"},
        "stringData": {"a": "b"},
    }
    put(drifting, secret)
    copies = [host.get("Secret", name, drifting.plane) for name in KEYS]

    def lost() -> str:
        # A reconcile in between would restore one copy from the other: both must be gone at once.
        for name in KEYS:
            if host.find("Secret", name, drifting.plane) is not None:
                host.delete("Secret", name, drifting.plane)
        ready = tenants.conditions(host.get("Tenant", drifting.name))["Ready"]
        workloads.expect(ready["reason"] == "KeysLost", str(ready))
        return str(ready["message"])

    said = until("the keys to be missed", lost, seconds=60)
    assert all(name in said for name in KEYS)
    assert [host.find("Secret", name, drifting.plane) for name in KEYS] == [None, None]
    # The way back: either copy is enough.
    meta = {key: copies[1]["metadata"][key] for key in ("name", "namespace", "labels")}
    host.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": copies[1]["data"], "type": copies[1]["type"]})
    for copy in copies:
        name = copy["metadata"]["name"]
        until(f"Secret {name} to return", lambda name=name: host.get("Secret", name, drifting.plane), seconds=60)  # type: ignore[misc]
    tenants.wait_ready(host, [drifting.name], seconds=120)
    before = host.get("Pod", "plane-0", drifting.plane)["metadata"]["uid"]
    host.delete("Pod", "plane-0", drifting.plane, grace=0)
    tenants.wait_other_plane(host, drifting.name, before)
    kept = until("the Secret to be read", lambda: drifting.api.get("Secret", "kept", "default"), seconds=60)
    assert kept["data"] == {"a": "Yg=="}


def test_a_service_range_that_is_deleted_while_it_is_in_use_stays(host: Api, drifting: Tenant) -> None:
    before = host.get("ServiceCIDR", drifting.plane)
    assert host.delete("ServiceCIDR", drifting.plane)

    def seen() -> None:
        meta = host.get("ServiceCIDR", drifting.plane)["metadata"]
        workloads.expect(bool(meta.get("deletionTimestamp")) or meta["uid"] != before["metadata"]["uid"], "nothing was deleted")

    # The host keeps a range in use until it is empty; a recreated one has another UID.
    until("the range to be on its way out, or there again", seen, seconds=60)
    tenants.wait_ready(host, [drifting.name])
    assert host.get("ServiceCIDR", drifting.plane)["spec"] == before["spec"]
    (cidr,) = before["spec"]["cidrs"]
    used = host.get("Service", "plane", drifting.plane)["spec"]["clusterIP"]
    assert ipaddress.ip_address(used) in ipaddress.ip_network(cidr)
    assert drifting.api.ready()


def test_a_deleted_work_namespace_returns_with_its_pods(host: Api, drifting: Tenant) -> None:
    put(drifting, workloads.pod("survivor"))
    workloads.wait_running(drifting.api, "survivor")
    before = host.get("Namespace", drifting.work)["metadata"]["uid"]
    host.delete("Namespace", drifting.work)

    def probe() -> None:
        current = host.get("Namespace", drifting.work)
        workloads.expect(current["metadata"]["uid"] != before, "the former namespace is still there")
        workloads.expect(bool(host.list("ResourceQuota", drifting.work)), "no quota yet")
        workloads.expect(bool(host.list("NetworkPolicy", drifting.work)), "no policies yet")

    until("the work namespace to return", probe, seconds=90)
    tenants.wait_ready(host, [drifting.name], seconds=120)
    put(drifting, workloads.pod("after"))
    workloads.wait_running(drifting.api, "after", seconds=60)


def test_item_89_a_killed_plane_comes_back_with_its_data(host: Api, drifting: Tenant) -> None:
    kept = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"}, "data": {"a": "b"}}
    put(drifting, kept)
    before = host.get("Pod", "plane-0", drifting.plane)["metadata"]["uid"]
    host.delete("Pod", "plane-0", drifting.plane, grace=0)
    tenants.wait_other_plane(host, drifting.name, before)
    until("the ConfigMap to be readable", lambda: drifting.api.get("ConfigMap", "kept", "default"), seconds=30)


def test_a_name_made_after_its_plane_was_away_resolves(host: Api, drifting: Tenant) -> None:
    put(drifting, workloads.pod("asking"))
    workloads.wait_running(drifting.api, "asking")
    before = host.get("Pod", "plane-0", drifting.plane)["metadata"]["uid"]
    host.delete("Pod", "plane-0", drifting.plane)
    tenants.wait_other_plane(host, drifting.name, before)
    put(drifting, workloads.service("afterwards", "asking", 80))
    lookup = ("exec", "asking", "--", "nslookup", "afterwards.default.svc.cluster.local")

    def probe() -> None:
        outcome = kubectl(drifting.kubeconfig, *lookup, check=False)
        workloads.expect(outcome.code == 0, outcome.text)

    until("the new name to resolve", probe, seconds=30)

    def follows() -> None:
        statuses = host.get("Pod", "plane-0", drifting.plane)["status"]["containerStatuses"]
        (status,) = [item for item in statuses if item["name"] == "kube-apiserver"]
        since = status["state"].get("running", {}).get("startedAt")
        template = host.get("Deployment", "dns", drifting.plane)["spec"]["template"]
        noted = template["metadata"]["annotations"].get("bulkhead.dev/plane-since")
        workloads.expect(bool(since) and noted == since, f"{noted}, not {since}")

    until("the DNS to follow the API server that runs now, and not by luck", follows, seconds=60)


def test_the_drifting_tenant_goes_without_a_trace(host: Api, drifting: Tenant) -> None:
    tenants.remove(host, drifting.name)


def returned(host: Api, kind: str, before: Obj) -> None:
    current = host.get(kind, before["metadata"]["name"], before["metadata"]["namespace"])
    fresh = current["metadata"]["uid"] != before["metadata"]["uid"]
    workloads.expect(fresh and not current["metadata"].get("deletionTimestamp"), "the deleted object is still there")


def rolled_out(host: Api, tenant: Tenant) -> None:
    """New certificates need a new pod; the Tenant stays Ready until the former one ends."""
    found = host.get("StatefulSet", "plane", tenant.plane)
    status = found["status"]
    seen = status.get("observedGeneration") == found["metadata"]["generation"]
    current = status.get("currentRevision") == status.get("updateRevision")
    workloads.expect(seen and current and status.get("readyReplicas") == 1, "the plane is being replaced")
