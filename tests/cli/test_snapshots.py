"""`bulkhead tenant snapshot` and `verify-snapshot`, against a real API server; what is stored is in a directory."""

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyrage
import pytest

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.snapshots.bundle import Bundle
from bulkhead.snapshots.layout import PLANE, STORE, folder
from bulkhead.snapshots.manifest import PURPOSE, Part
from bulkhead.snapshots.place import Place
from bulkhead.snapshots.sealing import Sealing
from bulkhead.snapshots.target import Target
from controller.pki.signingkeys import new_files, ring_of
from controller.snapshots import status
from controller.snapshots.status import Progress
from tests.kit.commandline import Cli, Controller
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import NOW
from tests.snapshots.samples import GOLDEN, ID, RECORD, record

pytestmark = pytest.mark.commands

FILES = new_files()
RING = ring_of(FILES)
KEY = pyrage.x25519.Identity.generate()
SPACE = "snapshot-keys"


async def say(client: Client, name: str, wanted: Obj) -> None:
    await client.patch(kinds.TENANT_SNAPSHOTS, name, {"status": wanted}, subresource="status")


async def seen(client: Client, name: str) -> Obj:
    async def there() -> Obj | None:
        found = (await client.list(kinds.TENANT_SNAPSHOTS)).items
        return next((request for request in found if request["metadata"]["name"] == name), None)

    found: Obj = await until(there, f"TenantSnapshot {name}")
    return found


async def test_it_asks_shows_and_waits(cli: Cli, controller: Controller, host_client: Client, name: str) -> None:
    await controller.tenant(name)

    async def take() -> None:
        request = await seen(host_client, f"{name}-a")
        assert request["spec"] == {"tenant": name}
        assert request["metadata"]["labels"] == labels.made_for(name), "as a scheduled one has them"
        await say(host_client, f"{name}-a", status.running(request, Progress(1, 4 << 20, 1 << 20), NOW))
        await asyncio.sleep(1)
        made = replace(GOLDEN, identity=ID)
        await say(host_client, f"{name}-a", status.stored(request, made, "s3://bucket/x/manifest.json", NOW))

    done, _ = await asyncio.gather(cli("tenant", "snapshot", name, "--as", f"{name}-a"), take())
    assert done.code == 0, done
    assert "s3://bucket/x/manifest.json" in done.out
    again = await cli("tenant", "snapshot", name, "--as", f"{name}-a")
    assert (again.code, "exists already" in again.err) == (1, True)


async def test_a_snapshot_that_fails_says_why(cli: Cli, controller: Controller, host_client: Client, name: str) -> None:
    await controller.tenant(name)

    async def refuse() -> None:
        request = await seen(host_client, f"{name}-b")
        await say(host_client, f"{name}-b", status.failed(request, "set backup.target of the chart", NOW))

    done, _ = await asyncio.gather(cli("tenant", "snapshot", name, "--as", f"{name}-b"), refuse())
    assert (done.code, "set backup.target" in done.err) == (1, True)


async def test_nobody_takes_it(cli: Cli, controller: Controller, host_client: Client, name: str) -> None:
    assert (await cli("tenant", "snapshot", name)).code == 3
    await controller.tenant(name)
    done = await cli("tenant", "snapshot", name, "--as", f"{name}-c", "--timeout", "1s")
    assert (done.code, "kubectl get tenantsnapshot" in done.err) == (4, True)
    done = await cli("tenant", "snapshot", name, "--no-wait")
    assert (done.code, f"snapshot {name}-2" in done.out) == (0, True)
    for length, code, words in ((129, 1, "at most 128 characters"), (254, 2, "must be an object's name")):
        done = await cli("tenant", "snapshot", name, "--as", "a" * length)
        assert (done.code, words in done.err) == (code, True), done


async def once(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


async def stored(root: Path, snapshot: str) -> Any:
    """A small snapshot in a directory."""
    target, parts = Target(Place("file", str(root))), {}
    store = b"the store" * 1000
    secrets = {"pki-service-account": {"encryption.key": b"key"}}
    keys = Bundle(record(RECORD, RING), {"metadata": {"name": "red"}, "spec": {}}, "10.112.4.0/22", secrets).data()
    for name, data in ((STORE, store + hashlib.sha256(store).digest()), (PLANE, keys)):
        sealing = Sealing(once(data), [str(KEY.to_public())])
        await target.put(f"{folder(ID, snapshot)}/{GOLDEN.attempt}/{name}", sealing.stream())
        parts[name] = Part(sealing.size, sealing.sha256, sealing.plain)
    made = replace(GOLDEN, snapshot=snapshot, record=record(RECORD, RING), parts=parts)
    await target.put_small(f"{folder(ID, snapshot)}/manifest.json", RING.sign(PURPOSE, made.text()).encode())
    return made


async def test_it_is_verified_with_the_admins_key_and_every_fault_is_said(
    cli: Cli, controller: Controller, host_client: Client, name: str, tmp_path: Path
) -> None:
    root, key = tmp_path / "backups", tmp_path / "key.txt"
    root.mkdir()
    key.write_text(f"# a comment\n{KEY}\n")
    made = await stored(root, name)
    for space in (names.SYSTEM_NAMESPACE, SPACE):
        with contextlib.suppress(AlreadyExists):
            await host_client.create(kinds.NAMESPACES, {"metadata": {"name": space}})
    data = {file: base64.b64encode(content).decode() for file, content in FILES.items()}
    await host_client.apply(kinds.SECRETS, {"metadata": {"name": "bulkhead-identity", "namespace": SPACE}, "data": data})
    body = {"apiVersion": names.API_VERSION, "kind": "TenantSnapshot", "metadata": {"name": name}, "spec": {"tenant": "red"}}
    request = await host_client.create(kinds.TENANT_SNAPSHOTS, body)

    async def verify(*options: str) -> tuple[int, str]:
        done = await cli("tenant", "verify-snapshot", name, "--key", str(key), "--namespace", SPACE, *options)
        return done.code, done.out + done.err

    here = ("--directory", str(root))
    assert "is not complete" in (await verify(*here))[1]
    await say(host_client, name, status.stored(request, made, f"file:///backups/{ID}/{name}/manifest.json", NOW))
    code, message = await verify(*here)
    assert (code, "is whole" in message, "with 1 Secrets" in message) == (0, True, True), message
    assert "--directory" in (await verify())[1]
    # As it is stored, it is found without the TenantSnapshot.
    stored_as = ("tenant", "verify-snapshot", f"{ID}/{name}", "--key", str(key), "--namespace", SPACE)
    done = await cli(*stored_as, *here)
    assert (done.code, "is whole" in done.out) == (0, True), done
    done = await cli(*stored_as, "--target", "s3://AKIA:wordpass@bucket")
    assert (done.code, "must have no credentials" in done.err, "wordpass" in done.err) == (2, True, False), done
    done = await cli(*stored_as, "--target", "s3://bucket", "--endpoint", "http://minio.example.org")
    assert (done.code, "allow it by --plain-http" in done.err) == (2, True), done
    # Without the key that signs, nothing is recognised.
    await host_client.delete(kinds.SECRETS, "bulkhead-identity", SPACE)
    code, message = await verify(*here)
    assert (code, "put the copy of the Secret back" in message) == (1, True), message
    await host_client.apply(kinds.SECRETS, {"metadata": {"name": "bulkhead-identity", "namespace": SPACE}, "data": data})
    path = root / folder(ID, name) / GOLDEN.attempt / STORE
    whole = path.read_bytes()
    for wrong, words in (
        (whole[:-1], "truncated"),
        (whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], "age"),
        (None, "missing"),
    ):
        path.unlink(missing_ok=True)
        if wrong is not None:
            path.write_bytes(wrong)
        code, message = await verify(*here)
        assert (code, words in message) == (1, True), message
    path.write_bytes(whole)
    key.write_text(str(pyrage.x25519.Identity.generate()))
    assert "No matching keys" in (await verify(*here))[1]
    key.write_text("secret words")
    code, message = await verify(*here)
    assert (code, "not an age private key" in message, "secret words" in message) == (2, True, False)
    key.unlink()
    assert (await verify(*here))[0] == 2
