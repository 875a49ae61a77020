"""Limits hold: under concurrent creates, after pods end, when the limit changes, and for what a tenant does not mention."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e import tenants, workloads
from e2e.api import Api, Obj
from e2e.fleet import Fleet
from e2e.names import GPU
from e2e.poll import holds, until
from e2e.scenarios.core.shared import of_its_own_class as ahead
from e2e.tenants import Tenant

LIMIT = 4
SHARE = {"cpu": {"nominal": 2}, "memory": {"nominal": "8192Mi"}, "requests.storage": {"nominal": "1Gi"}}


@pytest.fixture
def tenant(request: pytest.FixtureRequest, host: Api, fleet: Fleet) -> Iterator[Tenant]:
    """A tenant with the quota that the test names by `@pytest.mark.quota`; it has no pods, and leaves none."""
    found = fleet.take(ahead(fleet))
    (mark,) = request.node.iter_markers("quota")
    tenants.give_quota(host, found.name, mark.kwargs)
    yield found
    tenants.empty(host, found)


@pytest.mark.quota(resources={GPU: {"nominal": LIMIT}})
def test_item_50_ten_concurrent_creates_never_exceed_the_limit(host: Api, tenant: Tenant) -> None:
    wanted = [f"one-{number}" for number in range(10)]
    spec = workloads.pod_spec(gpus=1, where=workloads.SIMULATED)
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda name: tenant.api.create(workloads.pod(name, spec)), wanted))

    def as_many() -> None:
        pods = tenant.api.list("Pod", "default")
        running = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
        refused = [pod for pod in pods if (workloads.condition(pod, "PodScheduled") or {}).get("reason") == "QuotaExceeded"]
        workloads.expect(len(running) == LIMIT and len(refused) == 10 - LIMIT, f"{len(running)} run, {len(refused)} refused")

    until("as many pods to run as the limit allows", as_many, seconds=90)
    holds("the limit", lambda: within_limit(host, tenant, LIMIT), seconds=3)

    running = next(pod for pod in tenant.api.list("Pod", "default") if pod["status"].get("phase") == "Running")
    tenant.api.delete("Pod", running["metadata"]["name"], "default", grace=0)
    until("a waiting pod to take the place of the one that went", lambda: counted(tenant, LIMIT), seconds=60)
    holds("the limit", lambda: within_limit(host, tenant, LIMIT), seconds=2)

    before = still(host, tenant)
    host.patch("Tenant", tenant.name, {"spec": {"quota": {"resources": {GPU: {"nominal": LIMIT + 2}}}}})
    until("more pods to run under a raised limit", lambda: counted(tenant, LIMIT + 2), seconds=60)
    until("the status to show it", lambda: status_shows(host, tenant.name, f"{LIMIT + 2}/{LIMIT + 2}"), seconds=60)
    # No part of the plane has restarted for it, nor the syncer, and the Tenant was Ready all the time.
    assert still(host, tenant) == before


def still(host: Api, tenant: Tenant) -> dict[str, str]:
    """Values that change if a part of the plane restarts, or if the Tenant is not Ready for a moment."""
    pods = {pod["metadata"]["name"]: pod for pod in host.list("Pod", tenant.plane)}
    assert any(name.startswith("syncer-") for name in pods), f"no syncer among {sorted(pods)}"
    starts = {
        name: sum(container["restartCount"] for container in pod["status"]["containerStatuses"]) for name, pod in pods.items()
    }
    ready = tenants.conditions(host.get("Tenant", tenant.name))["Ready"]
    return {name: f"{pod['metadata']['uid']} started again {starts[name]} times" for name, pod in pods.items()} | {
        "Ready": f"{ready['status']} since {ready['lastTransitionTime']}"
    }


@pytest.mark.quota(resources={GPU: {"nominal": 6}})
def test_a_pod_larger_than_what_is_left_waits_and_a_smaller_one_runs(host: Api, tenant: Tenant) -> None:
    for name, gpus in {"first": 4, "too-big": 4, "fits": 2}.items():
        tenant.api.create(workloads.pod(name, workloads.pod_spec(gpus=gpus, where=workloads.SIMULATED)))
        if name == "too-big":
            workloads.wait_refused(tenant.api, name, "QuotaExceeded")
        else:
            workloads.wait_running(tenant.api, name)
    within_limit(host, tenant, 6)
    tenant.api.delete("Pod", "first", "default", grace=0)
    workloads.wait_running(tenant.api, "too-big")


@pytest.mark.quota(objects={"pods": 100})
def test_a_tenant_whose_quota_names_no_gpus_has_none(host: Api, tenant: Tenant) -> None:
    names = [f"greedy-{number}" for number in range(3)]
    for name in names:
        tenant.api.create(workloads.pod(name, workloads.pod_spec(gpus=8, where=workloads.SIMULATED)))
    for name in names:
        workloads.wait_refused(tenant.api, name, "QuotaExceeded")
    holds("no GPU", lambda: within_limit(host, tenant, 0), seconds=3)

    def none() -> None:
        hard = host.get("ResourceQuota", "tenant-quota", tenant.work)["status"].get("hard", {})
        workloads.expect(hard.get(f"requests.{GPU}") == "0", str(hard))
        gpus = host.get("Tenant", tenant.name)["status"].get("gpus", {})
        workloads.expect(gpus.get("summary") == "0/0", str(gpus))
        shown = [node["status"].get("allocatable", {}).get(GPU, "0") for node in tenant.api.list("Node")]
        workloads.expect(set(shown) <= {"0"}, str(shown))

    until("quota, status and nodes to say none", none, seconds=30)


@pytest.mark.quota(resources={GPU: {"nominal": 1000}})
def test_a_limit_that_the_host_spells_in_thousands_is_a_limit_like_any_other(host: Api, tenant: Tenant) -> None:
    tenant.api.create(workloads.pod("one", workloads.pod_spec(gpus=1, where=workloads.SIMULATED)))
    workloads.wait_running(tenant.api, "one")
    until("the status to show it", lambda: status_shows(host, tenant.name, "1/1000"), seconds=60)


def asking(name: str, **requests: str) -> Obj:
    """A pod on simulated nodes with this request and no limit."""
    spec = workloads.pod_spec(where=workloads.SIMULATED)
    spec["containers"][0]["resources"] = {"requests": requests}
    return workloads.pod(name, spec)


@pytest.mark.quota(resources=SHARE)
def test_a_tenant_without_gpus_has_its_share_of_cpu_memory_and_storage_and_no_more(host: Api, tenant: Tenant) -> None:
    for name, requests, reason, said in (
        ("two", {"cpu": "2001m"}, "QuotaExceeded", "asked for 2001m cpu"),
        ("large", {"memory": "9Gi"}, "QuotaExceeded", "of 8Gi are in use"),
        ("never", {"cpu": "300"}, "TooLarge", "one pod may request at most 256"),
    ):
        tenant.api.create(asking(name, **requests))
        message = workloads.wait_refused(tenant.api, name, reason)["message"]
        workloads.expect(said in message, message)
    tenant.api.create(asking("fits", cpu="1", memory="6Gi"))
    virtual = workloads.wait_running(tenant.api, "fits")
    there = workloads.host_pod_of(host, virtual, tenant.work)["spec"]["containers"][0]["resources"]
    workloads.expect("limits" not in there, str(there))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "900Ti"}}}
    meta = {"name": "all-of-it", "namespace": "default"}
    tenant.api.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})

    def reported() -> None:
        events = [event for event in tenant.api.list("Event", "default") if event["involvedObject"]["name"] == "all-of-it"]
        workloads.expect(any("900Ti" in event.get("message", "") for event in events), str(events))

    until("the claim's owner to read why there is no volume", reported, seconds=30)


def within_limit(host: Api, tenant: Tenant, limit: int) -> None:
    used = sum(
        workloads.gpus_of(pod) for pod in host.list("Pod", tenant.work) if pod["status"].get("phase") in {"Pending", "Running"}
    )
    workloads.expect(used <= limit, f"{used} GPUs on the host, the limit is {limit}")


def counted(tenant: Tenant, wanted: int) -> None:
    phases = [pod["status"].get("phase") for pod in tenant.api.list("Pod", "default")]
    workloads.expect(phases.count("Running") == wanted, str(phases))


def status_shows(host: Api, name: str, summary: str) -> None:
    gpus = host.get("Tenant", name).get("status", {}).get("gpus", {})
    workloads.expect(gpus.get("summary") == summary, str(gpus))
