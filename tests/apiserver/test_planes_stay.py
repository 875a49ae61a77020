"""A plane on a node that goes silent, by the host's own controllers: it stays, until an admin says that the node is dead."""

import pytest

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.objects import uid_of
from bulkhead.kube.resources import NAMESPACES, NODES, PODS, PRIORITY_CLASSES, STATEFUL_SETS
from controller.plane import placement, statefulset
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

pytestmark = pytest.mark.apiserver
SILENT, HEALTHY = "silent-node", "healthy-node"
POD, OTHER = "plane-0", "leaves"
CONTROLLERS = (
    "statefulset-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
)
# Nodes are what their status says: no kubelet writes here.
FLAGS = ("--node-monitor-grace-period=1h", "--node-startup-grace-period=1h")
# As docs/operate.md has it.
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


async def says(host: Client, node: str, ready: str) -> None:
    condition = {"type": "Ready", "status": ready, "reason": "Test"}
    await host.patch(NODES, node, {"status": {"conditions": [condition]}}, subresource="status")


async def bind(host: Client, name: str, namespace: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": SILENT}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await host.create_subresource(PODS, name, "binding", body, namespace)


@pytest.mark.outage
async def test_a_plane_stays_on_a_silent_node_until_the_node_is_said_to_be_dead(own_server: ApiServer) -> None:
    own_server.start_controllers(*CONTROLLERS, flags=FLAGS)
    spec = plane_spec()
    async with Client(by_token(own_server.admin), user_agent="tests", field_manager="tests") as host:
        await host.create(NAMESPACES, {"metadata": {"name": spec.namespace}})
        await host.create(PRIORITY_CLASSES, {"metadata": {"name": spec.control_plane.priority_class}, "value": 1000})
        for node in (SILENT, HEALTHY):
            await host.create(NODES, {"metadata": {"name": node}})
            await says(host, node, "True")

        async def found(besides: str = "") -> Obj | None:
            try:
                pod = await host.get(PODS, POD, spec.namespace)
            except NotFound:
                return None
            return None if uid_of(pod) == besides else pod

        await host.apply(STATEFUL_SETS, statefulset.stateful_set(spec, trust="trust", config="config"))
        plane = await until(found, "a pod")
        # The host's admission adds nothing beside what is there, and so no time.
        assert plane["spec"]["tolerations"] == placement.staying([])
        soon = [toleration | {"tolerationSeconds": 1} for toleration in placement.staying([])]
        leaves = {"containers": [{"name": "a", "image": "a"}], "tolerations": soon}
        await host.create(PODS, {"metadata": {"name": OTHER}, "spec": leaves}, spec.namespace)
        for name in (POD, OTHER):
            await bind(host, name, spec.namespace)

        async def marked() -> bool:
            return is_pending_deletion(await host.get(PODS, OTHER, spec.namespace))

        await says(host, SILENT, "Unknown")
        await until(marked, "another pod of that node is to leave")
        assert not is_pending_deletion(await host.get(PODS, POD, spec.namespace))

        taints = (await host.get(NODES, SILENT))["spec"]["taints"]
        assert {taint["key"] for taint in taints if taint["effect"] == "NoExecute"} == {placement.AWAY[1]}
        await host.patch(NODES, SILENT, {"spec": {"taints": [*taints, OUT_OF_SERVICE]}})
        successor = await until(lambda: found(besides=uid_of(plane)), "the plane starts again", seconds=120)
        assert "nodeName" not in successor["spec"]
