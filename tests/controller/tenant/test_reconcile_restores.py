"""TenantRestores on a real API server, up to the pods that fill volumes; the tests play the host's workload controllers.

Every write is once the controller's last one: whatever it had done, another one goes on, and nothing starts too early.
"""

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import AsyncMock

import pytest

from bulkhead.api import labels, planeidentity, planerecord
from bulkhead.api.conditions import RestoreReason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Throttled
from controller.pki.issue import new_authority
from controller.pki.material import files_of
from controller.plane import memberrecord
from controller.plane.memberrecord import Record, Recovery
from controller.plane.secrets import SERVICE_ACCOUNT_SECRET
from controller.plane.spec import PLANE, SYNCER
from controller.restores import status
from controller.restores.status import Compared
from controller.tenant.facets.restores.host import FILE, SECRET, RestoreHost
from tests.kit.controllerhost import ask, ready
from tests.kit.restoreworld import OTHER, Dying, Killed, World, answer, die_until_quiet, restore
from tests.kit.tenantsamples import changed, plane_spec, tenant_class
from tests.snapshots.samples import GOLDEN

pytestmark = [pytest.mark.apiserver, pytest.mark.crashes]


@pytest.fixture
async def world(client: Client, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(client, f"r{abs(hash(request.node.name)) % 100000}")
    await made.start()
    yield made
    await made.close()


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


@pytest.mark.parametrize(("component", "waits"), [(SYNCER, False), (PLANE, True)])
async def test_a_syncer_that_is_stuck_on_a_dead_node_holds_no_restore_up(world: World, component: str, waits: bool) -> None:
    spec = plane_spec(tenant=world.name)
    await world.client.create(kinds.NAMESPACES, {"metadata": {"name": spec.namespace}})
    stuck: Obj = {
        "metadata": {"name": "stuck", "labels": labels.made_for(world.name, component)},
        # A pod that has a node without a kubelet: deleted, it stays.
        "spec": {"nodeName": "dead-node", "containers": [{"name": "main", "image": "bulkhead"}]},
    }
    await world.client.create(kinds.PODS, stuck, spec.namespace)
    host, began = RestoreHost(world.client), datetime.now(UTC)
    assert not (await host.look(spec, began + timedelta(hours=1), keys=True)).quiet
    await world.client.delete(kinds.PODS, "stuck", spec.namespace, grace_seconds=10)
    # Until the host refuses its token it may still write.
    assert not (await host.look(spec, began + timedelta(seconds=100), keys=True)).quiet
    assert (await host.look(spec, datetime.now(UTC) + timedelta(seconds=140), keys=True)).quiet is not waits


async def with_keys(world: World) -> Obj:
    """A restore of a tenant that is up, whose keys have come."""
    await ask(world.client, world.name)
    assert world.controller is not None
    await world.controller.settle(world.name)
    request, bundle = await restore(world)
    await world.bring(bundle, request["metadata"]["uid"])
    return request


async def end(world: World, request: Obj) -> None:
    """What a controller writes last of a restore, before it dies."""
    done = status.restored(request, GOLDEN, Compared(), datetime.now(UTC))
    await world.client.patch(kinds.TENANT_RESTORES, request["metadata"]["name"], {"status": done}, subresource="status")


@pytest.mark.parametrize("ended", ["finished", "deleted"])
async def test_the_keys_of_a_restore_go_however_it_has_ended_and_those_of_a_new_one_stay(
    world: World, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    request = await with_keys(world)
    if ended == "finished":
        await end(world, request)
    else:
        await world.client.delete(kinds.TENANT_RESTORES, request["metadata"]["name"])
    await world.turn()
    assert await world.find(kinds.SECRETS, SECRET) is None
    assert await world.replicas() == (1, 1)
    # The Secret of a new one is there, and the controller's copies do not have the request yet.
    new, bundle = await restore(world, f"{world.name}-2")
    await world.bring(bundle, new["metadata"]["uid"])
    with monkeypatch.context() as behind:
        behind.setattr(world.restores, "pending", lambda _: [])
        await world.turn()
    assert await world.find(kinds.SECRETS, SECRET) is not None
    await world.turns()
    assert await world.replicas() == (0, 0)


async def test_a_host_that_refuses_to_delete_the_keys_keeps_no_plane_from_being_built(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = await with_keys(world)
    await end(world, request)
    await world.client.delete(kinds.DEPLOYMENTS, SYNCER, world.space)
    with monkeypatch.context() as refusing:
        refused = AsyncMock(side_effect=Throttled(429, "TooManyRequests", "slow down"))
        refusing.setattr(RestoreHost, "drop", refused)
        await world.turn()
        assert refused.await_count
    assert await world.replicas() == (1, 1)
    assert await world.find(kinds.SECRETS, SECRET) is not None
    await world.turn()
    assert await world.find(kinds.SECRETS, SECRET) is None


async def test_the_controller_may_die_after_each_of_its_writes(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    # The plane answers: to the very end.
    answer(monkeypatch)
    deaths += await die_until_quiet(world)
    assert (await world.told(request["metadata"]["name"]))[0] == RestoreReason.RESTORED
    assert not (await world.note()).quarantine
    assert await world.find(kinds.SECRETS, SECRET) is None
    assert await world.replicas() == (1, 1)
    for name in (planeidentity.NAME, f"{request['metadata']['name']}/status", SECRET):
        assert any(path.endswith(name) for path in deaths), deaths
