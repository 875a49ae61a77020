"""Nodes that tenants share: no tenant sees what another one uses, and a drain by one does not affect the other."""

import uuid

from e2e import machine, workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.names import GPU
from e2e.poll import until
from e2e.scenarios.core.conftest import QUOTA
from e2e.tenants import Tenant
from e2e.workloads import is_ready


def wait_known(tenant: Tenant, space: str, spec: Obj, words: str) -> None:
    """Wait until a new pod waits with these words; a pod created at once may be judged by the earlier state."""

    def decided(name: str) -> str:
        if (pod := tenant.api.find("Pod", name, space)) is None:
            return "it was placed, and went"
        said = str((workloads.condition(pod, "PodScheduled") or {}).get("message", ""))
        workloads.expect(words in said or bool(pod["spec"].get("nodeName")), workloads.describe(pod))
        return said

    def probe() -> None:
        name = f"asking-{uuid.uuid4().hex[:8]}"
        tenant.api.create(workloads.pod(name, spec, namespace=space))
        said = until("a pod to wait or to be placed", lambda: decided(name), seconds=40)
        tenant.api.delete("Pod", name, space, grace=0)
        workloads.expect(words in said, "it was placed")

    until(f"pods to wait with {words!r}", probe, seconds=60)


def test_item_37_58_a_drained_node_stays_empty_until_uncordoned(host: Api, alice: Tenant, bob: Tenant, space: str) -> None:
    alice.api.create(workloads.deployment("moving", 1, workloads.pod_spec(), namespace=space))
    workloads.wait_available(alice.api, "moving", 1, namespace=space)
    drain = ("drain", machine.NODE, "--pod-selector=app=moving", "--ignore-daemonsets", "--timeout=60s")
    # The cordon comes first: the successor of the drained pod is judged at once.
    kubectl(alice.kubeconfig, "cordon", machine.NODE)
    try:
        wait_known(alice, space, workloads.pod_spec(), f"cordoned in this cluster: {machine.NODE}")
        kubectl(alice.kubeconfig, *drain, seconds=90)

        def waits() -> None:
            found = alice.api.list("Pod", space, labels="app=moving")
            pods = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
            messages = [str((workloads.condition(pod, "PodScheduled") or {}).get("message")) for pod in pods]
            kept = len(messages) == 1 and f"cordoned in this cluster: {machine.NODE}" in messages[0]
            workloads.expect(kept, f"{messages}")

        until("the next pod to wait for the cordon", waits, seconds=40)
        assert host.get("Node", machine.NODE)["spec"].get("unschedulable") is None
        bob.api.create(workloads.pod("undisturbed"))
        workloads.wait_running(bob.api, "undisturbed")
        bob.api.delete("Pod", "undisturbed", "default")
    finally:
        kubectl(alice.kubeconfig, "uncordon", machine.NODE)
    workloads.wait_available(alice.api, "moving", 1, namespace=space)


def test_item_37_a_daemon_set_runs_where_the_tenant_labelled_a_node(alice: Tenant, space: str) -> None:
    label = "scenario.example/role"
    spec = workloads.pod_spec() | {"nodeSelector": {label: "agent"}}
    template = {"metadata": {"labels": {"app": "agents"}}, "spec": spec}
    about = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agents", "namespace": space}}
    alice.api.create(about | {"spec": {"selector": {"matchLabels": {"app": "agents"}}, "template": template}})
    kubectl(alice.kubeconfig, "label", "node", machine.NODE, f"{label}=agent")
    try:

        def runs(count: int) -> None:
            pods = [pod for pod in alice.api.list("Pod", space) if pod["metadata"]["labels"].get("app") == "agents"]
            ready = [pod for pod in pods if is_ready(pod)]
            workloads.expect(len(pods) == len(ready) == count, f"{[workloads.describe(pod) for pod in pods]}")

        until("the agent on the labelled node", lambda: runs(1), seconds=60)
    finally:
        kubectl(alice.kubeconfig, "label", "node", machine.NODE, f"{label}-")
    until("no agent without the label", lambda: runs(0), seconds=60)


def test_item_59_a_taint_of_alices_own_evicts_her_pods_and_no_others(host: Api, alice: Tenant, bob: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("evicted", namespace=space))
    enduring = workloads.pod_spec() | {"tolerations": [{"key": "scenario.example/repair", "operator": "Exists"}]}
    alice.api.create(workloads.pod("enduring", enduring, namespace=space))
    bob.api.create(workloads.pod("bystander"))
    for tenant, name, where in ((alice, "evicted", space), (alice, "enduring", space), (bob, "bystander", "default")):
        workloads.wait_running(tenant.api, name, namespace=where)

    def untouched() -> set[str]:
        pods = (bob.api.get("Pod", "bystander", "default"), alice.api.get("Pod", "enduring", space))
        return {str(pod["metadata"]["uid"]) for pod in pods}

    before = untouched()
    kubectl(alice.kubeconfig, "taint", "node", machine.NODE, "scenario.example/repair=yes:NoExecute")
    try:
        workloads.wait_pod_gone(alice.api, "evicted", namespace=space)
        taints = host.get("Node", machine.NODE)["spec"].get("taints") or []
        assert not [taint for taint in taints if taint["key"].startswith("scenario.example")]
        wait_known(alice, space, workloads.pod_spec(), f"tainted in this cluster: {machine.NODE}")
        alice.api.create(workloads.pod("waits", namespace=space))

        def reported() -> None:
            found = workloads.condition(alice.api.get("Pod", "waits", space), "PodScheduled") or {}
            workloads.expect(f"tainted in this cluster: {machine.NODE}" in str(found.get("message")), f"{found}")

        until("the next pod to wait for the taint", reported, seconds=40)
        assert untouched() == before
    finally:
        kubectl(alice.kubeconfig, "taint", "node", machine.NODE, "scenario.example/repair-")
    workloads.wait_running(alice.api, "waits", namespace=space)
    bob.api.delete("Pod", "bystander", "default")


def test_item_49_what_bob_takes_on_a_node_alice_does_not_see_there(host: Api, alice: Tenant, bob: Tenant) -> None:
    there = int(host.get("Node", machine.NODE)["status"]["allocatable"][GPU])

    def shown() -> int:
        """On this node, once the sum over all nodes is the quota: nodes do not change at the same moment."""
        every = {node["metadata"]["name"]: node["status"] for node in alice.api.list("Node")}
        status = every[machine.NODE]
        assert status["allocatable"][GPU] == status["capacity"][GPU]
        total = sum(int(item["allocatable"][GPU]) for item in every.values())
        workloads.expect(total == QUOTA, f"{total} on all nodes")
        return int(status["allocatable"][GPU])

    before = until("alice's nodes to show alice's quota", shown, seconds=40)
    bob.api.create(workloads.pod("taker", workloads.pod_spec(gpus=4)))
    workloads.wait_running(bob.api, "taker")
    until("alice to see what is left", lambda: workloads.expect(shown() <= there - 4, f"{shown()} of {there}"), seconds=20)
    bob.api.delete("Pod", "taker", "default")
    until("alice to see it again", lambda: workloads.expect(shown() == before, f"{shown()}, not {before}"), seconds=40)


def test_item_39_a_daemon_set_that_tolerates_everything_runs_on_every_node(host: Api, alice: Tenant, space: str) -> None:
    spec = workloads.pod_spec(where={}, tolerations=[{"operator": "Exists"}])
    template = {"metadata": {"labels": {"app": "everywhere"}}, "spec": spec}
    about = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "everywhere", "namespace": space}}
    alice.api.create(about | {"spec": {"selector": {"matchLabels": {"app": "everywhere"}}, "template": template}})

    def everywhere() -> None:
        nodes = {node["metadata"]["name"] for node in alice.api.list("Node")}
        pods = [pod for pod in alice.api.list("Pod", space) if is_ready(pod)]
        workloads.expect(len(nodes) > 1, f"only {nodes}")
        workloads.expect({pod["spec"].get("nodeName") for pod in pods} == nodes, f"{[workloads.describe(pod) for pod in pods]}")

    until("one of its pods on each node", everywhere, seconds=90)
    for pod in host.list("Pod", alice.work):
        assert all(toleration.get("key") for toleration in pod["spec"].get("tolerations") or [])


def test_item_39_a_node_that_an_admin_reserved_stays_free_of_tenants(host: Api, alice: Tenant, space: str) -> None:
    node = host.list("Node", labels="bulkhead.dev/simulated=true")[-1]["metadata"]["name"]
    reserved = "scenario.example/reserved-for"
    kubectl(machine.KUBECONFIG, "taint", "node", node, f"{reserved}=somebody:NoSchedule")
    try:
        asked = [workloads.TOLERATION, {"key": reserved, "operator": "Exists"}]
        spec = workloads.pod_spec(where={"kubernetes.io/hostname": node}, tolerations=asked)
        wait_known(alice, space, spec, f"{reserved} not tolerated as asked")
        alice.api.create(workloads.pod("bold", spec, namespace=space))

        def waits() -> None:
            condition = workloads.condition(alice.api.get("Pod", "bold", space), "PodScheduled") or {}
            workloads.expect(f"{reserved} not tolerated as asked" in str(condition.get("message")), f"{condition}")

        until("the pod to wait and to say why", waits, seconds=40)
    finally:
        kubectl(machine.KUBECONFIG, "taint", "node", node, f"{reserved}-")
    workloads.wait_running(alice.api, "bold", namespace=space)
