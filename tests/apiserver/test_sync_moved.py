"""A syncer on a node that went silent, and the one that takes its place: what holds the former back, on real API servers.

Each control shows what happens without: a former syncer whose view of the host stands still makes again what its successor
removes, and a Deployment that recreates waits for a pod that is stuck on a dead node.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, NotFound, Unauthorized
from bulkhead.kube.informer import Change
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Key, uid_of
from bulkhead.kube.resources import DEPLOYMENTS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, SERVICE_ACCOUNTS
from controller.plane import placement
from controller.plane.spec import LEAF_ANNOTATION
from controller.plane.syncer import deployment
from syncer import tenure
from syncer.session import Session
from syncer.work import Item
from tests.kit.servers import ApiServer, by_token
from tests.kit.severed import severable
from tests.kit.syncerbed import SyncerBed, until
from tests.kit.tenantsamples import plane_spec

pytestmark = pytest.mark.apiserver
DEAD = "dead-node"


def of_syncer(name: str) -> Obj:
    """A pod that has a node without a kubelet: deleted, it stays."""
    spec = {"nodeName": DEAD, "serviceAccountName": "syncer", "containers": [{"name": "syncer", "image": "bulkhead"}]}
    return {"metadata": {"name": name}, "spec": spec}


@contextlib.asynccontextmanager
async def syncing(bed: SyncerBed, host: Client, pod: str) -> AsyncIterator[Session]:
    """A syncer of the tenant that is ready; `pod` is its own."""
    session = bed.session = Session(bed.settings, bed.plane, host, pod=pod)
    task = asyncio.create_task(session.run())

    async def ready() -> bool:
        if task.done():
            task.result()
        return not session._unready()

    try:
        await until(ready, "session ready")
        yield session
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def runs_on(bed: SyncerBed, name: str, node: str) -> None:
    await bed.create(bed.pod(name))
    host = await bed.mirrored(name)
    await bed.bind(host, node)
    await bed.run(host)

    async def runs() -> bool:
        return bool(((await bed.virtual(name)) or {}).get("status", {}).get("phase") == "Running")

    await until(runs, f"{name} running in the plane")


async def virtual_node(bed: SyncerBed, name: str) -> str:
    """The UID of a node in the plane; empty while it is not there."""
    with contextlib.suppress(NotFound):
        return uid_of(await bed.plane.get(NODES, name))
    return ""


@pytest.mark.parametrize("held", [True, False], ids=["as it is", "the control"])
async def test_a_former_syncer_whose_view_of_the_host_stands_still_undoes_nothing(
    host_config: KubeConfig, host_client: Client, plane_client: Client, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    monkeypatch.setattr(tenure, "ASK_SECONDS", 0.2)
    monkeypatch.setattr(tenure, "SILENCE_SECONDS", 1.0)
    async with contextlib.AsyncExitStack() as stack:
        bed = await stack.enter_async_context(SyncerBed.open(host_client, plane_client, start=False))
        for name in ("syncer-old", "syncer-new"):
            await bed.host.create(PODS, of_syncer(name), bed.settings.plane_namespace)
        way, config = await stack.enter_async_context(severable(by_token(host_config)))
        narrow = await stack.enter_async_context(Client(config, user_agent="tests", field_manager="tests"))
        second, third = f"second-{bed.tenant}", f"third-{bed.tenant}"
        await bed.make_node(third)
        old = await stack.enter_async_context(syncing(bed, narrow, "syncer-old" if held else ""))
        await runs_on(bed, "before", bed.node)
        await until(lambda: virtual_node(bed, third), "the node that will leave")

        way.cut()
        if held:
            await until(lambda: _suspended(old), "the former syncer waits")
        new = await stack.enter_async_context(syncing(bed, bed.host, "syncer-new"))
        nodes: dict[str, set[str]] = {second: set(), third: set()}  # the UIDs of every Node of these names in the plane

        def saw(change: Change) -> None:
            nodes.setdefault(change.key.name, set()).add(change.meta.uid)

        new.caches.listen("virtual", "Node", saw)
        await bed.make_node(second)
        uid = await until(lambda: virtual_node(bed, second), "the successor's node")
        await runs_on(bed, "meanwhile", second)
        await bed.host.delete(NODES, third)
        if not held:

            async def made_again() -> bool:
                return len(nodes[third]) > 1

            await until(made_again, "the former syncer makes a node again that has left")
            return

        async def gone() -> bool:
            return not await virtual_node(bed, third)

        await until(gone, "the successor removes the node")

        async def noticed() -> bool:
            return all(old.queue.holds(Item("Node", Key("", name))) for name in (second, third))

        await until(noticed, "the former syncer has seen both, and waits")

        # The node's network is back before its kubelet has ended the pod: from now on the former syncer has a true view again.
        await bed.host.delete(PODS, "syncer-old", bed.settings.plane_namespace)
        way.mend()

        async def ended() -> bool:
            return "syncer-old" in old.tenure.suspended()

        await until(ended, "the former syncer learns that it ends")
        await runs_on(bed, "later", second)
        assert await noticed()
        assert await gone()
        assert nodes[second] == {uid}
        assert len(nodes[third]) == 1
        assert not new.tenure.suspended()
        for name in ("before", "meanwhile", "later"):
            pod = await bed.virtual(name)
            assert pod is not None
            assert not is_pending_deletion(pod)


async def test_a_node_is_removed_from_a_plane_only_if_the_host_says_that_it_left(
    host_client: Client, plane_client: Client
) -> None:
    async with SyncerBed.open(host_client, plane_client) as bed:
        session = bed.session
        assert session is not None
        uid = await until(lambda: virtual_node(bed, bed.node), "the node in the plane")
        await runs_on(bed, "web", bed.node)
        await bed.idle()
        # What a copy that stands still shows of a node that came later, or one that a faulty list left out: nothing.
        key = Key("", bed.node)
        session.caches.host["Node"].store.drop(key)
        assert await session.nodes.reconcile(key)
        assert await virtual_node(bed, bed.node) == uid
        await bed.host.patch(NODES, bed.node, {"metadata": {"labels": {"pool": "another"}}})

        async def removed() -> bool:
            await session.nodes.reconcile(key)
            return not await virtual_node(bed, bed.node)

        await until(removed, "the node leaves the plane with its pool")


async def _suspended(session: Session) -> bool:
    return bool(session.tenure.suspended())


@pytest.mark.outage
async def test_a_host_refuses_the_token_of_a_pod_that_should_have_ended_a_minute_ago(
    host_config: KubeConfig, host_client: Client, namespace: str
) -> None:
    await host_client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "syncer"}}, namespace)
    pod = await host_client.create(PODS, of_syncer("syncer-old"), namespace)
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "syncer-old", "uid": uid_of(pod)}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
    token = (await host_client.create_subresource(SERVICE_ACCOUNTS, "syncer", "token", request, namespace))["status"]["token"]
    config = replace(host_config, client_cert=None, client_key=None, token=token)

    async with Client(config, user_agent="tests", field_manager="tests") as former:

        async def refused() -> bool:
            try:
                await former.get(PODS, "syncer-old", namespace)
            except Forbidden:  # it is known, and has no rights in this test
                return False
            except Unauthorized:
                return True
            return False

        assert not await refused()
        await host_client.delete(PODS, "syncer-old", namespace, grace_seconds=1)
        await until(refused, "the token is refused", seconds=120)
    # On a node that is silent the pod itself stays, marked for deletion.
    assert is_pending_deletion(await host_client.get(PODS, "syncer-old", namespace))


@pytest.mark.parametrize("waits", [False, True], ids=["as it is", "the control"])
async def test_a_changed_template_starts_although_a_pod_is_stuck_on_a_dead_node(own_server: ApiServer, waits: bool) -> None:
    own_server.start_controllers("deployment-controller", "replicaset-controller")
    spec = plane_spec()
    async with Client(by_token(own_server.admin), user_agent="tests", field_manager="tests") as host:
        await host.create(NAMESPACES, {"metadata": {"name": spec.namespace}})
        await host.create(PRIORITY_CLASSES, {"metadata": {"name": spec.control_plane.priority_class}, "value": 1000})

        def recreated(leaf: str) -> Obj:
            found = deployment(spec, leaf=leaf, config="same")
            return found | {"spec": found["spec"] | {"strategy": {"type": "Recreate"}}}

        def made(leaf: str) -> Obj:
            return recreated(leaf) if waits else deployment(spec, leaf=leaf, config="same")

        async def live(leaf: str, besides: str = "") -> Obj | None:
            pods = (await host.list(PODS, spec.namespace)).items
            return next(
                (
                    pod
                    for pod in pods
                    if not is_pending_deletion(pod)
                    and pod["metadata"]["annotations"][LEAF_ANNOTATION] == leaf
                    and pod["metadata"]["name"] != besides
                ),
                None,
            )

        # As the release before has it, and an earlier one after this one.
        await host.apply(DEPLOYMENTS, recreated("one"))
        await host.apply(DEPLOYMENTS, made("one"))
        first = await until(lambda: live("one"), "a pod")
        # The host's admission adds nothing beside what is there, and so no other time.
        assert first["spec"]["tolerations"] == placement.leaving([])
        name = first["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": DEAD}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await host.create_subresource(PODS, name, "binding", binding, spec.namespace)

        await host.delete(PODS, name, spec.namespace)  # as the host's taint-eviction-controller does
        second = await until(lambda: live("one", besides=name), "another pod, although the first does not end")
        assert is_pending_deletion(await host.get(PODS, name, spec.namespace))

        await host.apply(DEPLOYMENTS, made("two"))
        if not waits:
            await until(lambda: live("two"), "a pod of the changed template")
            assert is_pending_deletion(await host.get(PODS, name, spec.namespace))
            await host.apply(DEPLOYMENTS, recreated("two"))
            return

        generation = (await host.get(DEPLOYMENTS, "syncer", spec.namespace))["metadata"]["generation"]

        async def stopped() -> bool:
            seen = (await host.get(DEPLOYMENTS, "syncer", spec.namespace))["status"].get("observedGeneration")
            pods = (await host.list(PODS, spec.namespace)).items
            return seen == generation and uid_of(second) not in map(uid_of, pods)

        await until(stopped, "the second pod is stopped")
        assert await live("two") is None
