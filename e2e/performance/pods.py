"""The pods of the benchmarks: one container, on a simulated node. Pure."""

from typing import Final

from bulkhead.api.objects import Obj

SIMULATED: Final = "bulkhead.dev/simulated"
TAINT: Final = "kwok.x-k8s.io/node"
RUNNING: Final[Obj] = {
    "phase": "Running",
    "startTime": "2026-01-01T00:00:00Z",
    "podIP": "10.244.0.5",
    "podIPs": [{"ip": "10.244.0.5"}],
    "hostIP": "172.31.255.1",
    "hostIPs": [{"ip": "172.31.255.1"}],
    "conditions": [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    ],
    "containerStatuses": [
        {
            "name": "main",
            "image": "busybox:1.36",
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
    ],
}


def pod(name: str, namespace: str) -> Obj:
    """A pod that runs at once on any node for which kwok plays the kubelet, and on no other."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "bench"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {SIMULATED: "true"},
            "tolerations": [{"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [
                {
                    "name": "main",
                    "image": "busybox:1.36",
                    "command": ["sleep", "3600"],
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                }
            ],
        },
    }
