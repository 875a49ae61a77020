"""Policies of tenants, enforced on the host: NetworkPolicies separate pods, budgets delay evictions."""

from functools import partial

import pytest

from e2e import workloads
from e2e.api import Api, ApiError, Obj
from e2e.commands import kubectl
from e2e.poll import holds, until
from e2e.tenants import Tenant
from e2e.workloads import is_ready

PORT = 8080


def reaches(tenant: Tenant, space: str, pod: str, address: str, *, wanted: bool) -> None:
    wget = ("exec", pod, "--", "timeout", "2", "wget", "-q", "-O", "-", f"http://{address}:{PORT}")
    done = kubectl(tenant.kubeconfig, "-n", space, *wget, check=False)
    # A policy drops packets, and `timeout` ends the wait with this code; any other failure has another cause.
    workloads.expect("served" in done.out if wanted else done.code == 143, f"{pod} -> {address}: {done.code}: {done.text}")


def network_policy(space: str, allowed: str) -> Obj:
    rule = {"from": [{"podSelector": {"matchLabels": {"app": allowed}}}], "ports": [{"port": PORT}]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "db", "namespace": space},
        "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"], "ingress": [rule]},
    }


def test_item_82_a_policy_lets_in_only_the_pods_that_it_names(alice: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("db", workloads.pod_spec(workloads.web_server("served"), ports=[PORT]), namespace=space))
    for name in ("friend", "other"):
        alice.api.create(workloads.pod(name, namespace=space))
    for name in ("friend", "other"):
        workloads.wait_running(alice.api, name, namespace=space)
    address = str(workloads.wait_running(alice.api, "db", namespace=space)["status"]["podIP"])
    friend, other = (partial(reaches, alice, space, name, address) for name in ("friend", "other"))
    until("both to reach the server at first", lambda: (friend(wanted=True), other(wanted=True)), seconds=30)
    alice.api.create(network_policy(space, "friend"))
    until("the other to be kept away", lambda: other(wanted=False), seconds=20)
    until("the friend to be let in", lambda: friend(wanted=True), seconds=20)
    holds("the other to stay away", lambda: other(wanted=False), seconds=2)
    alice.api.delete("NetworkPolicy", "db", space)
    until("both to reach the server again", lambda: (friend(wanted=True), other(wanted=True)), seconds=20)


@pytest.mark.parametrize("name", ["system-cluster-critical", "system-node-critical"])
def test_item_45_a_critical_pod_runs_as_any_other_of_its_tenant(alice: Tenant, host: Api, space: str, name: str) -> None:
    alice.api.create(workloads.pod("plain", namespace=space))
    alice.api.create(workloads.pod("critical", workloads.pod_spec(priorityClassName=name), namespace=space))
    plain, critical = (
        workloads.host_pod_of(host, workloads.wait_running(alice.api, item, namespace=space), alice.work)["spec"]
        for item in ("plain", "critical")
    )
    assert (critical["priorityClassName"], critical["priority"]) == (plain["priorityClassName"], plain["priority"])

    def told() -> None:
        events = [event for event in alice.api.list("Event", space) if event["reason"] == "PriorityMapped"]
        workloads.expect([event["involvedObject"]["name"] for event in events] == ["critical"], str(events))

    until("an event that says so", told, seconds=30)


def evict(host: Api, name: str, namespace: str) -> None:
    """The eviction that `kubectl drain` requests."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    host.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body=body)


def test_item_84_a_budget_of_the_tenant_holds_up_the_hosts_evictions(alice: Tenant, host: Api, space: str) -> None:
    alice.api.create(workloads.deployment("web", 2, workloads.pod_spec(), namespace=space))
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": space},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": "web"}}},
    }
    alice.api.create(budget)
    workloads.wait_available(alice.api, "web", 2, namespace=space)

    def counted() -> str:
        pods = [pod for pod in host.list("Pod", alice.work, labels="app=web") if is_ready(pod)]
        budgets = host.list("PodDisruptionBudget", alice.work)
        healthy = [item.get("status", {}).get("currentHealthy") for item in budgets]
        all_counted = healthy == [2] and budgets[0]["spec"]["minAvailable"] == 2
        workloads.expect(len(pods) == 2 and all_counted, f"{len(pods)} pods, {healthy}")
        return str(pods[0]["metadata"]["name"])

    name = until("the host's budget to count", counted, seconds=40)
    with pytest.raises(ApiError) as refused:
        evict(host, name, alice.work)
    assert refused.value.status == 429
    assert "disruption budget" in refused.value.message
    alice.api.delete("PodDisruptionBudget", "web", space)

    def evicted() -> None:
        workloads.expect(not host.list("PodDisruptionBudget", alice.work), "budget still there")
        evict(host, name, alice.work)

    until("the eviction without a budget", evicted, seconds=20)
