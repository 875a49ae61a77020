"""The status of a pod as a kubelet reports it."""

from bulkhead.api.objects import Obj


def pod_status(phase: str = "Running") -> Obj:
    """Of a pod with one container, which runs or has ended."""
    now = "2026-01-01T00:00:00Z"
    ready = "True" if phase == "Running" else "False"
    running = (
        {"running": {"startedAt": now}}
        if phase == "Running"
        else {"terminated": {"exitCode": 0, "startedAt": now, "finishedAt": now}}
    )
    return {
        "phase": phase,
        "startTime": now,
        "podIP": "10.244.0.5",
        "podIPs": [{"ip": "10.244.0.5"}],
        "hostIP": "172.31.255.1",
        "hostIPs": [{"ip": "172.31.255.1"}],
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": now},
            {"type": "Ready", "status": ready, "lastTransitionTime": now},
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": "busybox:1.36",
                "imageID": "x",
                "ready": phase == "Running",
                "restartCount": 0,
                "state": running,
            }
        ],
    }
