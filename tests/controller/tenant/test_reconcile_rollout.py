"""A changed template of a plane of three, and a deleted node, with a host's real controllers and real etcd members.

The test is kubelet and scheduler. A member that is evicted amid the rollout stays away until the test says otherwise; meanwhile
no other member may go. The control shows what the StatefulSet's own rollout does then.
"""

import asyncio
import contextlib
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion, serves
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotFound, Throttled
from controller.plane.memberrecord import is_refusal
from controller.plane.spec import ETCD_METRICS_PORT, PLANE
from tests.controller.tenant.test_reconcile_healing import Kubelet, World, world_of
from tests.kit.etcdmembers import ADDRESS, PODS
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
CLASS, NODE = "rolling", "node-of-planes"
SELECTED = "volume.kubernetes.io/selected-node"
CONTROLLERS = ("statefulset-controller", "disruption-controller", "persistentvolumeclaim-protection-controller")
FIRST, SECOND, THIRD = PODS


class Following(Kubelet):
    """Runs the pods that the StatefulSet's controller makes; a volume stays on its node."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.uids: dict[str, str] = {}
        self.held: dict[str, str] = {}  # the UIDs of pods whose successors are not started
        self.gone: set[str] = set()  # nodes that no longer exist

    def hold(self, *pods: str) -> None:
        """Start no successor of these pods; of others again."""
        self.held = {pod: self.uids[pod] for pod in pods}

    async def sync(self) -> None:
        for pod in PODS:
            await self._follow(pod, await found(self.client, pod, self.space))

    async def _follow(self, name: str, pod: Obj | None) -> None:
        if pod is None or is_pending_deletion(pod):
            self.members.kill(name)
            if pod is not None:
                await self.client.delete(kinds.PODS, name, self.space, grace_seconds=0)
            return
        uid, claims = str(pod["metadata"]["uid"]), kinds.PERSISTENT_VOLUME_CLAIMS
        if self.uids.get(name) != uid:
            try:
                claim = await self.client.get(claims, f"data-{name}", self.space)
            except NotFound:  # the pod goes as well, and the next one has another claim
                return
            node = (claim["metadata"].get("annotations") or {}).get(SELECTED, "")
            if node in self.gone:
                await self._unplaced(name)
                return
            self.uids[name] = uid
            self.members.kill(name)
            (self.members.folder / f"{name}.log").unlink(missing_ok=True)
            if not node:
                self.members.empty(name)
                placed = {"metadata": {"annotations": {SELECTED: f"of-{name}-{len(self.gone)}"}}}
                await self.client.patch(claims, f"data-{name}", placed, self.space)
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            binding = {"metadata": {"name": name, "namespace": self.space}, "target": target}
            await self.client.create_subresource(kinds.PODS, name, "binding", binding, self.space)
            bound = {"phase": "Bound", "capacity": {"storage": self.room}}
            await self.client.patch(claims, f"data-{name}", {"status": bound}, self.space, subresource="status")
        if self.held.get(name, uid) == uid:
            await self.run(name, uid)
            return
        await self._tell(name, uid, {"state": {"waiting": {"reason": "ContainerCreating"}}}, ready=False)

    async def _unplaced(self, name: str) -> None:
        """What the scheduler says of a pod whose volume is on a node that is gone."""
        words = "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
        status = {"conditions": [condition]}
        await self.client.patch(kinds.PODS, name, {"status": status}, self.space, subresource="status")

    async def is_ready(self, pod: str) -> bool:
        """As the kubelet's probe of the member."""
        url = f"http://{ADDRESS}:{self.members.ports[pod][ETCD_METRICS_PORT]}/readyz"

        def probe() -> bool:
            try:
                with urllib.request.urlopen(url, timeout=2) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        return await asyncio.to_thread(probe)


async def found(client: Client, pod: str, space: str) -> Obj | None:
    try:
        return await client.get(kinds.PODS, pod, space)
    except NotFound:
        return None


async def evict(world: World, pod: str) -> None:
    """As the drain of a node does."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": world.space}}
    await world.host.client.create_subresource(kinds.PODS, pod, "eviction", body, world.space)


async def revisions(world: World) -> dict[str, str]:
    pods = {pod: await found(world.host.client, pod, world.space) for pod in PODS}
    return {name: pod["metadata"]["labels"]["controller-revision-hash"] for name, pod in pods.items() if pod is not None}


async def serving(world: World) -> list[str]:
    pods = {pod: await found(world.host.client, pod, world.space) for pod in PODS}
    return [name for name, pod in pods.items() if pod is not None and serves(pod)]


async def change(world: World) -> None:
    """Another template: the class gives etcd more memory."""
    limits = {"etcd": {"limits": {"memory": "3Gi"}}}
    await world.host.client.patch(kinds.TENANT_CLASSES, CLASS, {"spec": {"controlPlane": {"resources": limits}}})


async def node(client: Client) -> None:
    """The node of all pods, which answers."""
    with contextlib.suppress(AlreadyExists):
        await client.create(kinds.NODES, {"metadata": {"name": NODE}})
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(kinds.NODES, NODE, {"status": ready}, subresource="status")


@pytest.fixture
async def world(file_server: ApiServer, tmp_path: Path) -> AsyncIterator[World]:
    file_server.start_controllers(*CONTROLLERS)
    try:
        async with (
            Client(file_server.admin, user_agent="tests", field_manager="tests") as client,
            world_of(client, tmp_path, 3, kubelet_of=Following, class_name=CLASS) as made,
        ):
            await node(client)
            await until(made.whole, "the plane is founded", 180.0)

            async def granted() -> bool:
                await made.turn()
                budget = await client.get(kinds.POD_DISRUPTION_BUDGETS, PLANE, made.space)
                return bool((budget.get("status") or {}).get("disruptionsAllowed") == 1)

            await until(granted, "the budget grants one eviction", 60.0)
            yield made
    finally:
        file_server.kill("kube-controller-manager")


async def test_an_eviction_amid_a_rollout_takes_no_second_member(world: World) -> None:
    kubelet = world.kubelet
    assert isinstance(kubelet, Following)
    before = await revisions(world)
    kubelet.hold(THIRD)
    await change(world)

    async def begun() -> bool:
        await world.turn()
        return (await revisions(world)).get(THIRD, before[THIRD]) != before[THIRD]

    await until(begun, "the rollout has begun", 60.0)
    assert await serving(world) == [FIRST, SECOND]
    with pytest.raises(Throttled):
        await evict(world, FIRST)
    # The first pod is back; a drain comes before the rollout's next eviction, and its pod has no node for a while.
    kubelet.hold(FIRST)

    async def drained() -> bool:
        await kubelet.sync()
        try:
            await evict(world, FIRST)
        except Throttled:
            return False
        return True

    await until(drained, "a drain evicts plane-0", 60.0)
    uid = str((await world.host.client.get(kinds.PODS, SECOND, world.space))["metadata"]["uid"])
    world.told.clear()

    async def told() -> bool:
        await world.turn()
        return any("plane-1 start again with the present settings once every member answers" in text for text in world.told)

    await until(told, "the rollout waits and says so", 60.0)
    for _ in range(4):
        await world.turn()
        assert await serving(world) == [SECOND, THIRD]
    assert (await world.host.client.get(kinds.PODS, SECOND, world.space))["metadata"]["uid"] == uid
    kubelet.hold()
    returned = str((await world.host.client.get(kinds.PODS, FIRST, world.space))["metadata"]["uid"])

    async def done() -> bool:
        degraded = await world.turn()
        return (
            not degraded
            and len(set((await revisions(world)).values()) - set(before.values()))
            == 1
            == len(set((await revisions(world)).values()))
            and len(await serving(world)) == 3
        )

    await until(done, "all three have the present template", 120.0)
    # It came back with the present template, and needed no second start.
    assert (await world.host.client.get(kinds.PODS, FIRST, world.space))["metadata"]["uid"] == returned


async def test_the_statefulsets_own_rollout_would_take_two(world: World) -> None:
    """The positive control: a member is away, and the next one goes nevertheless."""
    kubelet = world.kubelet
    assert isinstance(kubelet, Following)
    client = world.host.client
    kubelet.hold(*PODS)
    former = kubelet.uids[THIRD]
    await client.delete(kinds.PODS, FIRST, world.space, grace_seconds=0)
    template = {"metadata": {"annotations": {"changed": "by-hand"}}}
    own = {"updateStrategy": {"type": "RollingUpdate"}, "template": template}
    await client.patch(kinds.STATEFUL_SETS, PLANE, {"spec": own}, world.space)

    async def two_are_away() -> bool:
        await kubelet.sync()
        there = await found(client, THIRD, world.space)
        return there is not None and there["metadata"]["uid"] != former and FIRST not in await serving(world)

    await until(two_are_away, "a second member is ended while plane-0 is away", 60.0)

    async def no_quorum() -> bool:
        await kubelet.sync()
        return not await serving(world)

    await until(no_quorum, "the plane has no quorum", 60.0)


async def test_a_member_whose_node_was_deleted_is_replaced_on_another_one(world: World) -> None:
    kubelet, client = world.kubelet, world.host.client
    assert isinstance(kubelet, Following)
    claim = await client.get(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{FIRST}", world.space)
    node = str(claim["metadata"]["annotations"][SELECTED])
    # The node is silent at first: its object is there, and nothing is given up.
    await client.create(kinds.NODES, {"metadata": {"name": node}})
    kubelet.gone = {node}
    await client.delete(kinds.PODS, FIRST, world.space, grace_seconds=0)
    world.told.clear()

    async def told() -> bool:
        await world.turn()
        return any(f"the volume of plane-0 is on node {node}, which does not answer" in text for text in world.told)

    await until(told, "what to type is reported", 60.0)
    assert any(f"kubectl delete pvc data-{FIRST} -n {world.space} --wait=false" in text for text in world.told)
    now = await client.get(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{FIRST}", world.space)
    assert now["metadata"]["uid"] == claim["metadata"]["uid"]
    await client.delete(kinds.NODES, node)

    async def healed() -> bool:
        return await world.whole() and len(await serving(world)) == 3

    await until(healed, "plane-0 is replaced elsewhere", 240.0)
    now = await client.get(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{FIRST}", world.space)
    assert now["metadata"]["uid"] != claim["metadata"]["uid"]
    assert any("which no longer exists; it gets another one, and the others serve meanwhile" in text for text in world.told)


async def test_a_member_whose_node_is_deleted_while_it_is_added_is_added_elsewhere(world: World) -> None:
    kubelet, client = world.kubelet, world.host.client
    assert isinstance(kubelet, Following)
    claim = await client.get(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{THIRD}", world.space)
    node = str(claim["metadata"]["annotations"][SELECTED])
    others = [(await client.get(kinds.PODS, pod, world.space))["metadata"]["uid"] for pod in (FIRST, SECOND)]
    await client.create(kinds.NODES, {"metadata": {"name": node}})
    kubelet.members.kill(THIRD)
    kubelet.members.empty(THIRD)

    async def refuses() -> bool:
        await kubelet.sync()
        return is_refusal(THIRD, kubelet.members.log_tail(THIRD))

    await until(refuses, "the member is lost", 120.0)
    # The pod with which it would start finds its node silent.
    kubelet.gone = {node}
    world.told.clear()

    async def told() -> bool:
        await world.turn()
        assert (await serving(world))[:2] == [FIRST, SECOND]
        return any("has an empty volume" in text and f"on node {node}, which does not answer" in text for text in world.told)

    await until(told, "what to type is reported", 180.0)
    assert (await world.record())["open"] == THIRD
    for _ in range(3):
        await world.turn()
    assert (await world.claims())[THIRD] == claim["metadata"]["uid"], "a silent node may come back"
    await client.delete(kinds.NODES, node)

    async def healed() -> bool:
        whole = await world.whole()
        assert (await serving(world))[:2] == [FIRST, SECOND]
        return whole and len(await serving(world)) == 3

    await until(healed, "plane-2 is added elsewhere", 240.0)
    assert (await world.claims())[THIRD] != claim["metadata"]["uid"]
    assert [(await client.get(kinds.PODS, pod, world.space))["metadata"]["uid"] for pod in (FIRST, SECOND)] == others
    assert any(f"on node {node}, which no longer exists" in text for text in world.told)
