"""The identity of planes, on a real API server: new and earlier planes, records that were exchanged, lost or signed before."""

import asyncio
import base64
import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api import labels, names, planeidentity, planerecord
from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.api.planerecord import PURPOSE, PlaneRecord
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.signing import Ring
from bulkhead.work.clock import SystemClock
from controller.decide.identity import KEYS, runs_as
from controller.host.identitykeys import ROTATE, IdentityKeys
from controller.pki.signingkeys import PRIVATE, new_files, ring_of
from controller.tenant.reconcile import ReconcileFailed
from tests.docs.pages import command_lines
from tests.kit.controllerhost import ControllerHost, FixedKeys, ask, fingerprint, ready
from tests.kit.kubeconfigs import to_yaml
from workstation.hostcluster import binaries

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
ID = "99999999-8888-7777-6666-555555555555"


async def record_of(client: Client, tenant: str, ring: Ring = FixedKeys.held) -> PlaneRecord:
    return planerecord.read(ring.verify(PURPOSE, await envelope_of(client, tenant)).text)


async def envelope_of(client: Client, tenant: str) -> str:
    secret = await client.get(kinds.SECRETS, planerecord.SECRET, f"bh-{tenant}")
    return base64.b64decode(secret["data"][planerecord.FILE]).decode()


async def put(client: Client, tenant: str, envelope: str) -> None:
    data = {planerecord.FILE: base64.b64encode(envelope.encode()).decode()}
    await client.patch(kinds.SECRETS, planerecord.SECRET, {"data": data}, f"bh-{tenant}")


async def runs(client: Client, tenant: str) -> Obj:
    return await client.get(kinds.STATEFUL_SETS, "plane", f"bh-{tenant}")


async def syncs_as(client: Client, tenant: str) -> str:
    found = await client.get(kinds.CONFIG_MAPS, "syncer", f"bh-{tenant}")
    return str(json.loads(found["data"]["settings.json"])["tenantUID"])


async def refused(world: ControllerHost, tenant: str) -> tuple[str, str]:
    await world.caught_up()
    with pytest.raises(ReconcileFailed):
        await world.reconciler.reconcile(tenant)
    found = await world.client.get(kinds.TENANTS, tenant)
    message = next(item["message"] for item in found["status"]["conditions"] if item["type"] == "Ready")
    return ready(found)[1], message


async def recorded(client: Client, name: str, identity: str) -> Obj:
    """A Tenant in whose namespace there is the record of a plane that another Tenant held first."""
    made = await ask(client, name)
    uid = str(made["metadata"]["uid"])
    meta = {"name": f"bh-{name}", "labels": labels.made_for(name), "annotations": {labels.TENANT_UID: uid}}
    await client.create(kinds.NAMESPACES, {"metadata": meta})
    record = FixedKeys.held.sign(PURPOSE, PlaneRecord(identity, name, uid, "2026-06-01T12:00:00Z").text())
    data = {planerecord.FILE: base64.b64encode(record.encode()).decode()}
    meta = {"name": planerecord.SECRET, "namespace": f"bh-{name}", "labels": labels.made_for(name)}
    await client.create(kinds.SECRETS, {"metadata": meta, "data": data})
    return made


async def test_everything_follows_from_the_record_and_nothing_from_the_uid_of_the_tenant(client: Client) -> None:
    made = await recorded(client, "newborn", ID)
    async with ControllerHost(client) as world:
        tenant = await world.settle("newborn")
    assert made["metadata"]["uid"] != ID
    assert tenant["status"]["planeIdentity"] == ID
    assert runs_as(await runs(client, "newborn")) == ID
    assert await syncs_as(client, "newborn") == ID
    flags = json.dumps(await runs(client, "newborn"))
    assert f"--service-account-issuer=https://{ID}.kubernetes.default.svc" in flags
    assert made["metadata"]["uid"] not in flags
    # The namespace says which Tenant it was made for: that is another question.
    namespace = await client.get(kinds.NAMESPACES, "bh-newborn")
    assert namespace["metadata"]["annotations"][labels.TENANT_UID] == made["metadata"]["uid"]


async def test_an_earlier_plane_gets_its_record_and_nothing_of_it_changes(client: Client) -> None:
    uid = str((await ask(client, "older"))["metadata"]["uid"])
    async with ControllerHost(client) as world:
        await world.settle("older")
        # As an earlier release left it.
        await client.delete(kinds.SECRETS, planerecord.SECRET, "bh-older")
        await client.patch(kinds.TENANTS, "older", {"status": {"planeIdentity": None}}, subresource="status")
        before = [entry for entry in await fingerprint(client, "older") if entry[2] != planerecord.SECRET]
        tenant = await world.settle("older")
        after = [entry for entry in await fingerprint(client, "older") if entry[2] != planerecord.SECRET]
    # Not one object was written: neither plane nor syncer starts again.
    assert after == before
    assert (await record_of(client, "older")).id == uid == tenant["status"]["planeIdentity"] == await syncs_as(client, "older")


async def test_records_that_were_exchanged_count_for_neither_and_nothing_is_changed(client: Client) -> None:
    for name in ("swap-a", "swap-b"):
        await ask(client, name)
    async with ControllerHost(client) as world:
        for name in ("swap-a", "swap-b"):
            await world.settle(name)
        ids = [(await record_of(client, name)).id for name in ("swap-a", "swap-b")]
        first, second = [await envelope_of(client, name) for name in ("swap-a", "swap-b")]
        await put(client, "swap-a", second)
        await put(client, "swap-b", first)
        for name, other in (("swap-a", "swap-b"), ("swap-b", "swap-a")):
            before = await fingerprint(client, name)
            reason, message = await refused(world, name)
            assert reason == Reason.IDENTITY_IN_DOUBT
            assert f"Tenant {other}" in message
            assert "bh-" + name in message
            assert await fingerprint(client, name) == before
        # What the message says: the record is made again from what runs.
        await client.delete(kinds.SECRETS, planerecord.SECRET, "bh-swap-a")
        await put(client, "swap-b", second)
        for name in ("swap-a", "swap-b"):
            assert ready(await world.settle(name))[1] != Reason.IDENTITY_IN_DOUBT
        assert [(await record_of(client, name)).id for name in ("swap-a", "swap-b")] == ids


async def test_a_record_that_was_changed_or_emptied_does_not_count(client: Client) -> None:
    await ask(client, "tampered")
    async with ControllerHost(client) as world:
        await world.settle("tampered")
        right = await envelope_of(client, "tampered")
        identity = (await record_of(client, "tampered")).id
        for wrong in ("", "{}", right.replace(identity, "11111111-1111-1111-1111-111111111111")):
            await put(client, "tampered", wrong)
            assert (await refused(world, "tampered"))[0] == Reason.IDENTITY_IN_DOUBT
            assert runs_as(await runs(client, "tampered")) == identity
        await client.patch(kinds.SECRETS, planerecord.SECRET, {"data": None}, "bh-tampered")
        assert (await refused(world, "tampered"))[0] == Reason.IDENTITY_IN_DOUBT
        await put(client, "tampered", right)
        assert ready(await world.settle("tampered"))[1] != Reason.IDENTITY_IN_DOUBT


async def test_a_rotated_key_signs_each_record_again_and_the_older_ones_still_count(client: Client) -> None:
    await ask(client, "turned")
    clock = SystemClock()
    space = "rotation"
    with contextlib.suppress(AlreadyExists):
        await client.create(kinds.NAMESPACES, {"metadata": {"name": space}})
    keys = IdentityKeys(client, space, clock)
    first = await keys.ring()
    # Two controllers that look at the same time have the same keys.
    assert (await IdentityKeys(client, space, clock).ring()).current == first.current
    async with ControllerHost(client, identity=keys) as world:
        await world.settle("turned")
        older = await envelope_of(client, "turned")
        record = await record_of(client, "turned", first)
        await client.patch(kinds.SECRETS, KEYS, {"metadata": {"annotations": {ROTATE: "1"}}}, space)
        second = await keys.ring(fresh=True)
        assert second.current != first.current
        assert (await keys.ring(fresh=True)).current == second.current  # the same request rotates once
        secret = await client.get(kinds.SECRETS, KEYS, space)
        assert sorted(secret["data"]) == sorted([PRIVATE, f"{first.current}.pub", f"{second.current}.pub"])
        await world.settle("turned")
        newer = await envelope_of(client, "turned")
        assert second.verify(PURPOSE, newer).key == second.current
        assert await record_of(client, "turned", second) == record
        # An old backup: it counts, and is signed again.
        await put(client, "turned", older)
        await world.settle("turned")
        assert await envelope_of(client, "turned") == newer


async def test_a_copy_of_the_keys_is_put_back_on_another_host_as_the_page_says(client: Client, tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(to_yaml(client.config))
    program = shutil.which("kubectl") or str(binaries.ensure("kubernetes")["kubectl"])
    lines = [block.text for block in command_lines("kubectl") if block.page == "docs/backup.md" and KEYS in block.text]
    copy, put_back = (f"kubectl {line}".rstrip(")") for line in lines)

    async def run(line: str, space: str) -> None:
        environment = {"KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path), "PATH": f"{Path(program).parent}:/bin"}
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            line.replace(names.SYSTEM_NAMESPACE, space),
            cwd=tmp_path,
            env=environment,
            stderr=asyncio.subprocess.PIPE,
        )
        _, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, err

    clock = SystemClock()
    for space in ("moved-from", "moved-to"):
        await client.create(kinds.NAMESPACES, {"metadata": {"name": space}})
    former, there = IdentityKeys(client, "moved-from", clock), IdentityKeys(client, "moved-to", clock)
    signed, signed_there = [(await keys.ring()).sign(PURPOSE, "a record") for keys in (former, there)]
    await run(copy, "moved-from")
    await run(put_back, "moved-to")
    now = await there.ring(fresh=True)
    assert now.current == (await former.ring()).current
    for envelope in (signed, signed_there):
        assert now.verify(PURPOSE, envelope).text == "a record"


async def test_lost_keys_are_not_replaced_over_records_without_a_word(client: Client) -> None:
    await ask(client, "keyless")

    class Changing:
        held = FixedKeys.held

        async def ring(self, *, fresh: bool = False) -> Ring:
            return self.held

    keys: Any = Changing()
    async with ControllerHost(client, identity=keys) as world:
        await world.settle("keyless")
        keys.held = ring_of(new_files())
        reason, message = await refused(world, "keyless")
        assert reason == Reason.IDENTITY_IN_DOUBT
        assert KEYS in message
        keys.held = FixedKeys.held
        await world.settle("keyless")


async def test_which_data_a_lost_namespace_had_is_recorded_before_its_plane_is_built_once_more(client: Client) -> None:
    """Or the plane comes up empty, its syncer takes it for new, and the Tenant is Ready without its data."""

    async def noted() -> Obj:
        await world.settle("emptied")
        listed = await client.list(kinds.CONFIG_MAPS, "bh-emptied", field_selector=f"metadata.name={planeidentity.NAME}")
        return {key: value for item in listed.items for key, value in item["data"].items()}

    await ask(client, "emptied")
    async with ControllerHost(client) as world:
        assert await noted() == {}, "a plane that never had data"
        await client.patch(kinds.TENANTS, "emptied", {"status": {"planeClusterUID": ID}}, subresource="status")
        assert await noted() == {}, "without a record beside a plane, an admin has accepted its data"
        await client.delete(kinds.STATEFUL_SETS, "plane", "bh-emptied")
        assert await noted() == {planeidentity.UID_KEY: ID}
        # A record that is there stays as it is.
        await client.patch(kinds.CONFIG_MAPS, planeidentity.NAME, {"data": {planeidentity.UID_KEY: "other"}}, "bh-emptied")
        await client.delete(kinds.STATEFUL_SETS, "plane", "bh-emptied")
        assert await noted() == {planeidentity.UID_KEY: "other"}
