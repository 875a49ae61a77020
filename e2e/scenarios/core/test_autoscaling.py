"""A HorizontalPodAutoscaler of a tenant: its Deployment grows while its pods are busy and shrinks when they are not."""

from e2e import workloads
from e2e.api import Obj
from e2e.commands import kubectl
from e2e.poll import until
from e2e.tenants import Tenant
from e2e.workloads import is_ready

# Busy until the test creates the file.
BUSY = ("sh", "-c", "while [ ! -e /rest ]; do :; done; sleep 3600")
MOST = 3


def autoscaler(name: str, namespace: str) -> Obj:
    at_once = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": MOST, "periodSeconds": 5}]}
    target = {"type": "Utilization", "averageUtilization": 50}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": MOST,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            "behavior": {"scaleUp": at_once, "scaleDown": at_once},
        },
    }


def test_a_deployment_grows_while_it_is_busy_and_shrinks_when_it_rests(alice: Tenant, space: str) -> None:
    spec = workloads.pod_spec(BUSY)
    spec["containers"][0]["resources"] = {
        "requests": {"cpu": "20m", "memory": "16Mi"},
        "limits": {"cpu": "60m", "memory": "64Mi"},
    }
    alice.api.create(workloads.deployment("busy", 1, spec, namespace=space))
    workloads.wait_available(alice.api, "busy", 1, namespace=space)
    alice.api.create(autoscaler("busy", space))

    def running() -> list[str]:
        pods = alice.api.list("Pod", space, labels="app=busy")
        return [pod["metadata"]["name"] for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]

    def count(wanted: int) -> None:
        status = alice.api.get("HorizontalPodAutoscaler", "busy", space).get("status", {})
        workloads.expect(len(running()) == wanted == status.get("currentReplicas"), f"{running()}; {status}")

    until("the busy Deployment to grow", lambda: count(MOST), seconds=150, interval=1.0)
    for name in running():
        kubectl(alice.kubeconfig, "exec", "-n", space, name, "--", "touch", "/rest")
    until("the Deployment at rest to shrink", lambda: count(1), seconds=120, interval=1.0)
