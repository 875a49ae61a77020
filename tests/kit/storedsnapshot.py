"""A stored snapshot of a real plane in a directory, and the host that `bulkhead tenant restore` finds."""

import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.snapshots.manifest import Manifest
from controller.pki.signingkeys import new_files, ring_of
from controller.plane.spec import API_SERVER
from controller.snapshots.status import stored
from tests.kit import storecopy
from tests.kit.commandline import Cli, Controller
from tests.kit.planeprocess import ETCD, PlaneProcesses
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import NOW, plane_spec

SPACE = "restore-keys"
ID = "99999999-8888-7777-6666-555555555555"


@dataclass
class Backups:
    """One snapshot of a plane with a pod, and the files that a restore needs."""

    root: Path
    key: Path
    manifest: Manifest
    pod_uid: str
    client: Client

    def where(self) -> tuple[str, ...]:
        return ("--key", str(self.key), "--directory", str(self.root), "--namespace", SPACE)


FILES = new_files()


@pytest.fixture
async def backups(
    cli: Cli, controller: Controller, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Backups]:
    assert cli is not None  # the definitions are installed
    host_client = controller.client
    monkeypatch.setattr(storecopy, "RING", ring_of(FILES))
    spec = plane_spec(tenant=name, identity=ID, service_slice="10.112.4.0/22")
    plane = PlaneProcesses(tmp_path / "plane", spec)
    try:
        with monkeypatch.context() as shared:
            # The command has a cache of its own here, and the plane's programs have not.
            shared.delenv("XDG_CACHE_HOME")
            plane.start(ETCD, API_SERVER)
        plane.wait()
        async with Client(plane.admin, user_agent="tests", field_manager="tests") as inside:

            async def default() -> Obj:
                meta = {"name": "known", "namespace": "default"}
                body = {
                    "metadata": meta,
                    "spec": {"containers": [{"name": "a", "image": "a"}], "serviceAccountName": "default"},
                }
                await inside.apply(kinds.SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
                return await inside.create(kinds.PODS, body)

            async def served() -> bool:
                return any(
                    found["metadata"]["name"] == "kubernetes" for found in (await inside.list_metadata(kinds.SERVICES)).items
                )

            pod = await default()
            # A new API server makes its Service soon after it is ready, and a dry run counts Services.
            await until(served, "the Service of the API server")
        root = tmp_path / "backups"
        of = {"metadata": {"name": name, "labels": {"team": "red"}}, "spec": {"class": "standard"}}
        made = await storecopy.taken(plane, storecopy.in_folder(root), f"{name}-one", of)
    finally:
        plane.stop()
    key = tmp_path / "key.txt"
    key.write_text(f"{storecopy.KEY}\n")
    for space in (SPACE, names.work_namespace(name), names.plane_namespace(name)):
        with contextlib.suppress(AlreadyExists):
            await host_client.create(kinds.NAMESPACES, {"metadata": {"name": space}})
    data = {file: base64.b64encode(content).decode() for file, content in FILES.items()}
    await host_client.apply(kinds.SECRETS, {"metadata": {"name": "bulkhead-identity", "namespace": SPACE}, "data": data})
    body = {
        "apiVersion": names.API_VERSION,
        "kind": "TenantSnapshot",
        "metadata": {"name": f"{name}-one"},
        "spec": {"tenant": name},
    }
    request = await host_client.create(kinds.TENANT_SNAPSHOTS, body)
    told = stored(request, made, f"file:///backups/{ID}/{name}-one/manifest.json", NOW)
    await host_client.patch(kinds.TENANT_SNAPSHOTS, f"{name}-one", {"status": told}, subresource="status")
    await controller.tenant(name)
    mine = {"status": {"planeIdentity": ID, "serviceSlice": "10.112.4.0/22", "versions": {"kubernetes": spec.version}}}
    await host_client.patch(kinds.TENANTS, name, mine, subresource="status")
    yield Backups(root, key, made, str(pod["metadata"]["uid"]), host_client)
    for request in (await host_client.list(kinds.TENANT_RESTORES)).items:
        await host_client.delete(kinds.TENANT_RESTORES, request["metadata"]["name"])


async def asked(client: Client, tenant: str) -> Obj:
    async def there() -> Obj | None:
        found = (await client.list(kinds.TENANT_RESTORES)).items
        return next((request for request in found if request["spec"]["tenant"] == tenant), None)

    found: Obj = await until(there, f"a TenantRestore of {tenant}")
    return found


async def say(client: Client, request: Obj, wanted: Obj) -> None:
    await client.patch(kinds.TENANT_RESTORES, request["metadata"]["name"], {"status": wanted}, subresource="status")
