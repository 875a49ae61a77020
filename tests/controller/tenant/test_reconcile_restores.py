"""TenantRestores on a real API server, up to the pods that fill volumes; the tests play the host's workload controllers.

Every write is once the controller's last one: whatever it had done, another one goes on, and nothing starts too early.
"""

import base64
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bulkhead.api import labels, names, planeidentity, planerecord
from bulkhead.api.conditions import RestoreReason, find_condition
from bulkhead.api.objects import Obj
from bulkhead.api.planerecord import PlaneRecord
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.snapshots.bundle import Bundle
from bulkhead.snapshots.manifest import PURPOSE
from controller.host.restores import Restores
from controller.pki.issue import new_authority
from controller.pki.material import files_of
from controller.plane import memberrecord
from controller.plane.memberrecord import Record, Recovery
from controller.plane.secrets import SERVICE_ACCOUNT_SECRET
from controller.tenant.facets.restores.host import FILE, OF, SECRET, RestoreHost
from controller.tenant.reconcile import ReconcileFailed
from tests.kit import lag
from tests.kit.background import background
from tests.kit.controllerhost import ControllerHost, FixedKeys, ask, ready
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import changed, plane_spec, tenant_class
from tests.snapshots.samples import GOLDEN

pytestmark = [pytest.mark.apiserver, pytest.mark.crashes]
RING = FixedKeys.held
OTHER = "00000000-1111-7777-6666-555555555555"


@dataclass
class World:
    """A host with a controller that can be replaced, and what a kubelet and the workload controllers do."""

    client: Client
    name: str
    controller: ControllerHost | None = None
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def start(self, client: Client | None = None) -> None:
        """Another controller, in place of the one before."""
        await self._stack.aclose()
        client = client or self.client
        restores = Restores(client, lambda _: None)
        await self._stack.enter_async_context(background(restores.run()))
        self.controller = await self._stack.enter_async_context(ControllerHost(client, restores=restores))
        self.restores = restores

    async def close(self) -> None:
        await self._stack.aclose()

    @property
    def space(self) -> str:
        return names.plane_namespace(self.name)

    async def turn(self) -> None:
        """Reconcile once, with present copies."""
        assert self.controller is not None
        await self.controller.caught_up()

        async def seen() -> bool:
            return await lag.caught_up(self.restores._informer)

        await until(seen, "the copies of TenantRestores")
        with contextlib.suppress(ReconcileFailed):
            await self.controller.reconciler.reconcile(self.name)

    async def turns(self, count: int = 3) -> None:
        for _ in range(count):
            await self.turn()

    async def find(self, resource: Any, name: str, namespace: str | None = None) -> Obj | None:
        try:
            return await self.client.get(resource, name, self.space if namespace is None and resource.namespaced else namespace)
        except NotFound:
            return None

    async def obey(self) -> None:
        """What the host's controllers do with workloads, but for pods."""
        for resource, name in ((kinds.STATEFUL_SETS, "plane"), (kinds.DEPLOYMENTS, "syncer")):
            found = await self.find(resource, name)
            if found is not None:
                status = {"observedGeneration": found["metadata"]["generation"], "replicas": found["spec"]["replicas"]}
                await self.client.patch(resource, name, {"status": status}, self.space, subresource="status")

    async def replicas(self) -> tuple[int | None, int | None]:
        plane, syncer = await self.find(kinds.STATEFUL_SETS, "plane"), await self.find(kinds.DEPLOYMENTS, "syncer")
        return (plane and plane["spec"]["replicas"], syncer and syncer["spec"]["replicas"])  # type: ignore[return-value]

    async def filler(self) -> Obj | None:
        return await self.find(kinds.DEPLOYMENTS, "plane-restore-0")

    async def note(self) -> planeidentity.Recorded:
        return planeidentity.recorded(await self.find(kinds.CONFIG_MAPS, planeidentity.NAME))

    async def fill(self, number: int = 0) -> None:
        """A filling pod that is ready."""
        filler = await self.find(kinds.DEPLOYMENTS, f"plane-restore-{number}")
        assert filler is not None
        name = f"filler-{number}" if number else "filler"
        template = filler["spec"]["template"]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": template["metadata"]["labels"]},
            # As it is: the namespace enforces Pod Security.
            "spec": template["spec"],
        }
        await self.client.create(kinds.PODS, body, self.space)
        await self.client.patch(
            kinds.PODS,
            name,
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            self.space,
            subresource="status",
        )

    async def bring(self, bundle: Bundle, uid: str) -> None:
        """The keys, as the command brings them."""
        data = {FILE: bundle.data(), OF: uid.encode()}
        meta = {"name": SECRET, "labels": labels.made_for(self.name)}
        encoded = {name: base64.b64encode(content).decode() for name, content in data.items()}
        await self.client.create(kinds.SECRETS, {"metadata": meta, "type": "Opaque", "data": encoded}, self.space)

    async def told(self, name: str) -> tuple[str, str]:
        found = await self.client.get(kinds.TENANT_RESTORES, name)
        told = find_condition((found.get("status") or {}).get("conditions") or [], "Complete") or {}
        return str(told.get("reason")), str(told.get("message"))


@pytest.fixture
async def world(client: Client, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(client, f"r{abs(hash(request.node.name)) % 100000}")
    await made.start()
    yield made
    await made.close()


def bundle_of(name: str, record: str, service_slice: str, secrets: Mapping[str, Mapping[str, bytes]]) -> Bundle:
    return Bundle(record, {"metadata": {"name": name}, "spec": {"class": "standard"}}, service_slice, secrets)


async def restore(world: World, restore_name: str = "", **changes: Any) -> tuple[Obj, Bundle]:
    """Ask for a restore of this tenant's own plane, or of what is changed."""
    tenant = await world.find(kinds.TENANTS, world.name)
    status = (tenant or {}).get("status") or {}
    identity, uid = status.get("planeIdentity") or OTHER, ((tenant or {}).get("metadata") or {}).get("uid") or OTHER
    known: dict[str, Any] = {
        "identity": identity,
        "tenant": world.name,
        "tenant_uid": uid,
        "service_slice": status.get("serviceSlice") or "10.112.64.0/22",
    }
    known |= changes
    of = PlaneRecord(known["identity"], known["tenant"], known["tenant_uid"], "2026-06-01T12:00:00Z")
    record = RING.sign(planerecord.PURPOSE, of.text())
    manifest = replace(GOLDEN, record=record, **known)
    body = {
        "apiVersion": names.API_VERSION,
        "kind": "TenantRestore",
        "metadata": {"name": restore_name or f"{world.name}-1"},
        "spec": {"tenant": world.name, "manifest": RING.sign(PURPOSE, manifest.text())},
    }
    request = await world.client.create(kinds.TENANT_RESTORES, body)
    files: dict[str, Mapping[str, bytes]] = {}
    for name in ("pki-service-account", "pki-ca-etcd", "pki-ca-users"):
        secret = await world.find(kinds.SECRETS, name)
        if secret is not None:
            files[name] = files_of(secret)
    return request, bundle_of(world.name, record, str(known["service_slice"]), files)


async def test_a_plane_is_stopped_noted_filled_and_started(world: World) -> None:
    await ask(world.client, world.name)
    assert world.controller is not None
    await world.controller.settle(world.name)
    await world.client.create(
        kinds.CONFIG_MAPS,
        {"metadata": {"name": planeidentity.NAME}, "data": {"clusterUID": "u", "highestRevision": "4711"}},
        world.space,
    )
    request, bundle = await restore(world)
    await world.obey()
    # Before the keys are there nothing is touched.
    await world.turns()
    assert await world.replicas() == (1, 1)
    assert (await world.told(request["metadata"]["name"]))[0] == RestoreReason.WAITING
    await world.bring(bundle, request["metadata"]["uid"])
    await world.turns()
    assert await world.replicas() == (0, 0)
    # The host has not stopped anything yet.
    assert (await world.note(), await world.filler()) == (planeidentity.Recorded("u", 4711), None)
    assert (await world.told(request["metadata"]["name"]))[0] == RestoreReason.STOPPING
    await world.obey()
    await world.turns()
    noted = await world.note()
    assert (noted.uid, noted.revision) == ("u", 4711)
    assert noted.quarantine.startswith("restored from snapshot red-1 of 2026-06-01T12:34:56Z")
    filler = await world.filler()
    assert filler is not None
    arguments = filler["spec"]["template"]["spec"]["containers"][0]["command"]
    assert "--bump=1000004711" in arguments
    assert f"--bytes={GOLDEN.parts['etcd.age'].plain}" in arguments
    assert await world.replicas() == (0, 0)
    tenant = await world.client.get(kinds.TENANTS, world.name)
    assert ready(tenant) == ("False", "Restoring")
    claim = await world.find(kinds.PERSISTENT_VOLUME_CLAIMS, "data-plane-0")
    assert claim is not None
    assert claim["metadata"]["labels"][labels.COMPONENT] == "plane"
    await world.fill()
    await world.turns()
    assert await world.replicas() == (1, 1)
    assert await world.filler() is None
    found = await world.client.get(kinds.TENANT_RESTORES, request["metadata"]["name"])
    assert found["status"]["filledTime"]
    assert (await world.told(request["metadata"]["name"]))[0] == RestoreReason.STARTING
    # The plane is filled: nothing goes back, whatever becomes of the pod, the keys or the request's age.
    await world.client.delete(kinds.PODS, "filler", world.space, grace_seconds=0)
    await world.turns()
    assert await world.replicas() == (1, 1)
    assert (await world.note()).quarantine


async def test_a_plane_that_grows_is_restored_with_three_members_and_nothing_goes_on_of_what_it_was_about(world: World) -> None:
    """A recovery that went on would give up two of the volumes that were just filled."""
    offer = tenant_class(controlPlane={"maxReplicas": 3}) | {"metadata": {"name": "growing"}}
    await world.client.apply(kinds.TENANT_CLASSES, offer)
    await ask(world.client, world.name, **{"class": "growing"})
    assert world.controller is not None
    await world.controller.settle(world.name)
    await world.client.patch(kinds.TENANTS, world.name, {"spec": {"controlPlane": {"replicas": 3}}})
    await world.controller.settle(world.name)
    assert await world.replicas() == (3, 1)
    spec = changed(plane_spec(), tenant=world.name, control_plane={"replicas": 3})
    asked = memberrecord.data(spec, Record(recovery=Recovery("plane-2", former="a-pod", discards=("a-claim",))))
    await world.client.patch(kinds.CONFIG_MAPS, memberrecord.CONFIG_MAP, {"data": asked}, world.space)
    request, bundle = await restore(world)
    await world.bring(bundle, request["metadata"]["uid"])
    await world.turns()
    assert await world.replicas() == (0, 0)
    await world.obey()
    await world.turns()
    record = await world.find(kinds.CONFIG_MAPS, memberrecord.CONFIG_MAP)
    assert record is not None
    assert memberrecord.read(record) == replace(Record(), version=record["metadata"]["resourceVersion"])
    cluster = ",".join(f"{pod}={memberrecord.peer_url(spec, pod)}" for pod in memberrecord.pods_of(spec))
    for number in range(3):
        filler = await world.find(kinds.DEPLOYMENTS, f"plane-restore-{number}")
        assert filler is not None
        command = filler["spec"]["template"]["spec"]["containers"][0]["command"]
        assert f"--cluster={cluster}" in command, "each volume is of the same cluster of three"
        assert await world.find(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-plane-{number}") is not None
        await world.turns(1)
        assert await world.replicas() == (0, 0), "every volume has to be filled"
        await world.fill(number)
    await world.turns()
    assert await world.replicas() == (3, 1)


async def test_the_restores_of_a_new_tenant_are_read_from_the_host_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await ask(world.client, world.name)
    assert world.controller is not None
    monkeypatch.setattr(world.restores, "pending", lambda _: [])
    listed, before = list[str](), world.client.list

    async def counted(resource: Any, *arguments: Any, **more: Any) -> Any:
        listed.extend([resource.kind] if resource is kinds.TENANT_RESTORES else [])
        return await before(resource, *arguments, **more)

    monkeypatch.setattr(world.client, "list", counted)
    request, _ = await restore(world, service_slice="10.112.72.0/22")
    await world.turns()
    assert listed == ["TenantRestore"], "its keys are waited for over several turns"
    assert ready(await world.client.get(kinds.TENANTS, world.name)) == ("False", "Restoring")
    monkeypatch.undo()
    # One that is gone is no longer waited for, nor does its slice count.
    await world.client.delete(kinds.TENANT_RESTORES, request["metadata"]["name"])
    await world.turns()
    assert (await world.restores.asked(world.name, new=request["metadata"]["uid"])) == []
    assert await world.find(kinds.SECRETS, SERVICE_ACCOUNT_SECRET) is not None


@pytest.mark.parametrize("seen", [True, False])
async def test_a_plane_comes_back_on_an_empty_host_with_its_identity_slice_and_keys(
    world: World, monkeypatch: pytest.MonkeyPatch, *, seen: bool
) -> None:
    """`seen`: whether the controller's copies have the request when it first sees the Tenant."""
    service_slice = "10.112.64.0/22" if seen else "10.112.68.0/22"
    authority = new_authority("bulkhead:of-the-snapshot:etcd", datetime.now(UTC))
    secrets = {
        "pki-service-account": {"encryption.key": b"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="},
        "pki-ca-etcd": {"tls.crt": authority.certificate, "tls.key": authority.key},
    }
    if not seen:
        monkeypatch.setattr(world.restores, "pending", lambda _: [])
    request, bundle = await restore(world, identity=OTHER, service_slice=service_slice)
    bundle = replace(bundle, secrets=secrets)
    await ask(world.client, world.name)
    await world.turns()
    # Nothing may be drawn before the keys are here: no key, no identity, no plane.
    assert await world.find(kinds.SECRETS, SERVICE_ACCOUNT_SECRET) is None
    assert await world.find(kinds.SECRETS, planerecord.SECRET) is None
    assert await world.replicas() == (None, None)
    assert ready(await world.client.get(kinds.TENANTS, world.name)) == ("False", "Restoring")
    monkeypatch.undo()
    await world.bring(bundle, request["metadata"]["uid"])
    for _ in range(4):
        await world.turns(2)
        await world.obey()
    tenant = await world.client.get(kinds.TENANTS, world.name)
    assert tenant["status"]["planeIdentity"] == OTHER
    assert tenant["status"]["serviceSlice"] == service_slice
    account = await world.find(kinds.SECRETS, SERVICE_ACCOUNT_SECRET)
    assert files_of(account)["encryption.key"] == secrets["pki-service-account"]["encryption.key"]
    # Kubeconfigs from before stay valid: a CA of the snapshot never gives way to a new one.
    assert files_of(await world.find(kinds.SECRETS, "pki-ca-etcd"))["tls.crt"] == authority.certificate
    assert await world.replicas() == (0, 0)
    assert await world.filler() is not None
    await world.fill()
    await world.turns()
    assert await world.replicas() == (1, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"identity": OTHER}, ("is of plane",)),
        ({"tenant": "another"}, ("of Tenant another",)),
        ({"kubernetes": "v1.99.0", "service_slice": "10.112.252.0/22"}, ("newer minor", "10.112.252.0/22")),
    ],
)
async def test_what_does_not_fit_is_refused_with_every_reason_and_nothing_is_touched(
    world: World, changes: Obj, words: tuple[str, ...]
) -> None:
    await ask(world.client, world.name)
    assert world.controller is not None
    await world.controller.settle(world.name)
    request, bundle = await restore(world, **changes)
    await world.bring(bundle, request["metadata"]["uid"])
    await world.turns()
    reason, message = await world.told(request["metadata"]["name"])
    assert reason == RestoreReason.FAILED
    for word in words:
        assert word in message
    assert await world.replicas() == (1, 1)
    assert await world.find(kinds.SECRETS, SECRET) is None
    assert not (await world.note()).quarantine


async def test_a_manifest_that_was_changed_is_refused_and_a_second_restore_waits(world: World) -> None:
    await ask(world.client, world.name)
    assert world.controller is not None
    await world.controller.settle(world.name)
    first, _ = await restore(world)
    second, _ = await restore(world, f"{world.name}-2")
    await world.turns()
    assert (await world.told(second["metadata"]["name"])) == (
        RestoreReason.WAITING,
        f"for TenantRestore {first['metadata']['name']} of the same tenant",
    )
    forged = {**first, "metadata": {"name": f"{world.name}-0"}, "status": None}
    forged["spec"] = first["spec"] | {"manifest": first["spec"]["manifest"].replace("v1.36.3", "v1.36.2")}
    await world.client.delete(kinds.TENANT_RESTORES, first["metadata"]["name"])
    await world.client.delete(kinds.TENANT_RESTORES, second["metadata"]["name"])
    await world.client.create(kinds.TENANT_RESTORES, forged)
    await world.turns()
    reason, message = await world.told(f"{world.name}-0")
    assert (reason, "does not count" in message) == (RestoreReason.FAILED, True)
    assert await world.replicas() == (1, 1)


async def test_an_earlier_note_comes_back_if_nothing_is_restored_and_goes_if_something_is(world: World) -> None:
    await ask(world.client, world.name)
    assert world.controller is not None
    await world.controller.settle(world.name)
    lost = "plane changed identity: cluster UID was u, is v"
    data = {"clusterUID": "u", "highestRevision": "7", "quarantine": lost}
    await world.client.create(kinds.CONFIG_MAPS, {"metadata": {"name": planeidentity.NAME}, "data": data}, world.space)
    request, bundle = await restore(world)
    await world.bring(bundle, request["metadata"]["uid"])
    await world.turns()
    await world.obey()
    await world.turns()
    assert (await world.note()).quarantine.startswith("restored from snapshot")
    broken = {"data": {FILE: base64.b64encode(b"{}").decode()}}
    await world.client.patch(kinds.SECRETS, SECRET, broken, world.space)
    await world.turns()
    assert (await world.told(request["metadata"]["name"]))[0] == RestoreReason.FAILED
    assert await world.note() == planeidentity.Recorded("u", 7, lost)
    assert await world.replicas() == (1, 1)
    # The other end: the data that the earlier note was about is gone.
    host, spec = RestoreHost(world.client), plane_spec(tenant=world.name)
    await host.keep_quarantined(spec, "ours", "u")
    await host.release(spec, "another one", restored=True)
    assert (await world.note()).quarantine == "ours"
    await host.release(spec, "ours", restored=True)
    assert await world.note() == planeidentity.Recorded("u", 7)


class Killed(BaseException):
    """The controller died."""


class Dying(Client):
    """The host's client of a controller that dies right after the next write that changes anything."""

    async def _write(self, method: str, path: str, body: Any, **options: Any) -> Any:
        before = await self._version(path)
        done = await super()._write(method, path, body, **options)
        if before != done["metadata"].get("resourceVersion"):
            raise Killed(path)
        return done

    async def _version(self, path: str) -> str:
        with contextlib.suppress(KubeError):
            return str(json.loads(await self.get_raw(path.removesuffix("/status")))["metadata"]["resourceVersion"])
        return ""


async def test_the_controller_may_die_after_each_of_its_writes(world: World, client: Client) -> None:
    await ask(client, world.name)
    assert world.controller is not None
    await world.controller.settle(world.name)
    await world.obey()
    request, bundle = await restore(world)
    await world.bring(bundle, request["metadata"]["uid"])
    deaths, filled = list[str](), False
    for _ in range(60):
        async with Dying(client.config, user_agent="dying", field_manager="bulkhead-controller") as dying:
            await world.start(dying)
            try:
                await world.turn()
                quiet = True
            except Killed as killed:
                deaths.append(str(killed))
                quiet = False
        await world.obey()
        filler, note = await world.filler(), await world.note()
        if filler is not None:
            assert note.quarantine, "a volume is filled only after the note is there"
            assert filled or await world.replicas() == (0, 0)
            if not filled and await world.find(kinds.PODS, "filler") is None:
                await world.fill()
                filled = True
        if quiet and filled and filler is None:
            break
    assert await world.replicas() == (1, 1)
    assert (await world.told(request["metadata"]["name"]))[0] == RestoreReason.STARTING
    assert len(deaths) >= 8, deaths
    assert (await world.note()).quarantine
