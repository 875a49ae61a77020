"""Clones on a real API server, up to the pods that fill volumes; the tests play the host's workload controllers.

Every write is once the controller's last one: whatever it had done, another one goes on, and no empty plane is ever built.
"""

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

import pytest

from bulkhead.api import labels, names, planeidentity, planerecord
from bulkhead.api.conditions import RestoreReason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Unprocessable
from bulkhead.snapshots.bundle import Bundle
from controller.pki.material import files_of
from controller.plane.restoring import FORMER_FILE, FORMER_KEY
from controller.plane.secrets import SERVICE_ACCOUNT_SECRET
from controller.tenant.facets.restores.host import SECRET
from tests.kit.controllerhost import ask, ready
from tests.kit.restoreworld import OTHER, Dying, Killed, World, answer, die_until_quiet, restore

pytestmark = [pytest.mark.apiserver, pytest.mark.crashes]
FORMER: Final = b"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
CA: Final = {"tls.crt": b"the original's", "tls.key": b"the original's"}
KEYS: Final = {SERVICE_ACCOUNT_SECRET: {"encryption.key": FORMER, "sa.key": b"the original's"}, "pki-ca-client": CA}


@pytest.fixture
async def world(client: Client, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(client, f"c{abs(hash(request.node.name)) % 100000}")
    await made.start()
    yield made
    await made.close()


async def cloned(world: World, service_slice: str = "10.112.128.0/22", **changes: Any) -> tuple[Obj, Bundle]:
    """Ask for a clone, as the command does."""
    original = f"{world.name}o"
    known = {"identity": OTHER, "tenant": original, "service_slice": service_slice} | changes
    request, bundle = await restore(world, clone_of=original, **known)
    return request, replace(bundle, secrets=KEYS)


async def make_tenant(world: World) -> None:
    meta = {"name": world.name, "annotations": {labels.CLONE_OF: f"{world.name}o/one"}}
    body = {"apiVersion": names.API_VERSION, "kind": "Tenant", "metadata": meta, "spec": {"class": "standard"}}
    await world.client.create(kinds.TENANTS, body)


async def test_a_clone_gets_identity_slice_and_keys_of_its_own(world: World) -> None:
    request, bundle = await cloned(world)
    await make_tenant(world)
    await world.turns()
    # Nothing is drawn before the keys are here.
    assert await world.find(kinds.SECRETS, SERVICE_ACCOUNT_SECRET) is None
    assert await world.replicas() == (None, None)
    await world.bring(bundle, request["metadata"]["uid"])
    for _ in range(4):
        await world.turns(2)
        await world.obey()
    tenant = await world.client.get(kinds.TENANTS, world.name)
    assert tenant["status"]["planeIdentity"] == tenant["metadata"]["uid"]
    assert tenant["status"]["serviceSlice"] != "10.112.128.0/22"
    account = files_of(await world.find(kinds.SECRETS, SERVICE_ACCOUNT_SECRET))
    assert account["encryption.key"] != FORMER
    assert len(base64.b64decode(account["encryption.key"])) == 32
    assert account["sa.key"] != b"the original's"
    assert files_of(await world.find(kinds.SECRETS, "pki-ca-client"))["tls.key"] != b"the original's"
    assert files_of(await world.find(kinds.SECRETS, FORMER_KEY)) == {FORMER_FILE: FORMER}
    filler = await world.filler()
    assert filler is not None
    pod = filler["spec"]["template"]["spec"]
    command = pod["containers"][0]["command"]
    assert f"--clone-slice={tenant['status']['serviceSlice']}" in command
    assert "--former-slice=10.112.128.0/22" in command
    assert f"--token={tenant['metadata']['uid']}" in command
    mounted = {item["secret"]["name"]: item["secret"]["items"] for item in pod["volumes"][-1]["projected"]["sources"]}
    assert mounted.keys() == {FORMER_KEY, SERVICE_ACCOUNT_SECRET}
    assert [item["key"] for item in mounted[SERVICE_ACCOUNT_SECRET]] == ["encryption.key"]
    found = await world.client.get(kinds.TENANT_RESTORES, request["metadata"]["name"])
    assert found["status"]["identity"] == tenant["metadata"]["uid"]
    # Nothing of it is on the host, so the syncer needs no note.
    assert await world.note() == planeidentity.Recorded()
    assert await world.replicas() == (0, 0)
    await world.fill()
    await world.turns()
    assert await world.replicas() == (1, 1)
    assert (await world.told(request["metadata"]["name"]))[0] == RestoreReason.STARTING


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tenant": "another"}, ("of Tenant another",)),
        ({"service_slice": "10.112.128.0/20"}, ("10.112.128.0/20", "is smaller")),
        ({"kubernetes": "v1.99.0"}, ("newer minor",)),
    ],
)
async def test_what_cannot_become_a_clone_is_refused_and_no_empty_plane_is_made(
    world: World, changes: Obj, words: tuple[str, ...]
) -> None:
    request, bundle = await cloned(world, **changes)
    await make_tenant(world)
    await world.turns()
    await world.bring(bundle, request["metadata"]["uid"])
    await world.turns()
    reason, message = await world.told(request["metadata"]["name"])
    assert reason == RestoreReason.FAILED
    for word in words:
        assert word in message
    assert await world.find(kinds.SECRETS, SECRET) is None
    await world.turns()
    assert await world.find(kinds.SECRETS, SERVICE_ACCOUNT_SECRET) is None
    assert await world.replicas() == (None, None)
    tenant = await world.client.get(kinds.TENANTS, world.name)
    assert ready(tenant) == ("False", "Restoring")
    assert "kubectl delete tenant" in str(tenant["status"]["conditions"])


async def test_a_request_that_is_deleted_while_it_fills_leaves_no_empty_plane(world: World) -> None:
    request, bundle = await cloned(world)
    await make_tenant(world)
    await world.turns()
    await world.bring(bundle, request["metadata"]["uid"])
    for _ in range(4):
        await world.turns(2)
        await world.obey()
    assert await world.filler() is not None
    await world.client.delete(kinds.TENANT_RESTORES, request["metadata"]["name"])
    for _ in range(3):
        await world.turns(2)
        await world.obey()
    assert await world.replicas() == (0, 0)
    assert await world.find(kinds.SECRETS, FORMER_KEY) is None
    tenant = await world.client.get(kinds.TENANTS, world.name)
    assert ready(tenant) == ("False", "Restoring")


async def test_a_clone_whose_tenant_is_made_again_finds_its_plane(world: World) -> None:
    await make_tenant(world)
    await world.turns()
    assert await world.find(kinds.SECRETS, SERVICE_ACCOUNT_SECRET) is None
    # What the syncer of its plane had written.
    body = {"metadata": {"name": planeidentity.NAME}, "data": {planeidentity.UID_KEY: "of its plane"}}
    await world.client.create(kinds.CONFIG_MAPS, body, world.space)
    await world.turns()
    assert await world.find(kinds.SECRETS, SERVICE_ACCOUNT_SECRET) is not None
    assert await world.replicas() == (1, 1)


async def test_a_clone_takes_the_place_of_no_plane_and_a_class_can_forbid_it(world: World) -> None:
    await ask(world.client, world.name)
    assert world.controller is not None
    await world.controller.settle(world.name)
    before = await world.find(kinds.SECRETS, SERVICE_ACCOUNT_SECRET)
    request, bundle = await cloned(world)
    await world.bring(bundle, request["metadata"]["uid"])
    await world.turns()
    reason, message = await world.told(request["metadata"]["name"])
    assert (reason, "has a plane already" in message) == (RestoreReason.FAILED, True)
    assert await world.replicas() == (1, 1)
    assert files_of(await world.find(kinds.SECRETS, SERVICE_ACCOUNT_SECRET)) == files_of(before)
    forbidding = {"spec": {"backup": {"clones": "Forbidden"}}}
    await world.client.patch(kinds.TENANT_CLASSES, "standard", forbidding)
    try:
        other = World(world.client, f"{world.name}f", world.controller)
        other.restores = world.restores
        request, bundle = await cloned(other)
        await make_tenant(other)
        await other.turns()
        reason, message = await other.told(request["metadata"]["name"])
        assert (reason, "TenantClass standard forbids clones" in message) == (RestoreReason.FAILED, True)
    finally:
        await world.client.patch(kinds.TENANT_CLASSES, "standard", {"spec": {"backup": None}})


async def test_a_clone_of_itself_and_a_hostile_name_are_no_requests(world: World) -> None:
    for original in (world.name, "Red", "red/../blue", "-", "r" * 41):
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "TenantRestore",
            "metadata": {"name": f"{world.name}-1"},
            "spec": {"tenant": world.name, "manifest": "x", "cloneOf": original},
        }
        with pytest.raises(Unprocessable):
            await world.client.create(kinds.TENANT_RESTORES, body)


async def test_the_controller_may_die_after_each_of_its_writes(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, bundle = await cloned(world)
    await make_tenant(world)
    deaths, filled, brought = list[str](), False, False
    keys = set[bytes]()
    for _ in range(90):
        async with Dying(client.config, user_agent="dying", field_manager="bulkhead-controller") as dying:
            await world.start(dying)
            quiet = True
            try:
                await world.turn()
            except Killed as killed:
                deaths.append(str(killed))
                quiet = False
        await world.obey()
        account = files_of(await world.find(kinds.SECRETS, SERVICE_ACCOUNT_SECRET))
        if not brought:
            assert not account
            assert await world.replicas() == (None, None)
        elif account:
            keys.add(account["encryption.key"])
        filler = await world.filler()
        if quiet and not brought:
            await world.bring(bundle, request["metadata"]["uid"])
            brought = True
        if filler is not None and not filled and await world.find(kinds.PODS, "filler") is None:
            assert await world.replicas() in {(0, 0), (0, None), (None, None)}
            await world.fill()
            filled = True
        if not filled:
            assert await world.replicas() in {(0, 0), (0, None), (None, None)}
        if quiet and filled and filler is None:
            break
    assert await world.replicas() == (1, 1)
    assert (await world.told(request["metadata"]["name"]))[0] == RestoreReason.STARTING
    # One key, whichever controller drew it: the pod encrypts with it what the plane reads.
    assert len(keys) == 1
    assert FORMER not in keys
    assert len(deaths) >= 8, deaths
    tenant = await client.get(kinds.TENANTS, world.name)
    record = files_of(await world.find(kinds.SECRETS, planerecord.SECRET))["record.json"].decode()
    assert tenant["metadata"]["uid"] in record
    assert OTHER not in record
    # The plane answers: to the very end.
    assert files_of(await world.find(kinds.SECRETS, FORMER_KEY)) == {FORMER_FILE: FORMER}
    answer(monkeypatch)
    deaths = await die_until_quiet(world)
    assert (await world.told(request["metadata"]["name"]))[0] == RestoreReason.RESTORED
    assert (await world.find(kinds.SECRETS, SECRET), await world.find(kinds.SECRETS, FORMER_KEY)) == (None, None)
    for name in (f"{request['metadata']['name']}/status", SECRET, FORMER_KEY):
        assert any(path.endswith(name) for path in deaths), deaths
