"""`kubectl top`: what the host measured of a tenant's own pods, and of no other pods, through the tenant's own API."""

from e2e import machine, workloads
from e2e.commands import kubectl
from e2e.poll import until
from e2e.tenants import Tenant

BUSY = ("sh", "-c", "while :; do :; done")


def top(tenant: Tenant, *words: str) -> dict[str, list[str]]:
    """The first word of each line -> the other words."""
    done = kubectl(tenant.kubeconfig, "top", *words, "--no-headers", check=False)
    workloads.expect(done.code == 0, done.text)  # nothing is measured yet
    return {line.split()[0]: line.split()[1:] for line in done.out.splitlines() if line.strip()}


def test_item_87_kubectl_top_tells_of_the_tenants_own_pods_alone(alice: Tenant, bob: Tenant, space: str) -> None:
    spec = workloads.pod_spec(BUSY)
    spec["containers"][0]["resources"]["limits"]["cpu"] = "200m"
    alice.api.create(workloads.pod("busy", spec, namespace=space, labels={"role": "busy"}))
    alice.api.create(workloads.pod("idle", namespace=space))
    # It is measured while alice's pods are.
    bob.api.create(workloads.pod("bobs-own"))
    for name in ("busy", "idle"):
        workloads.wait_running(alice.api, name, namespace=space)

    def measured() -> None:
        found = top(alice, "pods", "-n", space)
        workloads.expect(found.keys() == {"busy", "idle"}, f"measured so far: {found}")
        workloads.expect(int(found["busy"][0].removesuffix("m")) > 50, f"busy does not seem so: {found}")
        # A value of one round may be missing in the next, if the node is busy.
        chosen = top(alice, "pods", "-n", space, "-l", "role=busy")
        workloads.expect(chosen.keys() == {"busy"}, f"by its label: {chosen}")
        containers = top(alice, "pod", "busy", "-n", space, "--containers")
        workloads.expect(containers.get("busy", [""])[0] == "main", f"by container: {containers}")
        nodes = top(alice, "nodes")
        workloads.expect(int(nodes.get(machine.NODE, ["0m"])[0].removesuffix("m")) > 50, f"the node does not seem so: {nodes}")

    until("both pods to be measured", measured, seconds=120, interval=2.0)
    until(
        "bob's own pod to be measured",
        lambda: workloads.expect("bobs-own" in top(bob, "pods"), "bob's own pod is not measured"),
        seconds=120,
        interval=2.0,
    )
    others = kubectl(bob.kubeconfig, "top", "pods", "-A", "--no-headers").out
    assert "bobs-own" in others
    assert "busy" not in others
    bob.api.delete("Pod", "bobs-own", "default", grace=0)
    assert "busy" in kubectl(machine.KUBECONFIG, "top", "pods", "-n", alice.work, "--no-headers").out, "the positive control"


def test_item_87_users_who_may_view_pods_may_see_what_they_use(alice: Tenant, space: str) -> None:
    asked = ("auth", "can-i", "list", "pods.metrics.k8s.io", "-n", space, "--as", "eve")
    assert kubectl(alice.kubeconfig, *asked, check=False).out.strip() == "no"
    kubectl(alice.kubeconfig, "create", "rolebinding", "eve", "--clusterrole=view", "--user=eve", "-n", space)
    until("the right to be there", lambda: _may(alice, *asked), seconds=20)


def _may(tenant: Tenant, *asked: str) -> None:
    workloads.expect(kubectl(tenant.kubeconfig, *asked, check=False).code == 0, "not yet")
