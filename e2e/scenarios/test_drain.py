"""`kubectl drain` of a tenant on a node that all tenants share: its own pods go and stay away, and nobody else notices."""

from e2e import machine, workloads
from e2e.api import Api
from e2e.commands import kubectl
from e2e.poll import until
from e2e.tenants import Tenant


def test_item_37_58_a_drained_node_stays_empty_until_uncordoned(host: Api, alice: Tenant, bob: Tenant, space: str) -> None:
    alice.api.create(workloads.deployment("moving", 1, workloads.pod_spec(), namespace=space))
    workloads.wait_available(alice.api, "moving", 1, namespace=space)
    drain = ("drain", machine.NODE, "--pod-selector=app=moving", "--ignore-daemonsets", "--timeout=60s")
    kubectl(alice.kubeconfig, *drain, seconds=90)
    try:

        def waits() -> None:
            pods = [pod for pod in alice.api.list("Pod", space) if not pod["metadata"].get("deletionTimestamp")]
            told = [str((workloads.condition(pod, "PodScheduled") or {}).get("message")) for pod in pods]
            kept = len(told) == 1 and f"cordoned in this cluster: {machine.NODE}" in told[0]
            workloads.expect(kept, f"{told}")

        until("the next pod to wait for the cordon", waits, seconds=40)
        assert host.get("Node", machine.NODE)["spec"].get("unschedulable") is None
        bob.api.create(workloads.pod("undisturbed"))
        workloads.wait_running(bob.api, "undisturbed")
        bob.api.delete("Pod", "undisturbed", "default")
    finally:
        kubectl(alice.kubeconfig, "uncordon", machine.NODE)
    workloads.wait_available(alice.api, "moving", 1, namespace=space)
