"""Reconciles of a plane of three whose etcd members are real: what its Tenant says while one of them is replaced.

The host's API server is real, too. The test is the kubelet: it starts the members and writes the statuses of their pods.
"""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.work.clock import SystemClock
from controller.inside.etcdaccess import EtcdAccess
from controller.inside.members import Members
from controller.plane.memberrecord import CONFIG_MAP, is_refusal
from tests.kit.controllerhost import ControllerHost, ask
from tests.kit.crds import install
from tests.kit.etcdmembers import ADDRESS, PODS, EtcdMembers
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import changed, plane_spec, tenant_class

pytestmark = pytest.mark.apiserver
NAME = "heals"
SPACE = f"bh-{NAME}"
LOST = PODS[2]
LABELS = {"app.kubernetes.io/managed-by": "bulkhead", "bulkhead.dev/tenant": NAME, "bulkhead.dev/component": "plane"}


class Kubelet:
    """Pods and claims of the plane on the host, and the members behind them."""

    def __init__(self, client: Client, members: EtcdMembers) -> None:
        self.client, self.members = client, members
        self.waits: dict[str, float] = {}
        self.ends: dict[str, Obj] = {}
        self.told: dict[str, Obj] = {}

    async def claim(self, pod: str) -> None:
        requests = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
        made = {"metadata": {"name": f"data-{pod}", "namespace": SPACE, "labels": LABELS}, "spec": requests}
        await self.client.create(kinds.PERSISTENT_VOLUME_CLAIMS, made)
        status = {"phase": "Bound", "capacity": {"storage": "2Gi"}}
        await self.client.patch(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{pod}", {"status": status}, SPACE, subresource="status")

    async def sync(self) -> None:
        """One round over all pods."""
        record = (await self.client.get(kinds.CONFIG_MAPS, CONFIG_MAP, SPACE))["data"]
        for pod in PODS:
            uid = await self._pod(pod)
            refused = not self.members.runs(pod) and is_refusal(pod, self.members.log_tail(pod))
            end = {"terminated": {"exitCode": 1, "message": self.members.log_tail(pod)}} if refused else self.ends.get(uid, {})
            self.ends[uid] = end
            if refused and time.monotonic() < self.waits.setdefault(uid, time.monotonic() + 3.0):
                state: Obj = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": end, "restartCount": 1}
            else:
                self.waits.pop(uid, None)
                self.members.start(pod, environment={key: self.members.here(pod, text) for key, text in record.items()})
                state = {"state": {"running": {"startedAt": "2026-06-01T12:00:00Z"}}, "lastState": end}
            await self._tell(pod, uid, state, ready=self.members.runs(pod))

    async def _pod(self, pod: str) -> str:
        try:
            return str((await self.client.get(kinds.PODS, pod, SPACE))["metadata"]["uid"])
        except NotFound:
            security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
            security |= {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
            spec = {"containers": [{"name": "etcd", "image": "x", "securityContext": security}]}
            made = await self.client.create(
                kinds.PODS, {"metadata": {"name": pod, "namespace": SPACE, "labels": LABELS}, "spec": spec}
            )
            # A new pod's containers have no log.
            (self.members.folder / f"{pod}.log").unlink(missing_ok=True)
            return str(made["metadata"]["uid"])

    async def _tell(self, pod: str, uid: str, state: Obj, *, ready: bool) -> None:
        container = {"name": "etcd", "image": "x", "imageID": "", "ready": ready, "restartCount": 0} | state
        conditions = [{"type": "Ready", "status": str(ready)}]
        status = {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}], "containerStatuses": [container], "conditions": conditions}
        if self.told.get(uid) != status:
            self.told[uid] = status
            await self.client.patch(kinds.PODS, pod, {"status": status}, SPACE, subresource="status")


class World:
    """One tenant, its reconciles and its kubelet."""

    def __init__(self, host: ControllerHost, kubelet: Kubelet) -> None:
        self.host, self.kubelet = host, kubelet
        self.told: list[str] = []

    async def turn(self) -> Obj:
        """A round of the kubelet and a reconcile; returns the condition Degraded, empty if there is none."""
        await self.kubelet.sync()
        await self.host.caught_up()
        await self.host.reconciler.reconcile(NAME)
        found = condition_of(await self.host.client.get(kinds.TENANTS, NAME), "Degraded")
        told = f"{found['reason']}: {found['message']}" if found else ""
        if told and told not in self.told:
            self.told.append(told)
        return dict(found)

    async def record(self) -> Obj:
        found: Obj = (await self.host.client.get(kinds.CONFIG_MAPS, CONFIG_MAP, SPACE))["data"]
        return found

    async def whole(self) -> bool:
        """Whether all members serve and the record is closed."""
        degraded, record = await self.turn(), await self.record()
        return not degraded and (record["state"], record["open"]) == ("existing", "")


@pytest.fixture
async def world(host_client: Client, tmp_path: Path) -> AsyncIterator[World]:
    client = host_client
    await install(client)
    offer = tenant_class(controlPlane={"maxReplicas": 3}) | {"metadata": {"name": "healing"}}
    await client.apply(kinds.TENANT_CLASSES, offer)
    await ask(client, NAME, **{"class": "healing", "controlPlane": {"replicas": 3}})
    async with ControllerHost(client) as first:
        await first.settle(NAME)
    spec = changed(plane_spec(), tenant=NAME, control_plane={"replicas": 3})
    files = (await client.get(kinds.SECRETS, "pki-etcd", SPACE))["data"]
    members = EtcdMembers(tmp_path, spec, files)
    access = EtcdAccess(SystemClock(), ports=members.http_ports)
    kubelet = Kubelet(client, members)
    for pod in PODS:
        await kubelet.claim(pod)
    try:
        async with ControllerHost(client, members=Members(access, lambda _, pod: members.peer_url(pod))) as host:
            yield World(host, kubelet)
    finally:
        await access.close()
        members.kill()


async def test_a_tenant_says_which_member_is_replaced_and_a_lost_quorum_is_left_alone(world: World) -> None:
    await until(world.whole, "the plane is founded", 120.0)
    assert world.told == [] or all("replaced" not in told for told in world.told)
    world.told.clear()
    pod = (await world.host.client.get(kinds.PODS, LOST, SPACE))["metadata"]["uid"]
    world.kubelet.members.kill(LOST)
    world.kubelet.members.empty(LOST)
    await until(world.turn, "a member is missing", 60.0)
    await until(world.whole, "the member is replaced", 120.0)
    assert any(told.startswith("MemberReplaced: plane-2 has lost its volume") for told in world.told), world.told
    assert (await world.host.client.get(kinds.PODS, LOST, SPACE))["metadata"]["uid"] != pod, "its pod did not try at once"

    # Of two lost at once neither is replaced.
    before = await world.record()
    world.told.clear()
    for lost in PODS[1:]:
        world.kubelet.members.kill(lost)
        world.kubelet.members.empty(lost)

    async def both_refuse() -> bool:
        await world.turn()
        return all(is_refusal(lost, world.kubelet.members.log_tail(lost)) for lost in PODS[1:])

    await until(both_refuse, "two members refuse", 60.0)
    for _ in range(4):
        await world.turn()
    assert await world.record() == before
    assert not any("is being replaced" in told for told in world.told), world.told
