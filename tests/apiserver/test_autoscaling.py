"""The controllers of a plane on a real API server: a Deployment follows what its pods use, by the rights that upstream gives.

Metrics are played, and so is the kubelet: pods are Ready as soon as they are made.
"""

import datetime as dt
from collections.abc import AsyncIterator

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    POD_METRICS,
    PODS,
)
from controller.plane.controller_manager import CONTROLLERS
from tests.apiserver.test_sync_metrics import PLAYED
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until

pytestmark = pytest.mark.ledgers

SPACE = "default"
FLAGS = ("--use-service-account-credentials=true", "--horizontal-pod-autoscaler-sync-period=1s")


@pytest.fixture
async def plane(own_server: ApiServer) -> AsyncIterator[Client]:
    """A plane with all of its controllers."""
    flags = (*FLAGS, f"--service-account-private-key-file={own_server.folder / 'sa.key'}")
    own_server.start_controllers(*CONTROLLERS, flags=flags)
    async with Client(own_server.admin, user_agent="tests", field_manager="tests") as client:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, PLAYED)
        yield client


def workload() -> tuple[Obj, Obj]:
    labels = {"app": "web"}
    container = {"name": "main", "image": "web", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    at_once = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 4, "periodSeconds": 1}]}
    autoscaler = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
        ],
        "behavior": {"scaleUp": at_once, "scaleDown": at_once},
    }
    return {"metadata": {"name": "web"}, "spec": deployment}, {"metadata": {"name": "web"}, "spec": autoscaler}


async def play(plane: Client, cpu: str) -> int:
    """Be the kubelet and the metrics-server once; the number of pods there are."""
    now = dt.datetime.now(dt.UTC)
    stamp, before = (when.strftime("%Y-%m-%dT%H:%M:%SZ") for when in (now, now - dt.timedelta(minutes=10)))
    pods = (await plane.list(PODS, SPACE, label_selector="app=web")).items
    for pod in pods:
        name = pod["metadata"]["name"]
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": before}
        status = {"phase": "Running", "startTime": before, "conditions": [ready]}
        await plane.patch(PODS, name, {"status": status}, SPACE, subresource="status")
        body: Obj = {
            "apiVersion": POD_METRICS.api_version,
            "kind": POD_METRICS.kind,
            "metadata": {"name": name, "namespace": SPACE, "labels": {"app": "web"}},
            "timestamp": stamp,
            "window": "15s",
            "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": "8Mi"}}],
        }
        await plane.apply(POD_METRICS, body)
    return len(pods)


async def follows(plane: Client, cpu: str, wanted: int) -> None:
    async def there() -> bool:
        try:
            count = await play(plane, cpu)
        except KubeError:  # a pod went meanwhile
            return False
        told = (await plane.get(HORIZONTAL_POD_AUTOSCALERS, "web", SPACE)).get("status", {})
        return count == wanted == told.get("desiredReplicas")

    await until(there, f"{wanted} pods where each uses {cpu}", 180)


async def test_a_deployment_follows_what_its_pods_use(plane: Client) -> None:
    deployment, autoscaler = workload()
    await plane.create(DEPLOYMENTS, deployment, SPACE)
    await plane.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler, SPACE)
    await follows(plane, "200m", 3)
    await follows(plane, "1m", 1)
