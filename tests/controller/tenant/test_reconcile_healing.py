"""Reconciles of a plane of three whose etcd members are real: what its Tenant says while one of them is replaced.

The host's API server is real, too. The test is the kubelet: it starts the members and writes the statuses of their pods.
"""

import asyncio
import contextlib
import secrets
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.api import labels, names, planeidentity, planemembers
from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound, Unprocessable
from bulkhead.work.clock import SystemClock
from controller.inside.etcdaccess import EtcdAccess
from controller.inside.members import Members
from controller.plane import etcd
from controller.plane.memberrecord import CONFIG_MAP, is_forgetful, is_refusal
from controller.plane.spec import ETCD_METRICS_PORT, PLANE
from tests.kit.controllerhost import ControllerHost, ask
from tests.kit.crds import install
from tests.kit.etcdmembers import ADDRESS, PODS, EtcdMembers
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import changed, plane_spec, tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
LOST = PODS[2]


class Kubelet:
    """Pods and claims of the plane on the host, and the members behind them."""

    def __init__(self, client: Client, members: EtcdMembers, name: str) -> None:
        self.client, self.members, self.space = client, members, names.plane_namespace(name)
        self.labels = labels.made_for(name, "plane")
        self.one = changed(plane_spec(), tenant=name)
        self.room = "2Gi"  # of a new volume
        self.waits: dict[str, float] = {}
        self.ends: dict[str, Obj] = {}
        self.told: dict[str, Obj] = {}

    async def claim(self, pod: str) -> None:
        requests = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": self.room}}}
        made = {"metadata": {"name": f"data-{pod}", "namespace": self.space, "labels": self.labels}, "spec": requests}
        await self.client.create(kinds.PERSISTENT_VOLUME_CLAIMS, made)
        status = {"phase": "Bound", "capacity": {"storage": self.room}}
        await self.client.patch(
            kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{pod}", {"status": status}, self.space, subresource="status"
        )

    async def sync(self) -> None:
        """One round over all pods."""
        template = (await self.client.get(kinds.STATEFUL_SETS, PLANE, self.space))["spec"]
        for pod in PODS[: template["replicas"]]:
            uid, alone = await self._pod(pod, template["template"]["spec"]["containers"][0])
            await self.run(pod, uid, alone=alone)

    async def run(self, pod: str, uid: str, *, alone: bool = False) -> None:
        """Start what should run, and write what became of it."""
        log = self.members.log_tail(pod)
        ended = not self.members.runs(pod) and (is_refusal(pod, log) or is_forgetful(log))
        end = {"terminated": {"exitCode": 1, "message": log}} if ended else self.ends.get(uid, {})
        self.ends[uid] = end
        if ended and time.monotonic() < self.waits.setdefault(uid, time.monotonic() + 3.0):
            state: Obj = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": end, "restartCount": 1}
        else:
            self.waits.pop(uid, None)
            await self._start(pod, alone=alone)
            state = {"state": {"running": {"startedAt": "2026-06-01T12:00:00Z"}}, "lastState": end}
        await self._tell(pod, uid, state, ready=await self.is_ready(pod))

    async def is_ready(self, pod: str) -> bool:
        """Whether the pod is ready; here as soon as its process runs."""
        return self.members.runs(pod)

    async def _start(self, pod: str, *, alone: bool) -> None:
        if alone:
            self.members.start(pod, spec=self.one)
        elif not self.members.runs(pod):
            record = (await self.client.get(kinds.CONFIG_MAPS, CONFIG_MAP, self.space))["data"]
            self.members.start(pod, environment={key: self.members.here(pod, text) for key, text in record.items()})

    async def _pod(self, pod: str, container: Obj) -> tuple[str, bool]:
        """The UID of a pod, and whether it has the flags of a plane of one."""
        try:
            found = await self.client.get(kinds.PODS, pod, self.space)
            if "deletionTimestamp" not in found["metadata"]:
                return str(found["metadata"]["uid"]), etcd.members_of_pod(found) == 1
            await self.client.delete(kinds.PODS, pod, self.space, grace_seconds=0)
        except NotFound:
            pass
        self.members.kill(pod)
        await self._volume(pod)
        security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        security |= {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        own = {"name": "etcd", "image": "x", "command": container["command"], "securityContext": security}
        spec = {"nodeName": "node", "containers": [own]}
        made = await self.client.create(
            kinds.PODS, {"metadata": {"name": pod, "namespace": self.space, "labels": self.labels}, "spec": spec}
        )
        # A new pod's containers have no log.
        (self.members.folder / f"{pod}.log").unlink(missing_ok=True)
        return str(made["metadata"]["uid"]), etcd.members_of_pod(made) == 1

    async def _volume(self, pod: str) -> None:
        """A claim that is being deleted goes once no pod uses it; the next one has an empty volume."""
        try:
            claim = await self.client.get(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{pod}", self.space)
        except NotFound:
            await self.claim(pod)
            return
        if "deletionTimestamp" in claim["metadata"]:
            free = {"metadata": {"finalizers": None}}
            await self.client.patch(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{pod}", free, self.space)
            self.members.empty(pod)
            await self.claim(pod)

    async def _tell(self, pod: str, uid: str, state: Obj, *, ready: bool) -> None:
        container = {"name": "etcd", "image": "x", "imageID": "", "ready": ready, "restartCount": 0} | state
        conditions = [{"type": "Ready", "status": str(ready)}]
        # An eviction of a pod that is pending does not ask its budget.
        status = {"phase": "Running", "podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}], "conditions": conditions}
        status |= {"containerStatuses": [container]}
        if self.told.get(uid) != status:
            self.told[uid] = status
            await self.client.patch(kinds.PODS, pod, {"status": status}, self.space, subresource="status")


class World:
    """One tenant, its reconciles and its kubelet."""

    def __init__(self, host: ControllerHost, kubelet: Kubelet, name: str) -> None:
        self.host, self.kubelet, self.name, self.space = host, kubelet, name, kubelet.space
        self.told: list[str] = []

    async def turn(self) -> Obj:
        """A round of the kubelet and a reconcile; returns the condition Degraded, empty if there is none."""
        await self.kubelet.sync()
        await self.host.caught_up()
        await self.host.reconciler.reconcile(self.name)
        found = condition_of(await self.host.client.get(kinds.TENANTS, self.name), "Degraded")
        told = f"{found['reason']}: {found['message']}" if found else ""
        if told and told not in self.told:
            self.told.append(told)
        return dict(found)

    async def record(self) -> Obj:
        found: Obj = (await self.host.client.get(kinds.CONFIG_MAPS, CONFIG_MAP, self.space))["data"]
        return found

    async def claims(self) -> dict[str, str]:
        found = [await self.host.client.get(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{pod}", self.space) for pod in PODS]
        return {pod: claim["metadata"]["uid"] for pod, claim in zip(PODS, found, strict=True)}

    async def ask(self, pod: str) -> None:
        await self.host.client.patch(kinds.CONFIG_MAPS, CONFIG_MAP, {"data": {planemembers.RECOVER: pod}}, self.space)

    async def whole(self) -> bool:
        """Whether all members serve and the record is closed."""
        degraded, record = await self.turn(), await self.record()
        return not degraded and (record["state"], record["open"]) == ("existing", "")


@pytest.fixture
async def world(host_client: Client, tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(host_client, tmp_path, 3) as made:
        yield made


@contextlib.asynccontextmanager
async def world_of(
    client: Client, folder: Path, replicas: int, *, kubelet_of: type[Kubelet] = Kubelet, class_name: str = "healing"
) -> AsyncIterator[World]:
    """A tenant whose plane has so many members."""
    name = f"heals-{secrets.token_hex(3)}"
    await install(client)
    offer = tenant_class(controlPlane={"maxReplicas": 3}) | {"metadata": {"name": class_name}}
    await client.apply(kinds.TENANT_CLASSES, offer)
    await ask(client, name, **{"class": class_name, "controlPlane": {"replicas": replicas}})
    async with ControllerHost(client) as first:
        await first.settle(name)
    spec = changed(plane_spec(), tenant=name, control_plane={"replicas": 3})
    files = (await client.get(kinds.SECRETS, "pki-etcd", names.plane_namespace(name)))["data"]
    members = EtcdMembers(folder, spec, files)
    access = EtcdAccess(SystemClock(), ports=members.http_ports)
    kubelet = kubelet_of(client, members, name)
    try:
        async with ControllerHost(client, members=Members(access, lambda _, pod: members.peer_url(pod))) as host:
            yield World(host, kubelet, name)
    finally:
        await access.close()
        members.kill()


async def test_a_tenant_says_which_member_is_replaced_and_a_lost_quorum_is_left_alone(world: World) -> None:
    await until(world.whole, "the plane is founded", 120.0)
    assert world.told == [] or all("replaced" not in told for told in world.told)
    world.told.clear()
    pod = (await world.host.client.get(kinds.PODS, LOST, world.space))["metadata"]["uid"]
    world.kubelet.members.kill(LOST)
    world.kubelet.members.empty(LOST)
    await until(world.turn, "a member is missing", 60.0)
    await until(world.whole, "the member is replaced", 120.0)
    assert any(told.startswith("MemberReplaced: plane-2 has an empty volume") for told in world.told), world.told
    assert (await world.host.client.get(kinds.PODS, LOST, world.space))["metadata"]["uid"] != pod, "its pod did not try at once"


def figures(members: EtcdMembers, pod: str) -> dict[str, str]:
    """What a member says in its metrics; empty if it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{ADDRESS}:{members.ports[pod][ETCD_METRICS_PORT]}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return dict(line.split(" ", 1) for line in text.splitlines() if line.startswith("etcd_") and "{" not in line)


async def test_a_learner_whose_volume_is_wiped_while_it_is_added_is_added_again(world: World) -> None:
    """Its leader expects what it had received, so its etcd ends at every start."""
    members = world.kubelet.members
    await until(world.whole, "the plane is founded", 120.0)
    members.kill(LOST)
    members.empty(LOST)

    async def may_start() -> bool:
        await world.turn()
        return bool((await world.record())["open"])

    await until(may_start, "its record is open", 120.0)

    async def learns() -> bool:
        await world.kubelet.sync()
        first, third = [await asyncio.to_thread(figures, members, pod) for pod in (PODS[0], LOST)]
        revision = "etcd_debugging_mvcc_current_revision"
        return third.get("etcd_server_is_learner") == "1" and first.get(revision) == third.get(revision)

    await until(learns, "it has received the data", 120.0)
    claims = await world.claims()
    members.kill(LOST)
    members.empty(LOST)
    await world.kubelet.sync()
    assert is_forgetful(members.ended(LOST, 120.0)), members.log_tail(LOST)
    world.told.clear()
    await until(world.whole, "the member is added again", 240.0)
    assert any("plane-2 has lost what it had received before it voted" in told for told in world.told), world.told
    now = await world.claims()
    assert [pod for pod in PODS if now[pod] != claims[pod]] == [LOST]


async def test_a_plane_without_a_quorum_is_left_alone_until_an_admin_asks(world: World) -> None:
    await until(world.whole, "the plane is founded", 120.0)
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
    assert await world.record() | {"heard": ""} == before | {"heard": ""}
    assert not any("is being replaced" in told for told in world.told), world.told
    assert list(planemembers.heard({"data": await world.record()})) == [PODS[0]]
    claims = await world.claims()

    # What the command line writes.
    await world.ask(PODS[0])
    await until(world.whole, "the plane has three members", 240.0)
    recorded = planeidentity.recorded(await world.host.client.get(kinds.CONFIG_MAPS, planeidentity.NAME, world.space))
    assert "recovered from member plane-0" in recorded.quarantine
    assert any(told.startswith("Recovering: the plane is recovered from one member") for told in world.told), world.told
    now = await world.claims()
    assert [pod for pod in PODS if now[pod] == claims[pod]] == [PODS[0]]
    record = await world.record()
    assert (record["recover"], record["force"], record["heard"]) == ("", "false", "")


async def test_a_plane_of_one_grows_to_three_if_its_tenant_asks_and_never_shrinks(host_client: Client, tmp_path: Path) -> None:
    async with world_of(host_client, tmp_path, 1) as world:
        await world.turn()
        before = (await world.host.client.get(kinds.PODS, PODS[0], world.space))["metadata"]["uid"]
        world.kubelet.room = "100Mi"
        await world.host.client.patch(kinds.TENANTS, world.name, {"spec": {"controlPlane": {"replicas": 3}}})

        async def told() -> bool:
            return "plane-1 cannot join: its new volume of 100Mi is too small" in str(await world.turn())

        await until(told, "the missing room is told", 60.0)
        degraded = await world.turn()
        assert (degraded["reason"], "plane-0 serves meanwhile" in degraded["message"]) == ("Growing", True)
        now = await world.host.client.get(kinds.PODS, PODS[0], world.space)
        assert now["metadata"]["uid"] == before, "the only member goes on until there is room"
        with pytest.raises(Unprocessable, match="never shrink"):
            await world.host.client.patch(kinds.TENANTS, world.name, {"spec": {"controlPlane": {"replicas": 1}}})
        # The host's admin gives them room.
        for pod in PODS[1:]:
            status = {"status": {"capacity": {"storage": "2Gi"}}}
            claims = kinds.PERSISTENT_VOLUME_CLAIMS
            await world.host.client.patch(claims, f"data-{pod}", status, world.space, subresource="status")
        await until(world.whole, "the plane has three members", 240.0)
        now = await world.host.client.get(kinds.PODS, PODS[0], world.space)
        assert now["metadata"]["uid"] != before
        record = await world.record()
        assert (record["open"], record["without"]) == ("", "")
