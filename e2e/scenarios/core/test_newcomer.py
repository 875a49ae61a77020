"""All that a new user sees: two Ready tenants, GPU work, names, logs, exec, a CRD, a quota."""

import json

import pytest

from e2e import commands, machine, tenants, workloads
from e2e.api import Api, ApiError
from e2e.commands import kubectl
from e2e.names import GPU
from e2e.poll import holds, until
from e2e.scenarios.core.conftest import QUOTA
from e2e.tenants import Tenant


def test_tenants_are_ready_with_all_conditions_true(host: Api, alice: Tenant, bob: Tenant) -> None:
    for tenant in (alice, bob):
        current = tenants.conditions(host.get("Tenant", tenant.name))
        wanted = ["Ready", "NamespacesReady", "PKIReady", "PlaneReady", "SyncerReady", "QuotaApplied", "EgressApplied"]
        assert {kind: current[kind]["status"] for kind in wanted} == dict.fromkeys(wanted, "True")


def test_the_kubeconfig_is_a_tenant_admin_and_never_a_system_master(alice: Tenant) -> None:
    groups = kubectl(alice.kubeconfig, "auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}").out
    assert "bulkhead:host-admins" in groups
    assert "system:masters" not in groups
    assert kubectl(alice.kubeconfig, "auth", "can-i", "*", "*", check=False).out.strip() == "yes"


def test_a_gpu_job_completes_in_a_real_container_with_device_files(host: Api, alice: Tenant, space: str) -> None:
    command = ("sh", "-c", "ls /dev/nvidia[0-9]*")
    alice.api.create(workloads.job("gpu", workloads.pod_spec(command, gpus=2, restart="Never"), namespace=space))
    workloads.wait_job(alice.api, "gpu", namespace=space)
    pod = alice.api.list("Pod", space, labels="app=gpu")[0]
    devices = kubectl(alice.kubeconfig, "-n", space, "logs", pod["metadata"]["name"]).out.split()
    assert len(devices) == 2
    mirror = workloads.host_pod_of(host, pod, alice.work)
    assert mirror["spec"]["nodeName"] == machine.NODE == pod["spec"]["nodeName"]


def test_gpu_pods_run_on_simulated_nodes(host: Api, alice: Tenant, space: str) -> None:
    alice.api.create(workloads.deployment("train", 2, workloads.pod_spec(gpus=2, where=workloads.SIMULATED), namespace=space))
    workloads.wait_available(alice.api, "train", 2, namespace=space)
    for pod in alice.api.list("Pod", space, labels="app=train"):
        node = host.get("Node", pod["spec"]["nodeName"])
        assert node["metadata"]["labels"]["bulkhead.dev/simulated"] == "true"
        assert workloads.host_pod_of(host, pod, alice.work)["spec"]["nodeName"] == pod["spec"]["nodeName"]


def test_a_service_is_reached_by_its_name_and_logs_and_exec_work(alice: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("web", workloads.pod_spec(workloads.web_server("hello"), ports=[8080]), namespace=space))
    alice.api.create(workloads.service("web", "web", 8080, namespace=space))
    alice.api.create(workloads.pod("client", namespace=space))
    for name in ("web", "client"):
        workloads.wait_running(alice.api, name, namespace=space)
    for address in ("web:8080", f"web.{space}:8080", f"web.{space}.svc.cluster.local:8080"):
        until(f"http://{address} to answer", lambda address=address: ask(alice, space, address), seconds=20)  # type: ignore[misc]
    assert kubectl(alice.kubeconfig, "-n", space, "exec", "web", "--", "hostname").out.strip() == "web"


def test_a_custom_kind_of_one_tenant_is_unknown_to_the_other(alice: Tenant, bob: Tenant) -> None:
    alice.api.apply(workloads.custom_resource("things", "alice.example.com", "Thing"))
    path = "/apis/alice.example.com/v1/things"
    until("the kind to be served", lambda: alice.api.text(path), seconds=20)
    with pytest.raises(ApiError) as refusal:
        bob.api.text(path)
    assert refusal.value.status == 404
    assert bob.api.find("CustomResourceDefinition", "things.alice.example.com") is None
    alice.api.delete("CustomResourceDefinition", "things.alice.example.com")


def test_a_pod_over_the_quota_stays_pending_and_says_why(host: Api, alice: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("too-much", workloads.pod_spec(gpus=7, where=workloads.SIMULATED), namespace=space))
    refusal = workloads.wait_refused(alice.api, "too-much", "QuotaExceeded", namespace=space)
    for word in (f"{QUOTA}", "7", GPU):  # the limit, the request, the resource
        assert word in refusal["message"]
    assert alice.api.get("Pod", "too-much", space)["status"]["phase"] == "Pending"
    uid = alice.api.get("Pod", "too-much", space)["metadata"]["uid"]
    assert host.list("Pod", alice.work, labels=f"bulkhead.dev/virtual-uid={uid}") == []
    until("an event that tells the reason", lambda: refusal_told(alice, space, "too-much"), seconds=20)


def test_the_nodes_never_show_more_gpus_than_the_tenant_may_use(alice: Tenant) -> None:
    def total(field: str) -> int:
        return sum(int(node["status"].get(field, {}).get(GPU, 0)) for node in alice.api.list("Node"))

    def shown(least: int) -> None:
        found = [total(field) for field in ("allocatable", "capacity")]
        workloads.expect(all(least <= item <= QUOTA for item in found), f"{found}, not {QUOTA}")

    # GPUs that a pod releases appear on its node, and disappear from others, a moment later.
    until("the nodes to show the quota", lambda: shown(QUOTA), seconds=40)
    holds("no more to be shown", lambda: shown(0), seconds=3)


def test_the_command_line_lists_and_describes_tenants_and_connects(alice: Tenant) -> None:
    listed = commands.bulkhead("tenant", "list", kubeconfig=machine.KUBECONFIG).out
    assert alice.name in listed
    described = commands.bulkhead("tenant", "describe", alice.name, kubeconfig=machine.KUBECONFIG).out
    assert "PlaneReady" in described
    binary = commands.tool("kubernetes", "kubectl")
    inside = commands.bulkhead(
        "connect", alice.name, "--", binary, "get", "namespace", "default", "-o", "json", kubeconfig=machine.KUBECONFIG
    )
    assert json.loads(inside.out)["metadata"]["name"] == "default"


def ask(tenant: Tenant, namespace: str, address: str) -> str:
    wget = ("exec", "client", "--", "timeout", "3", "wget", "-q", "-O", "-", f"http://{address}")
    answer = kubectl(tenant.kubeconfig, "-n", namespace, *wget, check=False)
    workloads.expect(answer.code == 0, answer.text)
    return answer.out


def refusal_told(tenant: Tenant, namespace: str, pod: str) -> None:
    events = tenant.api.list("Event", namespace, fields=f"involvedObject.name={pod}")
    reasons = [event.get("reason") for event in events]
    workloads.expect("QuotaExceeded" in reasons, f"{reasons}")
